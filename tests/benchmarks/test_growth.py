from __future__ import annotations

import pytest

from benchmarks import growth


@pytest.mark.parametrize("algorithm", ["als-implicit", "culsh"])
def test_rows_say_how_far_it_has_grown(algorithm: str) -> None:
    rows = list(growth.run(algorithm, 4, 400, 90, 30_000, 2))
    assert len(rows) == 2
    assert (rows[-1].users, rows[-1].items) == pytest.approx((400, 90), rel=0.02)
    assert rows[0].ratings < rows[1].ratings < 30_000
    assert all(0 < row.median_ms <= row.longest_ms for row in rows)
