"""Copies of users, and trainings on them within a bound of memory."""

from __future__ import annotations

import numpy as np
import pytest

import gpu
from benchmarks.out_of_core import Row, run, side_by_side, stacked
from gpu.backend import HOST
from gpu.training.als import problem_of


def test_copies_of_users_are_rows_of_their_own(train):
    found = stacked(train.by_user, 3), side_by_side(train.by_item, 3, train.n_users)
    users, items, values = train.coo()
    copied = np.concatenate([users + copy * train.n_users for copy in range(3)])
    shape = 3 * train.n_users, train.n_items
    wanted = gpu.Ratings.from_coo(copied, np.tile(items, 3), np.tile(values, 3), shape)
    for rows, other in zip(found, (wanted.by_user, wanted.by_item), strict=True):
        for name in gpu.Rows._fields:
            np.testing.assert_array_equal(getattr(rows, name), getattr(other, name), strict=True)


@pytest.mark.parametrize("algorithm", ["als", "als-implicit"])
def test_less_memory_gives_batches_and_equal_tables_and_too_little_no_row(folder, train, algorithm):
    params = gpu.params_for(algorithm, {"n_factors": 4, "n_epochs": 2})
    assert isinstance(params, gpu.AlsParams | gpu.AlsImplicitParams)
    lengths = np.zeros(3 * train.n_users, np.int64), np.zeros(train.n_items, np.int64)
    problem = problem_of(train, params, gpu.Calibration())
    base = HOST.primitives("als_stream").fixed_bytes(*lengths, problem)
    most = (base + 8 * int(3 * train.by_item.lengths.max())) / 1e9 + 1e-9
    rows = list(run(folder, 3, algorithm, [4], [0, most, 1e-6], {"n_epochs": 2}, HOST))
    assert [row.memory_gb for row in rows] == [0, most]
    whole, bounded = rows
    assert isinstance(whole, Row)
    assert (whole.batches, whole.moved_gb, whole.n_ratings) == ((1, 1), 0.0, 3 * len(train))
    assert min(bounded.batches) > 1
    assert bounded.moved_gb * 1e9 == 16 * 3 * len(train) + 32 * (3 * train.n_users + train.n_items)
    assert bounded.digest == whole.digest
    assert bounded.loss == pytest.approx(whole.loss)
    assert bounded.times == pytest.approx(bounded.epoch_ms / whole.epoch_ms)
