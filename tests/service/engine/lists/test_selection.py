"""Lists with filters are the lists without, less what does not pass; while items come, change and go."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.base.errors import InvalidRequest
from service.engine.lists.ranking import Ranking
from service.engine.queries import Neighbors, Popular, Query, Recommend
from service.engine.queries.filter_tree import HasTag, InRange, Node, Not, text_of
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.item_changes import ItemChange
from tests.service.engine.lists.test_ranking import ask, resident_of
from tests.service.planted import entries

NAMES = ("culsh", "als-implicit", "ease")
EVEN, THIRD, NONE, EVERY = HasTag("a", ("even",)), HasTag("a", ("third",)), HasTag("a", ("none",)), InRange("n", 0.0)
NODES: tuple[Node, ...] = (EVEN, THIRD, NONE, EVERY, Not(THIRD), Not(InRange("n", 7.0, 7.0)), InRange("n", 7.0, 7.0))


class World:
    """A live model and a catalog that change together."""

    def __init__(self, *names: str) -> None:
        self.history, self._ms = History(), 5000
        self.history.apply(entries())
        self.ranking = Ranking(self.history, [])
        self.ranking.recount()
        for name in names:
            self.ranking.install(resident_of(self.history, name))
        self.put(*(ItemChange(f"i{n}", tags=tags_of(n), numbers={"n": n}) for n in range(40)))

    def apply(self, entry: Entry) -> None:
        applied = self.history.apply([entry])
        self.ranking.note(applied)
        for live_model in self.ranking.models():
            live_model.learn(applied)
            assert live_model.settle(None)

    def put(self, *changes: ItemChange) -> None:
        self._ms += 1
        self.apply(Entry(StreamId(self._ms, 0), "item", items=list(changes)))

    def rate(self, *ratings: tuple[str, str, float]) -> None:
        self._ms += 1
        self.apply(Entry(StreamId(self._ms, 0), "rating", [RatingEvent(*rating, 0.0) for rating in ratings]))

    def hide(self, item: str) -> None:
        self._ms += 1
        self.apply(Entry(StreamId(self._ms, 0), "hide", subject=item))

    def items(self, query: Query) -> list[Any]:
        answer = ask(self.ranking, query)
        return list(answer.neighbors if isinstance(query, Neighbors) else answer.items)

    def passes(self, item: str, node: Node) -> bool:
        has = self.history.catalog.attributes(self.history.items.row(item) or 0)
        match node:
            case HasTag(name, values):
                return has is not None and bool({*values} & {*has.tags.get(name, ())})
            case InRange(name, least, most):
                number = None if has is None else has.numbers.get(name)
                return number is not None and (least or 0) <= number <= (most or 1e9)
            case Not(part):
                return not self.passes(item, part)
        raise AssertionError(node)


def tags_of(n: int) -> dict[str, list[str] | None]:
    return {"a": [*(["even"] if n % 2 == 0 else []), *(["third"] if n % 3 == 0 else []), "every"]}


@pytest.fixture(scope="module")
def worlds() -> dict[str, World]:
    world = World(*NAMES)
    world.put(ItemChange("i4", op="delete"), ItemChange("i6", op="patch", available=False), ItemChange("unrated"))
    world.hide("i9")
    world.put(ItemChange("i12", op="patch", until=1.0), ItemChange("i15", op="patch", published=9e9))
    world.put(ItemChange("new", tags={"a": ["even"]}), ItemChange("i20", tags={"a": ["none"]}))
    world.rate(("u1", "new", 5.0), ("u2", "new", 1.0))
    world.put(ItemChange("i20", tags=tags_of(3)))
    return {"all": world}


@pytest.mark.parametrize("name", NAMES)
@given(st.data())
@settings(max_examples=25)
def test_filtered_lists_are_the_lists_without_what_does_not_pass(
    worlds: dict[str, World], name: str, data: st.DataObject
) -> None:
    world, queries, wanted = worlds["all"], list[Query](), list[Any]()
    for _ in range(data.draw(st.integers(1, 4))):
        asked: dict[str, Any] = {
            **data.draw(st.sampled_from([{"user": "u1"}, {"user": "u2"}, {"ratings": [("i2", 5.0)]}, {"user": "w"}])),
            "model": name,
            "available": data.draw(st.booleans()),
            "include_seen": data.draw(st.booleans()),
            "exclude": data.draw(st.sampled_from([[], ["i0", "i8", "new"]])),
            "candidates": data.draw(st.sampled_from([None, ["i0", "i3", "i4", "i6", "i10", "new", "i33", "nowhere"]])),
            "min_ratings": data.draw(st.sampled_from([0, 0, 3])),
        }
        node = data.draw(st.sampled_from(NODES))
        n, offset = data.draw(st.sampled_from([(100, 0), (3, 0), (4, 2)]))
        whole = [one for one in world.items(Recommend(n=100, **asked)) if world.passes(one.item, node)]
        queries.append(Recommend(n=n, offset=offset, filter=text_of(node), **asked))
        wanted.append(whole[offset : offset + n])
    for answer, items in zip(world.ranking.answer(queries, StreamId(1, 0)), wanted, strict=True):
        assert [one.item for one in answer.items] == [one.item for one in items]
        assert [one.score for one in answer.items] == pytest.approx([one.score for one in items])


@pytest.mark.parametrize("name", NAMES)
def test_popular_items_and_neighbors_obey_filters(worlds: dict[str, World], name: str) -> None:
    world = worlds["all"]
    for node, available in itertools.product(NODES, (True, False)):
        common: dict[str, Any] = {"n": 100, "available": available}
        whole = world.items(Popular(**common))
        found = world.items(Popular(**common, filter=text_of(node)))
        assert found == [one for one in whole if world.passes(one.item, node)]
        common |= {"kind": "item", "id": "i2", "model": name}
        whole = world.items(Neighbors(**common))
        found = world.items(Neighbors(**common, filter=text_of(node)))
        assert found == [one for one in whole if world.passes(one.item, node)]


def test_lists_show_what_is_available_and_no_deleted_item(worlds: dict[str, World]) -> None:
    world = worlds["all"]
    shown = {one.item for one in world.items(Popular(n=100))}
    assert not shown & {"i4", "i6", "i9", "i12", "i15", "unrated"}
    assert "new" in shown
    every = {one.item for one in world.items(Popular(n=100, available=False))}
    assert every - shown == {"i6", "i12", "i15"}
    for name in NAMES:
        asked: dict[str, Any] = {"user": "u1", "n": 100, "include_seen": True, "model": name}
        assert {one.item for one in world.items(Recommend(**asked))} == shown
        assert {one.item for one in world.items(Recommend(**asked, available=False))} == every


def test_the_answer_counts_what_passes(worlds: dict[str, World]) -> None:
    ranking, history = worlds["all"].ranking, worlds["all"].history
    n_shown = len(history.items) - 5  # deleted, hidden, and three that are not available
    for node, count in ((EVERY, 34), (NONE, 0), (Not(NONE), n_shown)):
        for query in (Recommend(user="u1", filter=text_of(node)), Recommend(user="w", filter=text_of(node))):
            assert ask(ranking, query).eligible == count
        assert ask(ranking, Popular(filter=text_of(node))).eligible == count
        assert ask(ranking, Neighbors(kind="item", id="i2", filter=text_of(node))).eligible == count


def test_an_unknown_name_fails_its_query_alone(worlds: dict[str, World]) -> None:
    bad = text_of(HasTag("b", ("x",)))
    queries = [Recommend(user="u1", filter=bad), Recommend(user="u1"), Recommend(users=["u1", "w"], filter=bad)]
    answers = worlds["all"].ranking.answer(queries, StreamId(1, 0))
    assert [isinstance(answer, InvalidRequest) for answer in answers] == [True, False, True]


def test_deleted_candidates_give_a_warning(worlds: dict[str, World]) -> None:
    for user in ("u1", "w"):
        answer = ask(worlds["all"].ranking, Recommend(user=user, candidates=["i4", "i2", "nowhere"]))
        assert [one for one in answer.warnings if "popular" not in one] == [
            "unknown items in candidates: 'nowhere'", "deleted items in candidates: 'i4'",
        ]  # fmt: skip


def test_a_deleted_item_is_back_with_its_ratings(worlds: dict[str, World]) -> None:
    world = World("sgd")
    before = world.items(Recommend(user="u1", n=100, include_seen=True))
    world.put(ItemChange("i4", op="delete"), ItemChange("i5", op="delete"))
    assert len(world.items(Recommend(user="u1", n=100, include_seen=True))) == 38
    world.put(ItemChange("i4"), ItemChange("i5"))
    assert world.items(Recommend(user="u1", n=100, include_seen=True)) == before
