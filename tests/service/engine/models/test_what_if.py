"""What-if: lists as if a user had rated so, beside those of a service that has really learned the ratings."""

import copy
from typing import Any

import numpy as np
import pytest

from service.base.errors import InvalidRequest
from service.engine.errors import UnknownUser
from service.engine.lists.ranking import Ranking
from service.engine.queries import Recommend
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId, TypedEvent
from tests.service.engine.test_learned_events import (
    COUNTED,
    DECAYED,
    LATER,
    as_events,
    events,
    history_of,
    learn,
    live,
    ranking_of,
    trained,
)
from tests.service.planted import entries

ALGORITHMS = (
    "als", "als-implicit", "culsh", "culsh-implicit", "ease", "esgd", "nmf", "sgd", *DECAYED, *COUNTED,
)  # fmt: skip
# New ratings, changed ones, some of items with events, and removed ones; of u0, i8 is disliked and i13 only seen.
EXTRA: list[tuple[str, float | None]] = [
    ("i1", 5.0), ("i2", 1.0), ("i6", None), ("i3", 4.0), ("i8", None), ("i13", 2.0), ("i30", None), ("i2", 4.5),
]  # fmt: skip
# Events beside these: of rated items, of a disliked one, of one that was only seen, and of others.
MORE: list[tuple[str, str, float]] = [
    ("i1", "rate", 1.0), ("i8", "purchase", 1.0), ("i13", "impression", 1.0), ("i4", "purchase", 2.0),
    ("i5", "dislike", 1.0), ("i9", "impression", 1.0), ("i4", "dislike", 1.0), ("i6", "rate", 1.0),
    ("i10", "purchase", 900.0),
]  # fmt: skip
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"include_seen": True}, {"rotate": (60.0, 0.0)}, {"explain": True, "n": 5},
    {"exclude": ["i7"], "candidates": ["i6", "i7", "i9", "i14"]}, {"seen_types": ["rating", "purchase"]},
    {"seen_types": ["rate", "impression"], "exclude": ["i7"]},
)  # fmt: skip
LAST = StreamId(3000, 0)


def asked(ranking: Ranking, **query: Any) -> Any:
    (answer,) = ranking.answer([Recommend(**{"n": 40} | query)], StreamId(9, 0))
    if isinstance(answer, Exception):
        raise answer
    return answer


