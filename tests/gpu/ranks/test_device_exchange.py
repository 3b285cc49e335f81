"""Ranks on devices: several on one device through the host, and one a device through NCCL."""

import multiprocessing
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpu
from gpu.algorithms import params_for, trainer_of
from gpu.als.division import division_of
from gpu.als.halves import GATHER, Modes
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.base.backend import HOST, Backend
from gpu.base.errors import BackendUnavailable
from gpu.data.baselines import baselines
from gpu.data.calibration import calibrate
from gpu.data.ratings import Ratings
from gpu.descent.params import CulshParams
from gpu.hashing import similarity, simlsh
from gpu.ranks import ring as host
from gpu.ranks.choice import exchange_on
from gpu.ranks.exchange import ALONE, Exchange
from gpu.ranks.threads import run_threads
from gpu.training.loop import train
from tests.data import planted, split
from tests.gpu.als.test_division import ITEMS_REDUCED, ratings_of
from tests.gpu.als.test_division import KINDS as PLANNED
from tests.gpu.als.test_ranks import Kept, run
from tests.gpu.als.test_ranks import ratings_of as als_ratings
from tests.gpu.nmf import test_ranks as test_nmf_ranks
from tests.service.extras.ranks.one_gpu import own_machine

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
KEY = b"key of a test"
WEIGHTS = {2: (1.0, 1.0), 3: (1.0, 1.0, 0.5)}  # of ranks
KINDS = {
    "explicit": AlsParams(n_factors=8, n_epochs=3, seed=7),
    "float32": AlsParams(n_factors=8, n_epochs=2, precision="float32"),
    "implicit": AlsImplicitParams(n_factors=8, n_epochs=3),
}


def work_of(kind: str) -> Callable[[Exchange], Any]:
    return lambda exchange: run(KINDS[kind], exchange, DEVICE)


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_on_one_device_give_the_bits_of_one(kind):
    from gpu.ranks.device_exchange import Staged  # noqa: PLC0415 - needs CuPy

    expected, _ = run(KINDS[kind], ALONE, DEVICE)
    for arrays, _ in run_threads(3, lambda ring: run(KINDS[kind], Staged(ring), DEVICE))[:1]:
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)


@pytest.mark.parametrize("kind", test_nmf_ranks.KINDS)
def test_ranks_of_nmf_on_one_device_give_the_bits_of_one(kind):
    from gpu.ranks.device_exchange import Staged  # noqa: PLC0415 - needs CuPy

    params = test_nmf_ranks.KINDS[kind]
    expected, reports = test_nmf_ranks.run(params, ALONE, DEVICE)
    for arrays, found in run_threads(3, lambda ring: test_nmf_ranks.run(params, Staged(ring), DEVICE)):
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        assert found[-1]["relative_error"] == pytest.approx(reports[-1]["relative_error"], rel=1e-12)


@pytest.mark.parametrize("slots", [None, 7], ids=["whole", "batches"])
@pytest.mark.parametrize("modes", [Modes("reduce", "gather"), Modes("gather", "reduce"), Modes("reduce", "reduce")])
@pytest.mark.parametrize("kind", ["explicit", "implicit", "wide"])
def test_sums_of_ranks_on_one_device_give_the_model_of_one(kind, modes, slots, monkeypatch):
    from gpu.als import device as als  # noqa: PLC0415 - needs CuPy
    from gpu.ranks.device_exchange import Staged  # noqa: PLC0415

    params = replace(KINDS["explicit"], n_factors=200) if kind == "wide" else KINDS[kind]
    expected, reports = run(params, ALONE, DEVICE)
    if slots is not None:
        monkeypatch.setattr(als, "max_slots", lambda problem: slots)
    results = run_threads(2, lambda ring: run(params, Staged(ring), DEVICE, modes))
    for _, found in results:
        assert found[-1]["train_loss"] == pytest.approx(reports[-1]["train_loss"], rel=2e-3)
    for name, array in expected.items():
        np.testing.assert_allclose(results[0][0][name], array, rtol=0.1, atol=0.02, err_msg=name)


