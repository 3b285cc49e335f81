"""ALS on the device with ratings in batches: memory stays within the bound. Its bits: tests of `gpu.training`."""

import importlib
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpu.als.batches import Batches
from gpu.als.halves import GATHER, Modes
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.als.trainer import AlsTrainer
from gpu.base.backend import Backend
from gpu.data.ratings import Ratings, Rows
from gpu.data.signals import NEUTRAL
from gpu.ranks.exchange import ALONE, Exchange
from gpu.ranks.threads import run_threads
from tests.gpu.als.test_batches import extents, in_batches, sizes_of, trained
from tests.gpu.als.test_ranks import SUMMED, ratings_of

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
        batches.append(trainer.batches[:2])
        trainer._users._feed.forget()  # threads that still load a batch would keep its memory

    work()  # compiles, and gives CuPy's libraries their own memory
    taken = importlib.import_module("gpu.cuda.memory").taken_by(work)
    als = importlib.import_module("gpu.als.device")
    assert sum(als.table_bytes(side, problem) for side in extents(ratings)) < taken <= limit
    assert max(map(len, batches[-1])) > 2


@pytest.mark.parametrize("modes", [GATHER, *SUMMED])
@pytest.mark.parametrize("kind", ["explicit", "implicit"])
@pytest.mark.parametrize("size", [1, 3])
def test_parameters_that_stay_on_the_host_have_the_bits_of_those_on_the_device(kind, modes, size):
    from gpu.ranks.device_exchange import Staged  # noqa: PLC0415 - needs CuPy

    if size == 1 and modes != GATHER:
        pytest.skip("one rank gathers")
    ratings, params = ratings_of(), replace(PARAMS[kind], n_factors=8, n_epochs=2)

    def batches(ring: Exchange, *, on_host: bool) -> Batches:
        (users, items), numbers = in_batches(ratings, 4, ring)[:2], np.arange(5)
        of_users = numbers if modes.users == "reduce" else users
        return Batches(of_users, numbers if modes.items == "reduce" else items, on_host)

    def run(ring: Exchange, *, on_host: bool) -> Any:
        exchange = ALONE if size == 1 else Staged(ring)
        given = params, ratings, DEVICE, batches(ALONE if size == 1 else ring, on_host=on_host)
        return trained(*given, exchange, modes)

    expected = run_threads(size, lambda ring: run(ring, on_host=False))
    for (arrays, metrics), (wanted, reports) in zip(
        run_threads(size, lambda ring: run(ring, on_host=True)), expected, strict=True
    ):
        for name, array in wanted.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        assert metrics[-1] == pytest.approx(reports[-1], rel=1e-6)


@pytest.mark.parametrize("modes", SUMMED)
@pytest.mark.parametrize("kind", ["explicit", "implicit"])
@pytest.mark.parametrize("size", [1, 3])
def test_fixed_rows_in_waves_give_the_model_of_rows_on_the_device(kind, modes, size):
    from gpu.ranks.device_exchange import Staged  # noqa: PLC0415 - needs CuPy

    ratings, params = ratings_of(), replace(PARAMS[kind], n_factors=8, n_epochs=3)
    is_summed = modes.users == "reduce", modes.items == "reduce"

    def run(ring: Exchange, w: int) -> Any:
        batches = [
            np.arange(5) if is_reduced else bounds
            for is_reduced, bounds in zip(is_summed, in_batches(ratings, 4, ring)[:2], strict=True)
        ]
        users, items = (
            bounds[-1:] * np.arange(w + 1) // w if w else None for bounds in in_batches(ratings, 1, ring)[:2]
        )
        waves = items if is_summed[0] else None, users if is_summed[1] else None
        given = Batches(batches[0], batches[1], on_host=True, waves=waves)
        return trained(params, ratings, DEVICE, given, ALONE if size == 1 else Staged(ring), modes)

    whole, one, some, again = (run_threads(size, partial(run, w=w)) for w in (0, 1, 4, 4))
    for rank, (arrays, metrics) in enumerate(some):
        for name, array in whole[rank][0].items():
            np.testing.assert_array_equal(one[rank][0][name], array, err_msg=name)
            np.testing.assert_array_equal(again[rank][0][name], arrays[name], err_msg=name)
            np.testing.assert_allclose(arrays[name], array, rtol=0.1, atol=0.02, err_msg=name)
        assert metrics[-1]["train_loss"] == pytest.approx(whole[rank][1][-1]["train_loss"], rel=1e-3)


@pytest.mark.parametrize(("algorithm", "limit"), [(AlsParams, 280_000_000), (AlsImplicitParams, 425_000_000)])
def test_a_device_too_small_for_float16_rows_adds_up_over_them_in_waves(algorithm, limit):
    ratings = Ratings(strided(N_USERS, PER_USER, N_ITEMS), strided(N_ITEMS, PER_ITEM, N_USERS))
    params = algorithm(n_factors=256, n_epochs=2)
    params = replace(params, biases=False) if algorithm is AlsParams else params
    resident, found = AlsTrainer(ratings, params, DEVICE, None, NEUTRAL), list[Any]()

    def work() -> None:  # float16 rows of users take 102 MB, passing float32 ones 134 while errors are computed
        trainer = AlsTrainer(ratings, params, replace(DEVICE, limit_bytes=limit), None, NEUTRAL)
        for epoch in range(2):
            trainer.learn(epoch)
        found[:] = [trainer.modes, trainer.batches, trainer.metrics(), trainer.state()]
        trainer._users._feed.forget()  # threads that still load a batch would keep its memory

    work()  # compiles, and gives CuPy's libraries their own memory
    assert importlib.import_module("gpu.cuda.memory").taken_by(work) <= limit
    modes, batches, metrics, state = found
    assert modes == Modes("reduce", "gather")
    assert batches.waves[0] is None
    assert len(batches.waves[1]) > 2
    for epoch in range(2):
        resident.learn(epoch)
    assert metrics == pytest.approx(resident.metrics(), rel=1e-3)
    for name, table in resident.state().items():
        distance = np.linalg.norm(state[name] - table, axis=1) / np.linalg.norm(table, axis=1)
        assert np.median(distance) < 0.01, name


def test_a_device_too_small_for_float32_rows_keeps_them_on_the_host():
    ratings = Ratings(strided(N_USERS, PER_USER, N_ITEMS), strided(N_ITEMS, PER_ITEM, N_USERS))
    params = AlsParams(n_factors=256, n_epochs=1, biases=False)  # 209 MB in float32; pieces for errors take 134
    resident = AlsTrainer(ratings, params, DEVICE, None, NEUTRAL)
    _, base, rows = sizes_of(ratings, resident, DEVICE)
    limit = base + 2 * max(int(side.max()) for side in rows) - 1
    small = AlsTrainer(ratings, params, replace(DEVICE, limit_bytes=limit), None, NEUTRAL)
    assert small.batches is not None
    assert small.batches.on_host
    for trainer in (resident, small):
        trainer.learn(0)
    for name, table in resident.state().items():
        np.testing.assert_array_equal(small.state()[name], table, err_msg=name)
