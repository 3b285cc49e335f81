import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.data.decay import DAY_S
from gpu.data.rating_table import POSITIONS_PER_MS, RatingTable
from gpu.trend.host_counts import Moves
from service.engine.lists.trending import Days, Trending
from tests.service.engine.lists.test_popularity import best

H, N_USERS, N_ITEMS = 100.0, 4, 5
Change = tuple[int, int, float | None, float, float]
changes = st.lists(
    st.tuples(
        st.integers(0, N_USERS - 1),
        st.integers(0, N_ITEMS - 1),
        st.sampled_from([None, -1.0, 0.0, 3.0]),
        st.floats(0, 900),  # seconds since the change before
        st.floats(-3000, 500),  # how far the client's time is behind
    ),
    max_size=30,
)


def apply(table: RatingTable, change: Change, now_s: float) -> list[Moves]:
    user, item, value, _, lag = change
    columns = np.array([user]), np.array([item]), np.array([np.nan if value is None else value], dtype=np.float32)
    done = table.apply(*columns, np.array([now_s - lag]), np.array([int(now_s * 1000) * POSITIONS_PER_MS]))
    return [Moves.of(done.items, done.old, done.old_times, -1), Moves.of(done.items, done.new, done.times, 1)]


def shown(trending: Trending) -> tuple[list[int], list[float]]:
    return best(trending, N_ITEMS, 0, np.ones(N_ITEMS, dtype=np.bool_))


@given(changes, st.integers(1, 6))
def test_counts_are_exact_in_any_grouping(given_changes: list[Change], together: int) -> None:
    table, now_s = RatingTable(N_USERS, N_ITEMS), 1e6
    trending, waiting = Trending(H), list[Moves]()
    for n, change in enumerate(given_changes):
        now_s = np.floor((now_s + change[3]) * 1000) / 1000
        waiting += apply(table, change, now_s)
        if n % together == 0 or n == len(given_changes) - 1:
            trending.note(Moves.joined(waiting), N_ITEMS, now_s)
            waiting = []
            if trending.counts.must_recount:
                recount(trending, table, now_s)
    again = Trending(H)
    recount(again, table, now_s)
    assert shown(trending) == shown(again)
    expected = np.zeros(N_ITEMS)
    for user in range(N_USERS):
        items, values, times, positions = table.row(user)
        ages = (now_s - np.minimum(times, positions / POSITIONS_PER_MS / 1000)) / H
        np.add.at(expected, items[values >= 0], 0.5 ** ages[values >= 0])
    rows, scores = shown(again)
    assert scores == pytest.approx(expected[rows].tolist(), rel=1e-3, abs=1e-4)
    assert set(np.flatnonzero(expected > 1e-4)) <= set(rows)
    assert (np.diff(scores) <= 0).all()


def recount(trending: Trending, table: RatingTable, now_s: float) -> None:
    trending.clear()
    for items, values, times in table.portions():
        trending.note(Moves.of(items, values, times, 1), N_ITEMS, now_s)


def test_without_new_pairs_the_order_stays_and_scores_go_down() -> None:
    trending, nothing = Trending(H), Moves(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int64))
    trending.note(Moves(np.array([0, 1, 1]), np.array([0.0, H, H]), np.ones(3, dtype=np.int64)), 3, H)
    assert best(trending, 3, 0, np.ones(3, dtype=np.bool_)) == ([1, 0], [2.0, 0.5])
    trending.note(nothing, 3, 1000 * H)
    rows, scores = best(trending, 3, 0, np.ones(3, dtype=np.bool_))
    assert rows == [1, 0]
    assert 0 < scores[1] < scores[0] < 1e-200


def test_days_tell_how_long_pairs_are_spread() -> None:
    days, rng = Days(), np.random.default_rng(0)
    assert days.span((0.01, 0.99)) == 0
    times = rng.uniform(0, 200 * DAY_S, 1000)
    items = np.zeros(1000, dtype=np.int64)
    for part in (slice(400), slice(400, None)):
        days.note(Moves(items[part], times[part], np.ones(len(items[part]), dtype=np.int64)))
    assert 190 <= days.span((0.01, 0.99)) <= 200
    late = times > 10 * DAY_S
    days.note(Moves(items[late], times[late], np.full(np.count_nonzero(late), -1)))
    assert 8 <= days.span((0.01, 0.99)) <= 10


def test_days_without_pairs_have_no_span() -> None:
    """Also while pairs that go were not counted, as before the first recount."""
    days, one = Days(), np.ones(1, dtype=np.int64)
    days.note(Moves(one, np.array([5 * DAY_S]), -one))
    assert days.span((0.01, 0.99)) == 0
    days.note(Moves(one, np.array([9 * DAY_S]), one))
    assert days.span((0.01, 0.99)) == 0
