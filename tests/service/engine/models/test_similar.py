"""Neighbors of a set of items, beside the neighbors of each of them; and the users for an item."""

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from service.base.errors import InvalidRequest
from service.engine.errors import UnknownItem
from service.engine.lists.ranking import Ranking
from service.engine.models import similar
from service.engine.queries import ItemUsers, Neighbors, NeighborsOfSet, Query, Recommend, SetNeighbors
from service.engine.queries.filter_tree import HasTag, text_of
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.item_changes import ItemChange
from service.storage.user_changes import UserChange
from tests.service.engine.test_learned_events import events, history_of, learn, live, ranking_of, trained
from tests.service.planted import N_ITEMS, N_USERS, entries

ALGORITHMS = "als-implicit", "als", "ease", "culsh", "neighbors"


@pytest.fixture(scope="module")
def history() -> History:
    tagged = [ItemChange(f"i{n}", tags={"kind": ["few" if n % 4 == 0 else "many"]}) for n in range(0, N_ITEMS, 2)]
    given = [*entries(), Entry(StreamId(2500, 0), "item", items=tagged), Entry(StreamId(2500, 1), "hide", subject="i9")]
    halves = [UserChange(f"u{n}", tags={"half": ["odd" if n % 2 else "even"]}) for n in range(N_USERS)]
    return history_of([*given, Entry(StreamId(2600, 0), "user", user_changes=halves)])


@pytest.fixture(scope="module")
def ranking(history: History) -> Ranking:
    return ranking_of(history, *(live(history, trained(history, name)) for name in ALGORITHMS))


def asked(ranking: Ranking, query: Query) -> Any:
    (answer,) = ranking.answer([query], StreamId(9, 0))
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.mark.parametrize("model", ALGORITHMS)
def test_a_set_of_one_has_the_neighbors_of_its_item(ranking: Ranking, model: str) -> None:
    for item in ("i0", "i9", "i17"):
        one = asked(ranking, Neighbors(kind="item", id=item, n=7, model=model))
        found = asked(ranking, SetNeighbors(items=[item, item], n=7, model=model))
        assert (found.neighbors, found.model_version, found.warnings) == (one.neighbors, one.model_version, [])


@pytest.mark.parametrize("model", ALGORITHMS)
def test_scores_are_means_over_the_set(ranking: Ranking, model: str) -> None:
    rng = np.random.default_rng(7)
    every = {f"i{n}" for n in range(N_ITEMS)}
    of_one: dict[str, dict[str, float]] = {}
    for item in every:
        found = asked(ranking, Neighbors(kind="item", id=item, n=N_ITEMS, model=model)).neighbors
        of_one[item] = {one.item: one.score for one in found}
    for size in (2, 3, 10):
        chosen = rng.choice(sorted(every - {"i9"}), size, replace=False).tolist()
        found = asked(ranking, SetNeighbors(items=chosen, n=N_ITEMS, model=model))
        scores = {one.item: one.score for one in found.neighbors}
        if model == "culsh":  # which lists few neighbors of an item
            listed = set().union(*(of_one[item] for item in chosen)) - set(chosen)
            assert set(scores) == listed
        elif model == "neighbors":
            listed = set().union(*(of_one[item] for item in chosen)) - set(chosen)
            means = {item: np.mean([of_one[one].get(item, 0.0) for one in chosen]) for item in listed}
            assert scores == pytest.approx(means, abs=1e-7)
        else:
            means = {item: np.mean([of_one[one][item] for one in chosen]) for item in every - set(chosen) - {"i9"}}
            assert scores == pytest.approx(means, abs=1e-5)
        assert list(scores.values()) == sorted(scores.values(), reverse=True)
        few = asked(ranking, SetNeighbors(items=chosen, n=3, model=model)).neighbors
        assert few == found.neighbors[:3]


@pytest.mark.parametrize("model", ALGORITHMS)
def test_filters_narrow_the_neighbors(ranking: Ranking, model: str) -> None:
    text = text_of(HasTag("kind", ("few",)))
    whole = asked(ranking, SetNeighbors(items=["i0", "i3"], n=N_ITEMS, model=model)).neighbors
    some = asked(ranking, SetNeighbors(items=["i0", "i3"], n=N_ITEMS, model=model, filter=text))
    assert some.neighbors == [one for one in whole if int(one.item[1:]) % 4 == 0]
    assert some.eligible == 10


def test_unknown_items_are_named_and_left_out(ranking: Ranking) -> None:
    found: NeighborsOfSet = asked(ranking, SetNeighbors(items=["i0", "nowhere", "i3"]))
    assert found.neighbors == asked(ranking, SetNeighbors(items=["i3", "i0"])).neighbors
    assert found.warnings == ["unknown items in the set: 'nowhere'"]
    with pytest.raises(UnknownItem, match="'nowhere'"):
        asked(ranking, SetNeighbors(items=["nowhere"]))


