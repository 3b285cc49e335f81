import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.data.host_trends import BLOCK
from gpu.data.rating_table import POSITIONS_PER_MS, RatingTable
from service.engine.lists.trending import N_BLOCKS, Moves, Trending
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
    again = Trending(H)
    for items, values, times in table.portions():
        again.note(Moves.of(items, values, times, 1), N_ITEMS, now_s)
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


def test_what_is_very_old_is_dropped_and_what_is_new_counts_most() -> None:
    trending = Trending(H)
    items = np.array([0, 0, 0, 1, 2])
    times = np.array([0.0, 0.0, 0.0, 10 * H, 11 * H])
    trending.note(Moves(items, times, np.ones(5, dtype=np.int64)), 3, 11 * H)
    assert shown3(trending) == [2, 1, 0]
    late_s = (N_BLOCKS + 1) * BLOCK * H
    nothing = np.zeros(0, dtype=np.int64)
    trending.note(Moves(nothing, np.zeros(0), nothing), 3, late_s)
    assert shown3(trending) == []
    trending.note(Moves(np.array([0]), np.array([0.0]), np.array([-1])), 3, late_s)  # of a block that is gone
    trending.note(Moves(np.array([1]), np.array([late_s]), np.array([1])), 3, late_s)
    assert best(trending, 3, 0, np.ones(3, dtype=np.bool_)) == ([1], [1.0])


def shown3(trending: Trending) -> list[int]:
    return best(trending, 3, 0, np.ones(3, dtype=np.bool_))[0]
