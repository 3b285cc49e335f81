"""Small batches through every kernel of online learning, each array its own allocation: what compute-sanitizer watches.

    compute-sanitizer --tool memcheck --error-exitcode 9 python -m pytest -q tests/gpu/online/device/test_sanitizer.py
    compute-sanitizer --tool racecheck --error-exitcode 9 python -m pytest -q tests/gpu/online/device/test_sanitizer.py

CuPy's pool would hide what goes past the end of an array, so it is put aside.
"""

import importlib

import numpy as np
import pytest

from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.data.param_kinds import Params
from gpu.descent.params import CulshImplicitParams, CulshParams, SgdParams
from gpu.nmf.params import NmfParams
from tests.gpu.online.device.live import world
from tests.gpu.online.device.test_exact import DEVICE, model_of, placed, rows_of, whole

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("no_pool")]
LENGTHS = [0, 1, 15, 16, 17, 33, 70, 600, 1200, 3]  # beyond 512 in parts
N_ITEMS, N_NEW = 1300, 6


@pytest.mark.parametrize("sizes", [(5, 3), (32, 16)])
@pytest.mark.parametrize("kind", [SgdParams, CulshParams, CulshImplicitParams])
def test_batches(kind: type[Params], sizes: tuple[int, int]) -> None:
    here = world(kind, sizes, LENGTHS, N_ITEMS, N_NEW)
    live = importlib.import_module("gpu.online.device.learner").DeviceLearner(
        here.model, here.table.rows, here.table.positions, here.user_keys, here.item_keys
    )
    rng = np.random.default_rng(0)
    for step in range(2):
        live.grow(np.arange(3, dtype=np.uint64) + step, np.arange(2, dtype=np.uint64) + step)
        users, items = rng.integers(0, len(LENGTHS) + 3, 150), rng.integers(N_ITEMS - 100, N_ITEMS + 2, 150)
        values = np.where(rng.random(150) < 0.3, np.nan, 3.0)
        live.apply(users, items, values, np.arange(150) + 10_000 * (1 + step))
    live.forget(8)
    found = live.fetch(np.arange(live.parameters.n_users), np.arange(live.parameters.n_items))
    assert all(np.isfinite(array).all() for array in found.values())
    assert not found["user_factors"][8].any()


@pytest.mark.parametrize("kind", [AlsParams, AlsImplicitParams, NmfParams])
@pytest.mark.parametrize("n_factors", [5, 64, 260])
def test_exact_rows(kind: type[AlsParams], n_factors: int) -> None:
    model = model_of(kind(n_factors=n_factors), N_ITEMS)
    rows, solver = rows_of(model, [0, 1, 17, 100, 3]), placed(model, DEVICE)
    found = whole(solver.users(rows))
    read = whole(solver.items(rows, lambda users: (model.item_factors[users], model.item_bias[users])))
    solver.refresh(np.arange(0, N_ITEMS, 3))
    assert np.isfinite(found).all()
    assert found.tobytes() == read.tobytes()
