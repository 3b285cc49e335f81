"""Ranks on devices: several on one device through the host, and one a device through NCCL."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpu
from gpu.algorithms import trainer_of
from gpu.backend import Backend
from gpu.calibration import calibrate
from gpu.exchange import ALONE, Exchange
from gpu.host import exchange as host
from gpu.host.exchange_threads import run_threads
from gpu.params import AlsImplicitParams, AlsParams, params_for
from gpu.training.als_halves import GATHER, Modes
from gpu.training.als_plan import division_of
from gpu.training.loop import train
from tests.data import planted, split
from tests.gpu.training import test_nmf_ranks
from tests.gpu.training.test_als_plan import ITEMS_REDUCED, ratings_of
from tests.gpu.training.test_als_plan import KINDS as PLANNED
from tests.gpu.training.test_als_ranks import Kept, run

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
KEY = b"key of a test"
KINDS = {
    "explicit": AlsParams(n_factors=8, n_epochs=3, seed=7),
    "float32": AlsParams(n_factors=8, n_epochs=2, precision="float32"),
    "implicit": AlsImplicitParams(n_factors=8, n_epochs=3),
}


def work_of(kind: str) -> Callable[[Exchange], Any]:
    return lambda exchange: run(KINDS[kind], exchange, DEVICE)


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_on_one_device_give_the_bits_of_one(kind):
    from gpu.device.cuda.exchange import Staged  # noqa: PLC0415 - needs CuPy

    expected, _ = run(KINDS[kind], ALONE, DEVICE)
    for arrays, _ in run_threads(3, lambda ring: run(KINDS[kind], Staged(ring), DEVICE)):
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)


@pytest.mark.parametrize("kind", test_nmf_ranks.KINDS)
def test_ranks_of_nmf_on_one_device_give_the_bits_of_one(kind):
    from gpu.device.cuda.exchange import Staged  # noqa: PLC0415 - needs CuPy

    params = test_nmf_ranks.KINDS[kind]
    expected, reports = test_nmf_ranks.run(params, ALONE, DEVICE)
    for arrays, found in run_threads(3, lambda ring: test_nmf_ranks.run(params, Staged(ring), DEVICE)):
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        assert found[-1]["relative_error"] == pytest.approx(reports[-1]["relative_error"], rel=1e-12)


@pytest.mark.parametrize("slots", [None, 7], ids=["whole", "batches"])
@pytest.mark.parametrize("modes", [Modes("reduce", "gather"), Modes("gather", "reduce"), Modes("reduce", "reduce")])
@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_sums_of_ranks_on_one_device_give_the_model_of_one(kind, modes, slots, monkeypatch):
    from gpu.device import als  # noqa: PLC0415 - needs CuPy
    from gpu.device.cuda.exchange import Staged  # noqa: PLC0415

    expected, reports = run(KINDS[kind], ALONE, DEVICE)
    if slots is not None:
        monkeypatch.setattr(als, "max_slots", lambda problem: slots)
    for arrays, found in run_threads(2, lambda ring: run(KINDS[kind], Staged(ring), DEVICE, modes)):
        assert found[-1]["train_loss"] == pytest.approx(reports[-1]["train_loss"], rel=2e-3)
        for name, array in expected.items():
            np.testing.assert_allclose(arrays[name], array, rtol=0.1, atol=0.02, err_msg=name)


@pytest.mark.parametrize("kind", ["sgd", "culsh", "culsh-implicit"])
def test_descent_of_ranks_on_one_device_ends_near_one(kind):
    from gpu.device.cuda.exchange import Staged  # noqa: PLC0415 - needs CuPy

    ratings, test = split(planted())
    params = params_for(kind, {"n_factors": 8, "n_epochs": 6})
    known = calibrate(ratings, params)

    def errors(exchange: Exchange) -> dict[str, float]:
        reports: list[dict[str, float]] = []
        trainer = trainer_of(ratings, params, DEVICE, test, known, exchange)
        train(trainer, lambda report: reports.append(dict(report.metrics)), Kept())
        return reports[-1]

    alone = errors(ALONE)
    for metrics in run_threads(2, lambda ring: errors(Staged(ring))):
        for name, value in metrics.items():
            assert value == pytest.approx(alone[name], rel=0.2 if "@" in name else 0.05), name


def operations(exchange: Exchange) -> list[Any]:
    """Every operation once; what a rank has afterwards."""
    import cupy  # noqa: PLC0415

    rank, size = exchange.rank, exchange.size
    bounds = np.arange(size + 1, dtype=np.int64) * 7 // size
    table = cupy.zeros((7, 3), dtype=cupy.float32)
    table[bounds[rank] : bounds[rank + 1]] = rank + 1
    exchange.gather(table, bounds)
    parts, sums = cupy.full((7, 3), rank + 0.5, dtype=cupy.float32), cupy.full(5, rank + 0.25, dtype=cupy.float64)
    exchange.reduce_scatter(parts, bounds)
    exchange.reduce(sums)
    received = cupy.empty(1 + (rank - 1) % size, dtype=cupy.int32)
    exchange.shift(cupy.full(1 + rank, rank, dtype=cupy.int32), received)
    exchange.barrier()
    own = parts[bounds[rank] : bounds[rank + 1]]
    return [table.get(), own.get(), sums.get(), received.get(), exchange.totals(rank, 1.0), exchange.traffic.take()]


def check(size: int, results: list[list[Any]]) -> None:
    bounds = np.arange(size + 1, dtype=np.int64) * 7 // size
    total = sum(range(size))
    for rank, (table, own, sums, received, totals, moved) in enumerate(results):
        np.testing.assert_array_equal(table[:, 0], np.repeat(np.arange(1, size + 1), np.diff(bounds)))
        np.testing.assert_array_equal(own, np.full(own.shape, total + 0.5 * size))
        np.testing.assert_array_equal(sums, np.full(5, total + 0.25 * size))
        assert received.tolist() == [(rank - 1) % size] * (1 + (rank - 1) % size)
        assert totals == (total, size)
        assert moved.sent.keys() == {"gather", "reduce_scatter", "reduce", "shift"}
        assert moved.sent["shift"] == 4 * (1 + rank)
        assert 0 < moved.seconds < 60


def test_every_operation_through_the_host():
    from gpu.device.cuda.exchange import Staged  # noqa: PLC0415 - needs CuPy

    check(3, run_threads(3, lambda ring: operations(Staged(ring))))


def rank_on_its_device(rank: int, end: Any, kind: str | None, modes: Modes) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)
    listener = socket.create_server(("127.0.0.1", 0))
    end.send(listener.getsockname()[:2])
    ring = host.connect(rank, end.recv(), listener, KEY, 60.0)
    exchange = gpu.choose("device").exchange(ring)
    if kind == "planned":
        end.send(division_of(ratings_of(2000, 8), PLANNED["als"], DEVICE, exchange).modes)
    else:
        end.send(operations(exchange) if kind is None else run(KINDS[kind], exchange, DEVICE, modes)[0])
    exchange.barrier()
    exchange.close()


def on_all_devices(kind: str | None, modes: Modes = GATHER) -> list[Any]:
    from cupy.cuda import runtime  # noqa: PLC0415 - needs CuPy

    size = int(runtime.getDeviceCount())
    if size < 2:
        pytest.skip("NCCL needs two devices")
    context = multiprocessing.get_context("spawn")
    ends = []
    for rank in range(size):
        here, there = context.Pipe()
        context.Process(target=rank_on_its_device, args=(rank, there, kind, modes), daemon=True).start()
        there.close()
        ends.append(here)
    addresses = [end.recv() for end in ends]
    for end in ends:
        end.send(addresses)
    return [end.recv() for end in ends]


def test_every_operation_through_nccl():
    results = on_all_devices(None)
    check(len(results), results)


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_on_devices_of_their_own_give_the_bits_of_one(kind):
    results = on_all_devices(kind)
    expected, _ = run(KINDS[kind], ALONE, DEVICE)
    for arrays in results:
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)


def test_ranks_on_devices_take_the_modes_of_their_plan():
    modes = on_all_devices("planned")
    assert modes == [ITEMS_REDUCED] * len(modes)


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_sums_of_devices_give_the_model_of_one(kind):
    expected, _ = run(KINDS[kind], ALONE, DEVICE)
    for arrays in on_all_devices(kind, Modes("reduce", "gather")):
        for name, array in expected.items():
            np.testing.assert_allclose(arrays[name], array, rtol=0.1, atol=0.02, err_msg=name)