@pytest.mark.parametrize("kind", ["esgd", "sgd", "culsh", "culsh-implicit"])
def test_descent_of_ranks_on_one_device_ends_near_one(kind):
    from gpu.ranks.device_exchange import Staged  # noqa: PLC0415 - needs CuPy

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


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kind", ["sgd", "culsh", "culsh-implicit"])
def test_deterministic_descent_of_ranks_on_one_device_gives_the_bits_of_one(kind, size):
    from gpu.ranks.device_exchange import Staged  # noqa: PLC0415 - needs CuPy

    ratings, test = split(planted())
    params = params_for(kind, {"n_factors": 8, "n_epochs": 3, "deterministic": True})
    known = calibrate(ratings, params)

    def trained(exchange: Exchange) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        reports: list[dict[str, float]] = []
        trainer = trainer_of(ratings, params, DEVICE, test, known, exchange)
        model = train(trainer, lambda report: reports.append(dict(report.metrics)), Kept())
        return model.arrays, reports[-1]

    expected, metrics = trained(ALONE)
    for rank, (arrays, found) in enumerate(
        run_threads(size, lambda ring: trained(Staged(ring)), weights=WEIGHTS[size])
    ):
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        assert found == pytest.approx({name: metrics[name] for name in found}, rel=1e-6), rank


@pytest.mark.parametrize("size", [3, 50])
@pytest.mark.parametrize("limit", [5, 1000], ids=["buckets", "all pairs"])
@pytest.mark.parametrize("method", ["simlsh", "minhash", "rp_cos", "gsm", "random"])
def test_ranks_on_one_device_find_the_neighbors_of_one(method, limit, size, monkeypatch):
    from gpu.ranks.device_exchange import Staged  # noqa: PLC0415 - needs CuPy

    monkeypatch.setattr(simlsh, "ALL_PAIRS_LIMIT", limit)
    ratings = als_ratings()
    params = CulshParams(n_neighbors=7, n_bits=64, similarity=method, psi="residual")
    known = baselines(ratings)
    expected = similarity.neighbors(ratings, params, HOST, known)
    alone = similarity.neighbors(ratings, params, DEVICE, known)
    weights = (1.0,) * (size - 1) + (0.5,)
    for found in run_threads(
        size, lambda ring: similarity.neighbors(ratings, params, DEVICE, known, Staged(ring)), weights=weights
    ):
        np.testing.assert_array_equal(found.neighbors, alone.neighbors)
        np.testing.assert_array_equal(found.projections, alone.projections)
        assert found.filled == pytest.approx(alone.filled)
        if method != "gsm":  # it agrees within rounding
            np.testing.assert_array_equal(found.neighbors, expected.neighbors)
            np.testing.assert_array_equal(found.projections, expected.projections)


@pytest.mark.parametrize("kind", ["esgd", "sgd", "culsh", "culsh-implicit"])
def test_a_device_without_users_changes_nothing(kind):
    from gpu.ranks.device_exchange import Staged  # noqa: PLC0415 - needs CuPy

    ratings = Ratings.from_coo(np.array([1, 1, 2]), np.array([0, 2, 1]), np.array([4.0, 1.0, 5.0]), (4, 3))
    params = params_for(kind, {"n_factors": 8, "n_epochs": 3})
    known = calibrate(ratings, params)

    def trained(ring: Exchange) -> dict[str, np.ndarray]:
        return train(trainer_of(ratings, params, DEVICE, None, known, Staged(ring))).arrays

    two, four = (run_threads(size, trained) for size in (2, 4))
    for arrays in four:
        for name, array in two[0].items():
            np.testing.assert_allclose(arrays[name], array, rtol=0.02, atol=1e-3, err_msg=name)


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
    from gpu.ranks.device_exchange import Staged  # noqa: PLC0415 - needs CuPy

    check(3, run_threads(3, lambda ring: operations(Staged(ring))))


def rank_on_a_device(
    rank: int, end: Any, kind: str | None, modes: Modes, environment: dict[str, str], link: str
) -> None:
    os.environ.update(environment)
    listener = socket.create_server(("127.0.0.1", 0))
    end.send(listener.getsockname()[:2])
    ring = host.connect(rank, end.recv(), listener, KEY, 60.0)
    exchange = exchange_on(gpu.choose("device"), ring, can_store=link != "sockets")
    if kind == "stores":
        end.send(bool(exchange.can_store))  # type: ignore[attr-defined] # NCCL's
    elif kind == "planned":
        end.send(division_of(ratings_of(2000, 8), PLANNED["als"], DEVICE, exchange).modes)
    else:
        end.send(operations(exchange) if kind is None else run(KINDS[kind], exchange, DEVICE, modes)[0])
    exchange.barrier()
    exchange.close()


