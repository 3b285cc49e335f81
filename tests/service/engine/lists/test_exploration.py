"""Exploration against its definition: place by place, from the exact list of all items."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from service.engine.lists.exploration import DAY_MS
from service.engine.lists.ranking import Ranking
from service.engine.queries import Recommend, Recommendation, ScoredItem
from service.engine.queries.filter_tree import HasTag, text_of
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.item_changes import ItemChange
from tests.service.engine.test_learned_events import history_of, live, ranking_of, trained
from tests.service.planted import entries, liking

ALGORITHMS = "als-implicit", "culsh", "ease", "neighbors"
BELOW = 8
N_FEW = 40  # items with 0 to 9 ratings
AS_OF = StreamId(5 * DAY_MS + 1, 0)
CATALOG = [ItemChange(f"few{n}", tags={"parity": ["even" if n % 2 == 0 else "odd"]}) for n in range(N_FEW)]


def few_ratings() -> Entry:
    rated = [(user, item) for item in range(N_FEW) for user in range(item % 10)]
    events = [RatingEvent(f"u{7 * user % 60}", f"few{item}", liking(user, item), 100.0) for user, item in rated]
    return Entry(StreamId(1500, 0), "rating", events)


@pytest.fixture(scope="module", params=ALGORITHMS)
def ranked(request: pytest.FixtureRequest) -> Iterator[tuple[History, Ranking]]:
    history = history_of([*entries(), few_ratings(), Entry(StreamId(1900, 0), "item", items=CATALOG)])
    model = trained(history, request.param)
    history.apply([Entry(StreamId(3000, 0), "rating", [RatingEvent(f"u{user}", "later", 5.0, 1.0) for user in (1, 5)])])
    yield history, ranking_of(history, live(history, model))


def items(ranking: Ranking, as_of: StreamId = AS_OF, **asked: Any) -> list[ScoredItem]:
    (answer,) = ranking.answer([Recommend(**asked)], as_of)
    assert isinstance(answer, Recommendation)
    return answer.items


def row_of(history: History, item: str) -> int:
    row = history.items.row(item)
    assert row is not None
    return row


def count(history: History, item: str) -> int:
    return int(history.table.item_counts[row_of(history, item)])


def explored_by_hand(
    history: History, exact: list[Any], places: list[int], unscored: set[str]
) -> list[tuple[str, bool]]:
    """The list by its definition; `exact` is the whole list without exploration."""
    few = [one for one in exact if count(history, one.item) < BELOW and one.item not in unscored]
    bests: dict[int, float] = {}
    for one in few:
        bests.setdefault(count(history, one.item), one.score)
    fewest, most = min(bests, default=0), max(bests, default=0)
    c = 0.0
    if fewest < most:
        c = (max(bests.values()) - min(bests.values())) / (1 / math.sqrt(1 + fewest) - 1 / math.sqrt(1 + most))
    few.sort(
        key=lambda one: (-(one.score + c * (1 / math.sqrt(1 + count(history, one.item)))), row_of(history, one.item))
    )
    made: list[tuple[str, bool]] = []
    for place in range(len(exact)):
        left = {one.item for one in exact} - {item for item, _ in made}
        new = [one.item for one in few if one.item in left]
        is_explored = place in places and bool(new)
        made.append((new[0] if is_explored else next(one.item for one in exact if one.item in left), is_explored))
    return made


def shown(found: list[ScoredItem]) -> list[tuple[str, bool]]:
    return [(one.item, one.source == "explore") for one in found]


CONDITIONS: list[dict[str, Any]] = [
    {},
    {"include_seen": True, "explain": True},
    {"filter": text_of(HasTag("parity", ("even",))), "include_seen": True},
    {"exclude": ["few3", "few17", "i2"]},
    {"candidates": [f"few{n}" for n in range(12)] + ["i1", "i2", "i3", "i4"]},
    {"min_ratings": 3},
]


@pytest.mark.parametrize("conditions", CONDITIONS, ids=lambda one: next(iter(one), "none"))
def test_lists_are_those_of_the_definition(ranked: tuple[History, Ranking], conditions: dict[str, Any]) -> None:
    history, ranking = ranked
    model = ranking.models()[0].model
    are_scored = model.item_trained | (not model.params.has_item_weights)  # EASE has weights of trained items alone
    unscored = {history.items.id(row) for row in np.flatnonzero(~are_scored).tolist()}
    for user in ("u0", "u3", "u41"):
        exact = items(ranking, user=user, n=200, **conditions)
        scores = {one.item: one.score for one in exact}
        for share in (0.1, 0.35, 1.0):
            asked = {"user": user, "explore": share, "explore_below": BELOW, **conditions}
            whole = items(ranking, n=200, **asked)
            places = [place for place, one in enumerate(whole) if one.source == "explore"]
            assert shown(whole) == explored_by_hand(history, exact, places, unscored)
            assert {one.item: one.score for one in whole} == scores
            n_few = sum(count(history, one) < BELOW and one not in unscored for one in scores)
            assert len(places) >= min(n_few, 1 if share < 1 else n_few // 2)


def test_a_share_of_the_places_is_explored(ranked: tuple[History, Ranking]) -> None:
    ranking = ranked[1]

    def places(user: str | None, day: int = 5, share: float = 0.25) -> list[int]:
        who: dict[str, Any] = {"ratings": [("i1", 5.0)]} if user is None else {"user": user, "include_seen": True}
        found = items(ranking, StreamId(day * DAY_MS, 0), n=40, explore=share, **who)
        return [place for place, one in enumerate(found) if one.source == "explore"]

    users = [f"u{user}" for user in range(20)]
    for user in users:
        assert [len([one for one in places(user) if first <= one < first + 4]) for first in (0, 3, 7, 20)] == [1] * 4
        assert places(user) == places(user)
    assert {places(user)[0] for user in users} == {0, 1, 2, 3}
    assert len({tuple(places("u0", day)) for day in range(20)}) == 4
    assert places("u0", share=0.0) == []
    assert len(places(None)) == 10


def test_pages_are_slices_of_the_whole_list(ranked: tuple[History, Ranking], monkeypatch: pytest.MonkeyPatch) -> None:
    ranking = ranked[1]
    asked: dict[str, Any] = {"explore": 0.4, "explore_below": BELOW, "exclude": ["i9"]}
    whole = items(ranking, user="u3", n=200, **asked)
    pages = [
        Recommend(user="u3", n=n, offset=offset, **asked) for n, offset in ((3, 0), (7, 2), (5, 11), (90, 4), (4, 500))
    ]
    for query, answer in zip(pages, ranking.answer(pages, AS_OF), strict=True):
        assert answer.items == whole[query.offset : query.offset + query.n]
    plain = items(ranking, user="u3", n=200, exclude=["i9"])
    monkeypatch.setattr("gpu.ranking.topn.MAX_N", 12)
    explored = {one.item for one in whole[:12] if one.source == "explore"}
    rest = [one for one in plain if one.item not in explored]
    expected = whole[:12] + rest[12 - len(explored) :]
    pages = [Recommend(user="u3", n=n, offset=offset, **asked) for n, offset in ((12, 0), (8, 8), (5, 12), (12, 30))]
    for query, answer in zip(pages, ranking.answer(pages, AS_OF), strict=True):
        assert answer.items == expected[query.offset : query.offset + query.n]


def test_several_users_get_the_lists_that_each_gets_alone(ranked: tuple[History, Ranking]) -> None:
    ranking = ranked[1]
    users = ["u0", "u3", "nobody", "u7"]
    query = Recommend(users=users, n=9, explore=0.5, explore_below=BELOW)
    narrow = Recommend(user="u7", n=9, explore=0.3, explore_below=2, filter=text_of(HasTag("parity", ("odd",))))
    together, other = ranking.answer([query, narrow], AS_OF)
    for user, answer in zip(users, together, strict=True):
        assert answer.items == items(ranking, user=user, n=9, explore=0.5, explore_below=BELOW)
    assert other.items == items(ranking, user="u7", n=9, explore=0.3, explore_below=2, filter=narrow.filter)
    assert {one.source for one in together[2].items} == {UNSET}  # of the fallback


def test_a_rating_moves_an_item_out_of_exploration() -> None:
    history = history_of([*entries(), few_ratings()])
    ranking = ranking_of(history, live(history, trained(history, "als-implicit")))

    def explored() -> set[str]:
        found = items(ranking, user="u58", n=200, explore=1.0, explore_below=2, include_seen=True)
        return {one.item for one in found if one.source == "explore"}

    assert explored() == {f"few{n}" for n in (1, 11, 21, 31)}
    applied = history.apply([Entry(StreamId(9000, 0), "rating", [RatingEvent("u58", "few11", 4.0, 9.0)])])
    ranking.note(applied)
    for live_model in ranking.models():
        live_model.learn(applied)
        assert live_model.settle(None)
    assert explored() == {f"few{n}" for n in (1, 21, 31)}
