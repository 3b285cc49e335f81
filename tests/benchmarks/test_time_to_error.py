"""Two algorithms, each at its best λ, timed to the same error."""

from __future__ import annotations

import pytest

import gpu
from benchmarks import time_to_error
from tests.data import planted, split


def test_both_are_timed_to_an_error_that_both_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_to_error, "SHARES", (1.0, 1000.0))
    train, test = split(planted(300, 200, 20))
    sgd, culsh = time_to_error.run(train, test, [4], 6, gpu.HOST)
    assert (sgd.algorithm, culsh.algorithm) == ("sgd", "culsh")
    assert sgd.target == culsh.target == max(sgd.lowest_rmse, culsh.lowest_rmse)
    for row in (sgd, culsh):
        assert 1 <= row.epochs <= 6
        assert 0 < row.seconds <= row.lowest_after_s
    assert sgd.regularization == gpu.SgdParams().regularization
    assert culsh.regularization == gpu.CulshParams().regularization


def test_the_time_is_that_of_the_first_epoch_that_is_good_enough() -> None:
    curve = [(0.5, 1.0), (1.0, 0.9), (1.5, 0.8), (2.0, 0.85)]
    row = time_to_error._row(gpu.SgdParams(n_factors=4), curve, 0.9)
    assert (row.epochs, row.seconds, row.lowest_rmse, row.lowest_after_s) == (2, 1.0, 0.8, 1.5)
