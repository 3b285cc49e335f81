import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.data.decay import Times
from gpu.data.signals import Trend
from gpu.trend.host_counts import BLOCK, DecayedCounts, Moves, lifts_of_training
from tests.gpu.models import ratings_of

H, N_ITEMS = 10.0, 6
pairs = st.lists(st.tuples(st.integers(0, N_ITEMS - 1), st.floats(-400, 900), st.booleans()), min_size=1, max_size=40)


def counts_of(kept: list[tuple[int, float]], n_items: int = N_ITEMS) -> DecayedCounts:
    counts = DecayedCounts(H)
    counts.note(moves(kept, 1), n_items)
    return counts


def moves(some: list[tuple[int, float]], sign: int) -> Moves:
    return Moves(
        np.array([item for item, _ in some], dtype=np.int64),
        np.array([time for _, time in some], dtype=np.float64),
        np.full(len(some), sign),
    )


@given(pairs, st.integers(1, 5))
def test_sums_are_those_of_the_present_pairs_however_they_came(some: list[tuple[int, float, bool]], n: int) -> None:
    """Pairs come in groups, some go again; sums and shares are those of a count from scratch, and of the definition."""
    counts, held = DecayedCounts(H), list[tuple[int, float]]()
    for first in range(0, len(some), n):
        part = some[first : first + n]
        gone = [held.pop() for _, _, goes in part if goes and held]
        come = [(item, time) for item, time, _ in part]
        held += come
        counts.note(Moves.joined([moves(gone, -1), moves(come, 1)]), N_ITEMS)
        if counts.must_recount:
            counts.clear()
            counts.note(moves(held, 1), N_ITEMS)
    again = counts_of(held)
    assert counts.sums.values.tolist() == again.sums.values.tolist()
    assert (counts.newest, counts.level) == (again.newest, again.level)
    now = max(time for _, time in held)
    exact = np.zeros(N_ITEMS)
    np.add.at(exact, [item for item, _ in held], [0.5 ** ((now - time) / H) for _, time in held])
    shares = counts.shares(slice(None))
    assert 0.999 < shares.max() < 2 ** (1 / 8) + 0.001
    np.testing.assert_allclose(shares / shares.max(), exact / exact.max(), atol=1e-4)


def test_who_follows_hears_of_each_changed_item() -> None:
    counts = counts_of([(0, 0.0), (1, 5.0)])
    seen = counts.n_changes
    assert rows_since(counts, seen) == []
    counts.note(moves([(3, 6.0)], 1), N_ITEMS)
    counts.note(moves([(1, 6.0)], 1), N_ITEMS)
    assert rows_since(counts, seen) == [1, 3]
    assert rows_since(counts, seen + 1) == [1]
    counts.note(moves([(2, BLOCK * H)], 1), N_ITEMS)  # a new block: all sums have another unit
    assert counts.changed_since(seen) is None
    assert counts.changed_since(-1000) is None


def rows_since(counts: DecayedCounts, seen: int) -> list[int]:
    rows = counts.changed_since(seen)
    assert rows is not None
    return rows.tolist()


def test_shares_hardly_depend_on_the_block() -> None:
    """Time passes a landmark: the shares of all others stay, but for rounding."""
    kept = [(item, BLOCK * H - 1 - item) for item in range(4) for _ in range(10)]
    before, after = counts_of(kept), counts_of([*kept, (5, BLOCK * H + 1)])
    assert after.newest == before.newest + 1
    np.testing.assert_allclose(before.shares(slice(4)), after.shares(slice(4)), rtol=1e-3)


def test_old_pairs_alone_count_among_each_other() -> None:
    """Imported ratings of years ago have the trends of their time."""
    assert counts_of([(0, 0.0), (1, H)]).shares(slice(2)).tolist() == pytest.approx([0.5, 1.0])


def test_a_model_without_a_trend_lifts_nothing() -> None:
    ratings = ratings_of(np.array([[1.0, np.nan, 2.0], [3.0, 4.0, np.nan]]))
    times = Times(np.array([0.0, 86_400.0, 86_400.0, 0.0]), 86_400.0)
    assert lifts_of_training(None, ratings, times) is None
    assert lifts_of_training(Trend(), ratings, times) is None
    assert lifts_of_training(Trend(2.0, 1.0), ratings, None) is None
    lifts = lifts_of_training(Trend(2.0, 1.0), ratings, times)
    assert lifts is not None
    np.testing.assert_allclose(lifts, np.array([3, 1, 2]) * 2 / 3, rtol=0.1)