@pytest.mark.parametrize("model", ALGORITHMS)
@pytest.mark.parametrize("segment", [None, "odd"])
def test_users_for_an_item_are_those_with_the_highest_scores_who_have_not_seen_it(
    ranking: Ranking, history: History, model: str, segment: str | None
) -> None:
    item = "i7"
    rated = {rating.user for entry in entries() for rating in entry.ratings if rating.item == item}
    text = None if segment is None else text_of(HasTag("half", (segment,)))
    every = {f"u{n}" for n in range(N_USERS) if segment is None or n % 2}
    found = asked(ranking, ItemUsers(item=item, n=1000, model=model, filter=text))
    assert {one.user for one in found.users} == every - rated
    assert found.eligible == (UNSET if segment is None else N_USERS // 2)
    estimates = {
        user: asked(ranking, Recommend(user=user, n=N_ITEMS, model=model, candidates=[item])).items
        for user in every - rated
    }
    constant = {round(estimates[one.user][0].score - one.score, 3) for one in found.users}
    assert len(constant) == 1  # what lists add for the item, the same for all users
    assert [one.score for one in found.users] == sorted((one.score for one in found.users), reverse=True)
    few = asked(ranking, ItemUsers(item=item, n=3, model=model, filter=text))
    assert few.users == found.users[:3]


def finished(slices: Generator[None, None, Any]) -> tuple[int, Any]:
    """The number of further slices, and the answer."""
    n = 0
    while True:
        try:
            next(slices)
        except StopIteration as stop:
            return n, stop.value
        n += 1


@pytest.mark.parametrize("model", ALGORITHMS)
def test_slices_of_users_give_the_list_of_all(ranking: Ranking, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [ItemUsers(item="i7", n=n, model=model) for n in (1, 5, 1000)]
    whole = [asked(ranking, query) for query in queries]
    monkeypatch.setattr(similar, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(similar, "SLICE_S", 0.0)
    for query, found in zip(queries, whole, strict=True):
        n_slices, in_slices = finished(asked(ranking, query))
        assert n_slices > 3
        assert in_slices == found


@pytest.mark.parametrize("model", ALGORITHMS)
def test_slices_of_neighbors_give_the_list_of_all(
    ranking: Ranking, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_user = Neighbors(kind="user", id="u3", n=N_USERS, exclude=["u5"], model=model)
    of_set = SetNeighbors(items=["i3", "i7"], n=9, model=model)
    queries: list[Query] = [of_user, Neighbors(kind="item", id="i7", n=5, model=model), of_set]
    whole = [asked(ranking, query) for query in queries]
    monkeypatch.setattr(similar, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(similar, "SLICE_S", 0.0)
    for query, found in zip(queries, whole, strict=True):
        answer = asked(ranking, query)
        if query is not of_user and model not in ("als-implicit", "als"):  # the others read no factors of all items
            assert answer == found
            continue
        n_slices, in_slices = finished(answer)
        assert n_slices > 3
        assert in_slices == found


def test_neighbors_stay_whole_while_users_and_items_come_and_go_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    history = history_of(entries())
    ranking = ranking_of(history, *(live(history, trained(history, name)) for name in ("als", "ease")))
    for model in ("als", "ease"):
        query = Neighbors(kind="user", id="u3", n=1000, model=model)
        first, *others = [one.user for one in asked(ranking, query).neighbors]
        with monkeypatch.context() as patched:
            patched.setattr(similar, "ROWS_AT_ONCE", 2)
            patched.setattr(similar, "SLICE_S", 0.0)
            slices = asked(ranking, query)
            next(slices)
            late = [RatingEvent(f"late-{model}", f"late-{n}", 4.0, 1.0) for n in range(500)]
            learn(history, ranking, Entry(StreamId(5000 + len(model), 0), "rating", late))
            learn(history, ranking, Entry(StreamId(5000 + len(model), 1), "forget", subject=first))
            assert {one.user for one in finished(slices)[1].neighbors} == set(others)


def test_who_is_forgotten_between_two_slices_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    history = history_of(entries())
    ranking = ranking_of(history, live(history, trained(history, "als")))
    first, second, *_ = [one.user for one in asked(ranking, ItemUsers(item="i7")).users]
    learn(history, ranking, events(3000, (second, "i7", "purchase")))
    monkeypatch.setattr(similar, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(similar, "SLICE_S", 0.0)
    slices = asked(ranking, ItemUsers(item="i7", n=1000))
    for _ in range(3):
        next(slices)
    learn(history, ranking, Entry(StreamId(4000, 0), "forget", subject=first))
    left = [one.user for one in finished(slices)[1].users]
    assert not {first, second, ""} & set(left)
    assert len(left) == 10


def test_events_keep_users_out_and_unknown_items_are_told() -> None:
    history = history_of(entries())
    ranking = ranking_of(history, live(history, trained(history, "als")))
    first = [one.user for one in asked(ranking, ItemUsers(item="i7")).users]
    learn(history, ranking, events(3000, (first[0], "i7", "purchase"), (first[2], "i7", "impression")))
    assert [one.user for one in asked(ranking, ItemUsers(item="i7", n=1)).users] == [first[1]]
    left = [one.user for one in asked(ranking, ItemUsers(item="i7")).users]
    assert left == [user for user in first if user not in (first[0], first[2])]
    learn(history, ranking, Entry(StreamId(4000, 0), "item", items=[ItemChange("new"), ItemChange("i8", op="delete")]))
    found = asked(ranking, ItemUsers(item="new"))
    assert (found.users, found.warnings) == ([], ["'new' has no ratings, and the model knows nothing else of it"])
    for item in ("i8", "nothing"):
        with pytest.raises(UnknownItem):
            asked(ranking, ItemUsers(item=item))
    with pytest.raises(InvalidRequest, match="expected a tag of users"):
        asked(ranking, ItemUsers(item="i7", filter=text_of(HasTag("kind", ("few",)))))
