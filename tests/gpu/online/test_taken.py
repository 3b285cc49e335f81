"""Rows that wait for refits, taken out of a set."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gpu.online.late import taken


@pytest.mark.parametrize("most", [1, 5, 20, 21, 100])
@pytest.mark.parametrize("n_first", [None, 0, 1, 3, 1000])
def test_rows_are_taken_or_kept(most: int, n_first: int | None):
    pending = set(range(100, 2100, 100))
    rows = taken(pending, most, None if n_first is None else lambda some: min(n_first, len(some)))
    assert len(rows) == min(most, 20, 1000 if n_first is None else n_first)
    assert rows.dtype == np.int64
    assert sorted([*rows.tolist(), *pending]) == list(range(100, 2100, 100))


def test_a_set_that_was_large_becomes_small():
    """Each `pop` would look through its memory: 15 µs a row after 200,000 rows."""
    pending = set(range(200_000))
    for _ in range(199_990):
        pending.pop()
    assert len(taken(pending, 10)) == 10
    assert sys.getsizeof(pending) == sys.getsizeof(set())
