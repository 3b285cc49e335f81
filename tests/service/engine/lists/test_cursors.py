"""Lists read page by page while the service learns: nothing repeated, nothing passed over."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import UNSET

from service.api.door.connection_table import ConnectionLimits
from service.base.errors import InvalidRequest, NotReady
from service.engine.errors import Gone
from service.engine.lists import cursors
from service.engine.lists.cursors import Cursors
from service.engine.lists.ranking import Ranking
from service.engine.models import similar
from service.engine.queries import LatestItems, Neighbors, Popular, Recommend, SetNeighbors
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.item_changes import ItemChange
from tests.service.engine.test_learned_events import history_of, learn, live, ranking_of, trained
from tests.service.planted import N_ITEMS, entries

KEY = bytes(range(32))
MODELS = "als-implicit", "culsh"
LISTS: dict[str, Any] = {
    "user": Recommend(user="u0", n=3),
    "user with explanations": Recommend(user="u1", n=3, explain=True, include_seen=True, exclude=["i3"]),
    "stranger": Recommend(user="stranger", n=4),
    "anonymous": Recommend(ratings=[("i2", 5.0), ("i5", 1.0)], n=3),
    "what if": Recommend(user="u2", ratings=[("i2", 5.0), ("i5", None)], n=3),
    "candidates": Recommend(user="u0", n=2, candidates=[f"i{n}" for n in range(0, 40, 3)], include_seen=True),
    "explicit model": Recommend(user="u0", n=3, model="culsh"),
    "popular": Popular(n=4),
    "trending": Popular(n=4, half_life="1d"),
    "latest": LatestItems(n=4),
    "neighbors": Neighbors(kind="item", id="i4", n=4),
    "neighbors by hashing": Neighbors(kind="item", id="i4", n=1, model="culsh"),
    "neighbors of a set": SetNeighbors(items=["i4", "i7"], n=4),
    "users": Neighbors(kind="user", id="u4", n=7),
}


class World:
    """A history with two models, and what answers from it."""

    def __init__(self, key: bytes = KEY) -> None:
        self.history = history_of(entries())
        self.use(ranking_of(self.history, *(live(self.history, model) for model in models())), key)

    def use(self, ranking: Ranking, key: bytes = KEY) -> None:
        self.ranking = ranking
        ranking.signer.key = key

    def ask(self, query: Any, **changes: Any) -> Any:
        (answer,) = self.ranking.answer([msgspec.structs.replace(query, **changes)], StreamId(9, 0))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def learn(self, ms: int, *ratings: tuple[str, str, float | None]) -> None:
        learn(self.history, self.ranking, Entry(StreamId(ms, 0), "rating", [RatingEvent(*one, 3.0) for one in ratings]))


_models: list[Any] = []


def models() -> list[Any]:
    if not _models:
        history = history_of(entries())
        _models.extend(trained(history, name) for name in MODELS)
    return _models


@pytest.fixture(scope="module")
def still() -> World:
    """A world in which nothing is learned."""
    return World()


def names(answer: Any) -> list[str]:
    lines = answer.neighbors if hasattr(answer, "neighbors") else answer.items
    return [getattr(one, "user", None) or one.item for one in lines]


@pytest.mark.parametrize("name", LISTS)
def test_pages_together_are_the_whole_list(still: World, name: str) -> None:
    query = LISTS[name]
    whole = names(still.ask(query, n=100))
    assert still.ask(query).next is msgspec.UNSET
    found: list[list[str]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = still.ask(query, cursor=cursor, n=query.n + len(found) % 2)  # pages may have several lengths
        found.append(names(page))
        cursor = page.next
    assert [one for page in found for one in page] == whole
    assert len(found) >= 2


@pytest.mark.parametrize("name", LISTS)
def test_a_reader_misses_nothing_that_is_learned_meanwhile(name: str) -> None:
    """Each page is the best of what was not shown, by a plain list of the same moment, on one of two replicas."""
    query, replicas, rng = LISTS[name], (World(), World()), np.random.default_rng(3)
    shown: list[str] = []
    cursor: str | None = ""
    for step in range(100):
        world = replicas[step % 2]
        page = world.ask(query, cursor=cursor)
        expected = [one for one in names(world.ask(query, n=100)) if one not in shown][: query.n]
        assert names(page) == expected
        shown += names(page)
        cursor = page.next
        if cursor is None:
            break
        rated = [(f"u{rng.integers(60)}", f"i{rng.integers(N_ITEMS)}", float(rng.integers(1, 6))) for _ in range(8)]
        for replica in replicas:
            replica.learn(3000 + step, *rated, ("newer", f"new{step}", 4.0))
    assert step > 0
    assert cursor is None
    assert len(shown) == len(set(shown))


def test_a_cursor_outlives_a_restart_after_a_user_was_forgotten() -> None:
    world = World()
    users, items = (world.ask(LISTS[name], cursor="") for name in ("users", "user"))
    forgotten = next(one for one in ("u1", "u2", "u3") if one not in names(users))
    rest = [Entry(one.id, "rating", [r for r in one.ratings if r.user != forgotten]) for one in entries()]
    history = History()
    history.apply([one for one in rest if one.ratings])
    other = World()
    learn(other.history, other.ranking, Entry(StreamId(4000, 0), "forget", subject=forgotten))
    restarted = Cursors(history, other.ranking.live, other.ranking.signer)
    query = msgspec.structs.replace(LISTS["users"], cursor=users.next)
    assert set(restarted.opened(query)[0].exclude) == set(names(users))
    assert not set(names(other.ask(LISTS["user"], cursor=items.next))) & set(names(items))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "x", "unaltered"),
        (lambda text: "ä" * 40, "unaltered"),
        (lambda text: text[:-1] + ("A" if text[-1] != "A" else "Q"), "unaltered"),
        (lambda text: text[:50] + ("A" if text[50] != "A" else "B") + text[51:], "unaltered"),
        (lambda text: text[:-4], "unaltered"),
        (lambda text: text + "=", "unaltered"),
        (lambda text: "A" * len(text), "unaltered"),
    ],
)
def test_an_altered_cursor_is_refused(still: World, change: Callable[[str], str], message: str) -> None:
    cursor = still.ask(LISTS["user"], cursor="").next
    with pytest.raises(InvalidRequest, match=f"Invalid cursor: expected `next` of an earlier page, {message}"):
        still.ask(LISTS["user"], cursor=change(cursor))


@pytest.mark.parametrize(
    "changes", [{"user": "u1"}, {"include_seen": True}, {"exclude": ["i1"]}, {"model": "als-implicit"}]
)
def test_a_cursor_of_another_list_is_refused(still: World, changes: dict[str, Any]) -> None:
    cursor = still.ask(LISTS["user"], cursor="").next
    with pytest.raises(InvalidRequest, match="got one of another user or with other parameters"):
        still.ask(LISTS["user"], cursor=cursor, **changes)
    with pytest.raises(InvalidRequest, match="got one of another user or with other parameters"):
        still.ask(LISTS["popular"], cursor=cursor)


def test_a_cursor_of_another_service_is_refused(still: World) -> None:
    cursor = still.ask(LISTS["user"], cursor="").next
    with pytest.raises(InvalidRequest, match="a service with the same Redis"):
        World(bytes(32)).ask(LISTS["user"], cursor=cursor)
    with pytest.raises(InvalidRequest, match="Invalid offset: expected 0 with a cursor"):
        still.ask(LISTS["user"], cursor=cursor, offset=1)


@pytest.mark.parametrize("name", ["user", "popular"])
def test_a_cursor_of_another_version_is_gone(still: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """While replicas are upgraded one by one, with the same key."""
    with monkeypatch.context() as earlier:
        earlier.setattr(cursors, "FORMAT", 1)
        earlier.setattr(cursors, "_context", lambda query: b"other bytes of the same query")
        earlier.setattr(cursors, "packed", lambda numbers, _: numbers.astype("<u4").tobytes())
        cursor = still.ask(LISTS[name], cursor="").next
    with pytest.raises(Gone, match="of another version of the service: begin again with `cursor=`"):
        still.ask(LISTS[name], cursor=cursor)


def test_a_cursor_ends_with_its_model() -> None:
    world = World()
    cursor, popular = (world.ask(LISTS[name], cursor="").next for name in ("user", "popular"))
    world.ranking.install(live(world.history, models()[0], number=2))
    with pytest.raises(Gone, match=r"als-implicit-1 is not live any more: begin again with `cursor=`"):
        world.ask(LISTS["user"], cursor=cursor)
    assert world.ask(LISTS["popular"], cursor=popular).items
    world.use(Ranking(world.history, ["als-implicit"]))
    world.ranking.live.expected = frozenset(["als-implicit"])
    with pytest.raises(NotReady):
        world.ask(LISTS["user"], cursor=cursor)


def test_a_model_that_becomes_the_default_does_not_take_over_a_list() -> None:
    world = World()
    world.use(Ranking(world.history, ["als-implicit", "culsh"]))
    als, culsh = (live(world.history, model) for model in models())
    world.ranking.install(culsh)
    first = world.ask(LISTS["user"], cursor="")
    world.ranking.install(als)
    assert world.ask(LISTS["user"]).model == "als-implicit"
    assert world.ask(LISTS["user"], cursor=first.next).model == first.model == "culsh"


def test_a_list_ends_at_the_longest_cursor(still: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursors, "MAX_SHOWN", 5)
    first = still.ask(LISTS["user"], cursor="")
    assert still.ask(LISTS["user"], cursor=first.next).next is None


def test_without_a_key_pages_wait(still: World) -> None:
    ranking = Ranking(still.history, [])
    (answer, plain) = ranking.answer([Popular(cursor=""), Popular()], StreamId(9, 0))
    assert isinstance(answer, NotReady)
    assert plain.next is msgspec.UNSET


def test_pins_keep_their_places_in_the_whole_list(still: World) -> None:
    query = Recommend(user="u0", n=3, pins=[("i9", 1), ("i14", 5)], include_seen=True)
    first = still.ask(query, cursor="")
    second = still.ask(query, cursor=first.next)
    assert names(first)[0] == "i9"
    assert names(second)[1] == "i14"
    assert not set(names(first)) & set(names(second))


@pytest.mark.parametrize(
    ("size", "n_rows", "n_shown"), [(4, 1_000_000, 10_000), (4, 5_000, 5_000), (5, 2**40, 2_000), (4, 9, 0)]
)
def test_what_was_shown_has_room_in_a_url(size: int, n_rows: int, n_shown: int) -> None:
    shown = np.random.default_rng(n_shown).integers(0, n_rows, n_shown).astype(np.uint64)
    packed = cursors.packed(shown, size)
    assert np.array_equal(cursors.unpacked(packed, size), np.sort(shown))
    assert len(packed) * 4 / 3 < ConnectionLimits.url_bytes - 1024


def test_a_page_that_is_made_in_slices_has_titles_and_the_next_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    world, query = World(), Neighbors(kind="item", id="i4", n=4, cursor="", with_="title")
    world.history.apply(
        [Entry(StreamId(4000, 0), "item", items=[ItemChange(f"i{n}", title=f"T{n}") for n in range(9)])]
    )
    whole = world.ask(query)
    assert UNSET not in [one.title for one in whole.neighbors if int(one.item[1:]) < 9]
    monkeypatch.setattr(similar, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(similar, "SLICE_S", 0.0)
    slices = world.ask(query)
    with pytest.raises(StopIteration) as stop:
        while True:
            next(slices)
    assert stop.value.value == whole
    assert whole.next is not None
