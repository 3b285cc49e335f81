"""ALS on the device with ratings in batches: memory stays within the bound. Its bits: tests of `gpu.training`."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.als.trainer import AlsTrainer
from gpu.base.backend import Backend
from gpu.data.ratings import Ratings, Rows
from gpu.data.signals import NEUTRAL
from tests.gpu.als.test_batches import extents, sizes_of

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
N_USERS, N_ITEMS, PER_USER, PER_ITEM = 200_000, 4000, 100, 5000
PARAMS: dict[str, Any] = {
    "explicit": AlsParams(n_factors=16),
    "float32": AlsParams(n_factors=16, precision="float32"),
    "implicit": AlsImplicitParams(n_factors=16),
}


def strided(n_rows: int, length: int, n_columns: int) -> Rows:
    """Rows of this length with columns at equal distances."""
    step = n_columns // length
    columns = np.arange(length, dtype=np.int32) * step + (np.arange(n_rows, dtype=np.int32) % step)[:, None]
    starts = np.arange(n_rows, dtype=np.int64) * length
    values = np.random.default_rng(0).integers(1, 6, columns.size).astype(np.float32)
    return Rows(starts, np.full(n_rows, length, dtype=np.int64), columns.ravel(), values)


@pytest.mark.parametrize("kind", PARAMS)
@pytest.mark.parametrize("share", [0.2, 0.6])
def test_a_training_takes_no_more_than_its_limit(kind, share):
    ratings = Ratings(strided(N_USERS, PER_USER, N_ITEMS), strided(N_ITEMS, PER_ITEM, N_USERS))
    resident = AlsTrainer(ratings, PARAMS[kind], DEVICE, None, NEUTRAL)
    problem, (whole, base, _) = resident.problem, sizes_of(ratings, resident, DEVICE)
    del resident
    limit, batches = int(base + share * (whole - base)), []

    def work() -> None:
        trainer = AlsTrainer(ratings, PARAMS[kind], replace(DEVICE, limit_bytes=limit), None, NEUTRAL)
        for epoch in range(2):
            trainer.learn(epoch)
        assert np.isfinite(trainer.metrics()["train_loss"])
        assert trainer.batches is not None
        batches.append(trainer.batches)

    work()  # compiles, and gives CuPy's libraries their own memory
    taken = importlib.import_module("gpu.cuda.memory").taken_by(work)
    als = importlib.import_module("gpu.als.device")
    assert sum(als.table_bytes(side, problem) for side in extents(ratings)) < taken <= limit
    assert max(map(len, batches[-1])) > 2