def rated(number: int, user: str, *ratings: tuple[str, float | None]) -> Entry:
    """An entry at the time of the last one, which is now to a what-if."""
    last = dict(ratings)
    return Entry(StreamId(LAST.ms, number), "rating", [RatingEvent(user, item, last[item], 9e9) for item in last])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("has_events", "has_more"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_list_is_that_of_a_service_that_has_learned_the_ratings(
    algorithm: str, has_events: bool, has_more: bool
) -> None:
    given = [*(as_events(entries()) if algorithm in COUNTED else entries())]
    given += [events(LAST.ms, *LATER)] if has_events else [Entry(LAST, "noop")]
    known = history_of(given)
    model = trained(known, algorithm)
    ranking = ranking_of(known, live(known, model))
    before, are_changed = state_of(known, ranking), list[bool]()
    more: dict[str, Any] = {"events": [(*event, None) for event in MORE]} if has_more else {}
    for user in ("u0", "u1", "stranger"):
        learned = history_of(given)
        other = ranking_of(learned, live(learned, model))
        learn(learned, other, rated(1, user, *EXTRA))
        if has_more:
            done = [TypedEvent(user, item, type_, value, 9e9) for item, type_, value in MORE]
            learn(learned, other, Entry(StreamId(LAST.ms, 2), "event", events=done))
        for options in OPTIONS:
            answer = asked(ranking, user=user, ratings=EXTRA, **more, **options)
            assert answer == asked(other, user=user, **options)
            assert answer.personalized
            are_changed.append(answer != asked(ranking, user=user, **options))
    assert any(are_changed)
    assert state_of(known, ranking) == before


def state_of(history: History, ranking: Ranking) -> tuple[Any, ...]:
    """Everything that learning changes."""
    (live_model,) = ranking.models()
    arrays = {name: array.tobytes() for name, array in live_model.model.arrays.items()}
    tables = [history.table, history.strengths.table]
    counts = [
        (table.n_ratings, table.item_counts.tobytes(), len(history.users), len(history.items)) for table in tables
    ]
    return copy.deepcopy((arrays, counts, history.position))


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    history = history_of(entries())
    return ranking_of(history, *(live(history, trained(history, name)) for name in ("als-implicit", "sgd")))


def test_events_alone_make_a_list(ranking: Ranking) -> None:
    even = [(f"i{n}", "purchase", 1.0, None) for n in range(0, 12, 2)]
    answer = asked(ranking, events=even, n=10)
    assert (answer.user, answer.personalized) == (None, True)
    assert np.mean([int(line.item[1:]) % 2 == 0 for line in answer.items]) > 0.8
    assert {item for item, *_ in even}.isdisjoint(line.item for line in answer.items)
    # Explicit models do not learn events, but their lists leave out the items.
    fallback = asked(ranking, events=even, n=40, model="sgd")
    assert (fallback.personalized, fallback.fallback) == (False, "popular")
    assert {item for item, *_ in even}.isdisjoint(line.item for line in fallback.items)
    seen = [("i1", "dislike", 1.0, None), ("i5", "impression", 1.0, None), ("i3", "no type", 1.0, None)]
    for options, missing in (({}, {"i1", "i5"}), ({"include_seen": True}, {"i1"}), ({"rotate": (60.0, 1.0)}, {"i1"})):
        shown = {line.item for line in asked(ranking, events=[*even, *seen], n=40, **options).items}
        assert {"i1", "i3", "i5"} - shown == missing


def test_unknown_items_are_named_and_users_without_taste_get_popular_items(ranking: Ranking) -> None:
    answer = asked(ranking, user="u0", ratings=[("i1", 5.0), ("nowhere", 3.0)])
    assert (answer.personalized, answer.warnings) == (True, ["unknown items in ratings: 'nowhere'"])
    answer = asked(ranking, user="stranger", ratings=[("nowhere", 3.0), ("i1", None)])
    assert (answer.user, answer.personalized, answer.fallback) == ("stranger", False, "popular")
    assert "unknown items in ratings: 'nowhere'" in answer.warnings
    with pytest.raises(UnknownUser):
        asked(ranking, user="stranger", ratings=[("nowhere", 3.0)], fallback="none")
    of_u0 = [(one.item, None) for one in asked(ranking, user="u0", include_seen=True).items]
    assert asked(ranking, user="u0", ratings=of_u0).personalized is False


def test_the_latest_ratings_weigh_more(ranking: Ranking) -> None:
    even, odd = [(f"i{n}", 5.0) for n in range(0, 12, 2)], [(f"i{n}", 5.0) for n in range(1, 13, 2)]

    def share_of_even(*ratings: tuple[str, float], **options: Any) -> float:
        found = asked(ranking, ratings=ratings, n=10, **options).items
        return float(np.mean([int(one.item[1:]) % 2 == 0 for one in found]))

    assert share_of_even(*even, *odd, order_half_life=1.0) < 0.2
    assert share_of_even(*odd, *even, order_half_life=1.0) > 0.8
    assert asked(ranking, ratings=[*odd, *even]) == asked(ranking, ratings=[*even, *odd])
    # Times decide the order that the API sends, and a very long half-life changes nothing but rounding.
    slow = asked(ranking, ratings=[*odd, *even], order_half_life=1e9)
    assert [one.item for one in slow.items] == [one.item for one in asked(ranking, ratings=[*odd, *even]).items]


def test_stored_ratings_are_older_than_extra_ones(ranking: Ranking) -> None:
    odd = [(f"i{n}", 5.0) for n in range(1, 40, 2)]
    plain = asked(ranking, user="u0", order_half_life=2.0, n=5, include_seen=True)  # without extra ratings
    changed = asked(ranking, user="u0", ratings=odd, order_half_life=2.0, n=5, include_seen=True)
    assert all(int(one.item[1:]) % 2 == 0 for one in plain.items)
    assert all(int(one.item[1:]) % 2 == 1 for one in changed.items)


def test_a_model_that_cannot_weigh_ratings_refuses(ranking: Ranking) -> None:
    with pytest.raises(InvalidRequest, match=r"Invalid order_half_life: expected a model that weighs .* got 'sgd'"):
        asked(ranking, ratings=[("i1", 5.0)], order_half_life=5.0, model="sgd")