@pytest.fixture(params=["direct", "sockets", "stores"])
def link(request: pytest.FixtureRequest) -> str:
    """Over what ranks send: links of devices, sockets as between machines, or sockets beside kernels that store."""
    from cupy.cuda import runtime  # noqa: PLC0415 - needs CuPy

    from gpu.ranks.device_exchange import nccl  # noqa: PLC0415

    if request.param == "direct" and runtime.getDeviceCount() < 2:
        pytest.skip("NCCL needs two devices; it takes two ranks on one device for two machines only, with sockets")
    try:
        nccl()
    except BackendUnavailable as error:
        pytest.skip(str(error))
    return str(request.param)


def environment_of(rank: int, n_devices: int, link: str) -> dict[str, str]:
    """Of a rank."""
    machine = {} if link == "direct" else own_machine(rank)
    return {"CUDA_VISIBLE_DEVICES": str(rank % n_devices), "NCCL_NVLS_ENABLE": "0"} | machine


def on_all_devices(link: str, kind: str | None, modes: Modes = GATHER) -> list[Any]:
    from cupy.cuda import runtime  # noqa: PLC0415 - needs CuPy

    n_devices = int(runtime.getDeviceCount())
    size = max(2, n_devices)
    context = multiprocessing.get_context("spawn")
    ends = []
    for rank in range(size):
        here, there = context.Pipe()
        given = rank, there, kind, modes, environment_of(rank, n_devices, link), link
        context.Process(target=rank_on_a_device, args=given, daemon=True).start()
        there.close()
        ends.append(here)
    addresses = [end.recv() for end in ends]
    for end in ends:
        end.send(addresses)
    return [end.recv() for end in ends]


def test_every_operation_through_nccl(link):
    results = on_all_devices(link, None)
    check(len(results), results)


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_of_nccl_give_the_bits_of_one(kind, link):
    arrays = on_all_devices(link, kind)[0]
    expected, _ = run(KINDS[kind], ALONE, DEVICE)
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)


def test_kernels_of_ranks_reach_the_memory_of_others(link):
    assert set(on_all_devices(link, "stores")) == {link != "sockets"}


def test_ranks_on_devices_take_the_modes_of_their_plan(link):
    modes = on_all_devices(link, "planned")
    assert modes == [ITEMS_REDUCED] * len(modes)


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_sums_of_devices_give_the_model_of_one(kind, link):
    expected, _ = run(KINDS[kind], ALONE, DEVICE)
    arrays = on_all_devices(link, kind, Modes("reduce", "gather"))[0]
    for name, array in expected.items():
        np.testing.assert_allclose(arrays[name], array, rtol=0.1, atol=0.02, err_msg=name)


def test_copies_that_arrive_altered_are_refused():
    from gpu.ranks import device_exchange as exchange  # noqa: PLC0415 - needs CuPy

    class Altering(exchange.Staged):
        def gather(self, table: Any, bounds: Any) -> None:
            super().gather(table, bounds)
            if self.rank == 1:
                table[0, 5] += 1

    with pytest.raises(BackendUnavailable, match=r"expected equal bytes, got [04] wrong ones .* NCCL_P2P_DISABLE=1"):
        run_threads(2, lambda ring: exchange._check_copies(Altering(ring)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("available", "version", "found"), [(False, 22_809, "none"), (True, 21_805, "2.18.5")])
def test_nccl_that_is_missing_or_too_old_is_refused(available, version, found, monkeypatch):
    from cupy.cuda import nccl as library  # noqa: PLC0415 - needs CuPy

    from gpu.ranks.device_exchange import nccl  # noqa: PLC0415

    monkeypatch.setattr(library, "available", available)
    monkeypatch.setattr(library, "get_version", lambda: version, raising=False)
    expected = rf"Invalid NCCL: expected 2\.27\.7 or newer, got {found}; pip install '\.\[multi\]' in a checkout"
    with pytest.raises(BackendUnavailable, match=expected):
        nccl.__wrapped__()
