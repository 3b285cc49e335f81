from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.table import RatingTable
from service.popularity import Popularity

N_ITEMS = 5
changes = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, N_ITEMS - 1), st.sampled_from([np.nan, -2.0, 1.0, 4.5])), max_size=40
)


def applied(popularity: Popularity, table: RatingTable, batch: list[tuple[int, int, float]], first: int) -> None:
    users, items, values = (np.array([change[n] for change in batch]) for n in range(3))
    new = values.astype(np.float32)
    positions = np.arange(first, first + len(batch))
    old = table.apply(users.astype(np.int32), items.astype(np.int32), new, positions.astype(np.float64), positions)
    popularity.note(items.astype(np.int32), old, new, N_ITEMS)


@settings(deadline=None)  # the first example compiles
@given(changes, st.integers(0, 40))
def test_changes_and_a_recount_agree(batch: list[tuple[int, int, float]], cut: int) -> None:
    noted, counted, table = Popularity(), Popularity(), RatingTable(4, N_ITEMS)
    applied(noted, table, batch[:cut], 0)
    applied(noted, table, batch[cut:], cut)
    counted.recount(table.rows, N_ITEMS)
    everything = np.ones(N_ITEMS, dtype=np.bool_)
    assert noted.best(9, 0, everything) == counted.best(9, 0, everything)


def test_counts_decide_and_the_shrunk_mean_breaks_ties() -> None:
    popularity, table = Popularity(), RatingTable(4, N_ITEMS)
    applied(popularity, table, [(0, 0, 1.0), (1, 0, 1.0), (0, 1, 5.0), (0, 2, 1.0), (0, 3, 5.0)], 0)
    rows, scores = popularity.best(10, 0, np.ones(N_ITEMS, dtype=np.bool_))
    assert rows == [0, 1, 3, 2]
    assert [int(score) for score in scores] == [2, 1, 1, 1]
    assert popularity.best(2, 1, np.array([True, True, False, True, True]))[0] == [1, 3]


def test_nobody_has_rated_anything() -> None:
    assert Popularity().best(10, 0, np.zeros(0, dtype=np.bool_)) == ([], [])
