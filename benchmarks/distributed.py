"""`python -m benchmarks distributed`: time of an epoch on several ranks, its error, and whether it gives equal bits.

Each number of ranks is a training of its own, in fresh processes, one device each (on the host: an equal share of the
cores). All start from the same parameters. The ranks wait for each other before each epoch that is timed. With
`--copies` each user is there several times, as in `out-of-core`: so a small matrix gives a large one.
"""

from __future__ import annotations

import functools
import math
import multiprocessing
import os
import secrets
import socket
import statistics
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import gpu
from benchmarks import als_matrix
from benchmarks.out_of_core import GB, side_by_side, stacked
from benchmarks.report import say
from gpu.algorithms import trainer_of
from gpu.calibration import calibrate, in_units
from gpu.errors import InvalidInput
from gpu.exchange import ALONE, Exchange
from gpu.host import exchange
from gpu.param_kinds import FactorParams
from gpu.params import AlsImplicitParams, AlsParams, params_for
from gpu.signals import Calibration
from gpu.training import loop
from gpu.training.als import AlsTrainer
from gpu.training.als_halves import GATHER, Modes
from service.extras.ranks.rank_process import trusts_links

TIMEOUT_S = 600.0  # seconds for a rank to read its ratings
ERRORS = ("test_rmse", "train_rmse", "train_loss", "relative_error")  # the first that a training has is its error


@dataclass(frozen=True)
class Row:
    """One number of ranks: the median in milliseconds, without the first epoch.

    `times` is how many times as fast as the first number of ranks an epoch is. `digest` is a checksum of the learned
    arrays after the last epoch: equal ones mean equal bits. `error` is the test RMSE; of copies the training RMSE, of
    implicit models the training loss, of `nmf` the relative error. `target_ms` is the time of the epochs until the
    wanted test RMSE is reached; NaN if it was not, or none is wanted. `ready_s` is what a rank takes before its first
    epoch.
    """

    algorithm: str
    n_factors: int
    n_ratings: int
    ranks: int
    epoch_ms: float
    times: float
    digest: str
    error: float
    target_ms: float
    ready_s: float


class Extent(NamedTuple):
    """How much a training does, beside its parameters.

    Attributes:
        copies: of each user.
        memory_gb: bound of what it may take of each device; 0: none.
        target: test RMSE to reach; 0: none.
    """

    copies: int = 1
    memory_gb: float = 0.0
    target: float = 0.0


@dataclass(frozen=True)
class Task:
    """What a rank runs: a training on the matrix in `folder`; `modes` are those of ALS."""

    folder: Path
    params: FactorParams
    known: Calibration
    modes: Modes
    extent: Extent


def run(
    folder: Path, algorithm: str, factors: Sequence[int], given: Mapping[str, Any], ranks: Sequence[int],
    backend: str,
    modes: Modes,
    extent: Extent,
) -> Iterator[Row]:  # fmt: skip
    """A training with each number of factors on each number of ranks; the first number of ranks is compared with."""
    for n_factors in factors:
        params = params_for(algorithm, {**given, "n_factors": n_factors})
        assert isinstance(params, FactorParams)  # noqa: S101 - what the command offers
        known = calibration_of(folder, params)
        base_ms = 0.0
        for size in ranks:
            say(f"{params.algorithm}, F = {n_factors}, ranks: {size}")
            task = Task(folder, params, known, modes if size > 1 else GATHER, extent)
            found, *_ = run_ranks(size, backend, functools.partial(measured, task))
            epoch_ms = statistics.median(found["ms"][1:])
            base_ms = base_ms or epoch_ms
            yield Row(
                algorithm, n_factors, found["n_ratings"], size, epoch_ms, base_ms / epoch_ms,
                found["digest"], found["error"], epoch_ms * found["n_to_target"], found["ready_s"],
            )  # fmt: skip


def calibration_of(folder: Path, params: FactorParams) -> Calibration:
    """The calibration of all trainings with `params` on the matrix in `folder`; copies of users do not change it."""
    return calibrate(als_matrix.read(folder)[0], params)


def modes_of(text: str) -> Modes:
    """The modes in "reduce,gather".

    Raises:
        InvalidInput: another number of modes, or an unknown one.
    """
    names = text.split(",")
    if len(names) != 2 or not {*names} <= {"gather", "reduce"}:
        raise InvalidInput(f"Invalid modes: expected two of gather and reduce with a comma between, got {text!r}")
    return Modes(*names)  # type: ignore[arg-type] # checked above


