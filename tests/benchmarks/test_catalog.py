from __future__ import annotations

from benchmarks import catalog


def test_every_step_is_measured():
    rows = list(catalog.run(1000))
    assert [row.step for row in rows[:2]] == ["put 100 items", "take in the time, once a second at most"]
    assert len(rows) == 2 + 2 * len(catalog.FILTERS)
    assert all(row.ms >= 0 for row in rows)
