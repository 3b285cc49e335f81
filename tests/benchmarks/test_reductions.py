"""Ways to add up partial sums: all give the sums, and the rows of ranks are all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpu
from benchmarks import reductions
from gpu.exchange import Exchange
from gpu.host.exchange_threads import run_threads

KEY = b"key of a test"


@pytest.mark.parametrize("n_rows", [4, 11])
def test_two_phases_give_the_sums_of_one(n_rows):
    parts = np.random.default_rng(0).integers(0, 100, (4, n_rows, 3)).astype(np.float32)

    def work(ring: Exchange) -> Any:
        groups = reductions.groups_of(2, ring, gpu.HOST, KEY)
        found = []
        ways: Any = [(reductions.one_phase, (ring,)), (reductions.two_phases, groups)]
        for reduce, exchanges in ways:
            sums = parts[ring.rank].copy()
            rows = reduce(*exchanges, sums)
            found.append((rows, sums[rows]))
        for exchange in groups:
            exchange.close()
        return found

    results = run_threads(4, work)
    for way in range(2):
        rows = np.concatenate([np.arange(n_rows)[found[way][0]] for found in results])
        assert sorted(rows) == list(range(n_rows))
        for found in results:
            np.testing.assert_array_equal(found[way][1], parts.sum(axis=0)[found[way][0]])


def test_each_way_is_timed_and_its_bytes_are_counted():
    rows = list(reductions.run((64, 8), [2], "host"))
    assert [(row.way, row.groups) for row in rows] == [("one phase", 0), ("all-reduce", 0)]
    assert [row.sent_mb * 1e6 for row in rows] == [64 * 8 * 4 / 2, 64 * 8 * 4]
    assert all(row.ms > 0 for row in rows)


def test_one_rank_adds_up_nothing():
    with pytest.raises(gpu.InvalidInput, match="expected at least 2, got 1"):
        list(reductions.run((4, 4), [1], "host"))