def run_ranks(size: int, backend: str, work: Callable[[Exchange, gpu.Backend], Any]) -> list[Any]:
    """What `work`, which must be picklable, returns on each of `size` ranks, processes of this machine."""
    context, key = multiprocessing.get_context("spawn"), secrets.token_bytes(32)
    cores = sorted(os.sched_getaffinity(0))
    processes, ends = [], []
    for rank in range(size):
        here, there = context.Pipe()
        share = cores[rank * len(cores) // size : (rank + 1) * len(cores) // size] or cores
        process = context.Process(target=_rank, args=(work, backend, key, rank, share, there), daemon=True)
        # Before it starts, since Numba reads the number of threads when it is imported.
        with patch.dict(os.environ, NUMBA_NUM_THREADS=str(len(share)), CUDA_VISIBLE_DEVICES=str(rank)):
            process.start()
        processes.append(process)
        ends.append(here)
        there.close()
    addresses = [_received(end) for end in ends]
    for end in ends:
        end.send(addresses)
    results = [_received(end) for end in ends]
    for process in processes:
        process.join()
    return results


def _received(end: Connection) -> Any:
    if not end.poll(TIMEOUT_S):
        raise TimeoutError(f"a rank was silent for {TIMEOUT_S:g} s")
    return end.recv()


def _rank(
    work: Callable[[Exchange, gpu.Backend], Any], wanted: str, key: bytes, rank: int, cores: list[int],
    end: Connection,
) -> None:  # fmt: skip
    os.sched_setaffinity(0, cores)
    listener = socket.create_server(("127.0.0.1", 0))
    end.send(listener.getsockname()[:2])
    addresses = end.recv()
    backend = gpu.choose(wanted)  # type: ignore[arg-type] # it refuses others
    if len(addresses) == 1:
        listener.close()
        end.send(work(ALONE, backend))
        return
    found = backend.exchange(exchange.connect(rank, addresses, listener, key, TIMEOUT_S), can_store=trusts_links())
    end.send(work(found, backend))
    found.barrier()
    found.close()


def measured(task: Task, exchange: Exchange, backend: gpu.Backend) -> dict[str, Any]:
    """Train, and return times, checksum and error; all ranks call it."""
    began, extent = time.perf_counter(), task.extent
    train, held_out = _ratings(task)
    if extent.memory_gb:
        backend = backend.within(int(extent.memory_gb * GB))
    trainer: loop.Trainer[gpu.Model]
    if isinstance(task.params, AlsParams | AlsImplicitParams):
        trainer = AlsTrainer(train, task.params, backend, held_out, task.known, exchange, task.modes)
    else:
        trainer = trainer_of(train, task.params, backend, held_out, task.known, exchange)
    loop.begin(trainer)
    exchange.barrier()
    ready_s = time.perf_counter() - began
    ms: list[float] = []
    n_to_target = math.nan
    for epoch in range(task.params.n_epochs):
        exchange.barrier()
        began = time.perf_counter()
        trainer.learn(epoch)
        ms.append((time.perf_counter() - began) * 1e3)
        if extent.target and _error(trainer, task) <= extent.target and math.isnan(n_to_target):
            n_to_target = len(ms)
    error, digest = _error(trainer, task), 0
    for _, table in sorted(trainer.state().items()):
        digest = zlib.crc32(table.tobytes(), digest)
    return {
        "ms": ms, "digest": f"{digest:08x}", "ready_s": ready_s, "n_ratings": len(train), "error": error,
        "n_to_target": n_to_target,
    }  # fmt: skip


def _ratings(task: Task) -> tuple[gpu.Ratings, gpu.Ratings | None]:
    """(training, test) ratings in units of the training; copies have no test ratings."""
    train, test = als_matrix.read(task.folder)
    if not task.params.is_implicit:
        train, test = in_units(train, task.known.unit), in_units(test, task.known.unit)
    if (copies := task.extent.copies) > 1:
        by_item = side_by_side(train.by_item, copies, train.n_users)
        return gpu.Ratings(stacked(train.by_user, copies), by_item), None
    return train, None if task.params.is_implicit else test


def _error(trainer: loop.Trainer[gpu.Model], task: Task) -> float:
    """See `Row.error`; all ranks call it."""
    metrics = trainer.metrics()
    name = next(name for name in ERRORS if name in metrics)
    return float(metrics[name] * (task.known.unit if name.endswith("rmse") else 1.0))
