"""`python -m benchmarks out-of-core`: ALS on more ratings than the memory that it may take, loaded in batches.

The ratings are copies of each user of a matrix with Netflix's shape (`benchmarks.make_ratings`), each a row of its own.
So ten copies give ten times as many users and ratings, and as many items. They go to a partition store once, which all
trainings map.
"""

from __future__ import annotations

import gc
import importlib
import math
import statistics
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks import als_matrix, make_ratings
from benchmarks.report import say
from gpu.backend import Backend
from gpu.calibration import calibrate, in_units
from gpu.errors import NotEnoughMemory
from gpu.params import AlsImplicitParams, AlsParams, params_for
from gpu.training import loop
from gpu.training.als import AlsTrainer
from service.extras.ranks import partition_store

GB = 1e9  # bytes
RATING_BYTES = 8
CALIBRATED = 0.1  # share of the users
ITEM_BYTES = 32  # of a work item: one for each row, or part of a row


@dataclass(frozen=True)
class Row:
    """One training.

    `memory_gb` is the bound; 0: none. `batches` are those of the items and of the users, 1 and 1 if all ratings stay in
    memory. `epoch_ms` is the median without the first epoch. `moved_gb` is what an epoch loads, and `floor_ms` the time
    that this takes at the rate of a pinned copy, `link_gb_s`, measured before. `times` is the epoch in times of the
    larger of the floor and of the epoch of the training without bound, if there was one. `peak_gb` is what all
    processes take of the device at the end, CUDA included. Equal `digest` mean equal tables. `ready_s` is what comes
    before the first epoch.
    """

    algorithm: str
    n_factors: int
    n_ratings: int
    memory_gb: float
    batches: tuple[int, int]
    epoch_ms: float
    moved_gb: float
    link_gb_s: float
    floor_ms: float
    times: float
    peak_gb: float
    loss: float
    digest: str
    ready_s: float


def run(
    folder: Path | None, copies: int, algorithm: str, factors: Sequence[int], memories: Sequence[float],
    given: Mapping[str, Any], backend: Backend,
) -> Iterator[Row]:  # fmt: skip
    """A training for each number of factors and each bound in GB (0: none), in that order.

    Args:
        folder: of a matrix as `make-ratings` writes it. Default: one with Netflix's shape is drawn.
        copies: of each user.
    """
    with TemporaryDirectory(prefix="nearfield-") as home:
        params = params_for(algorithm, dict(given))
        assert isinstance(params, AlsParams | AlsImplicitParams)  # noqa: S101 - what the command offers
        _store(folder, copies, params, Path(home))
        data, link = partition_store.read(Path(home)), link_rate(backend)
        say("read and checked")
        for n_factors in factors:
            sized, unbounded_ms = replace(params, n_factors=n_factors), 0.0
            for memory in memories:
                say(f"{algorithm}, F = {n_factors}, {memory:g} GB")
                try:
                    row = _measured(data, sized, backend.within(int(memory * GB)) if memory else backend, link)
                except NotEnoughMemory as error:
                    say(str(error))
                    continue
                unbounded_ms = unbounded_ms if memory else row.epoch_ms
                floor = max(row.floor_ms, unbounded_ms)
                row = replace(row, memory_gb=memory, times=row.epoch_ms / floor if floor else math.nan)
                say(str(row))
                yield row
                backend.release()


def _store(folder: Path | None, copies: int, params: AlsParams | AlsImplicitParams, home: Path) -> None:
    """Write the store of the copied matrix into the work folder `home`; calibrated on the first users alone."""
    began = time.perf_counter()
    if folder is None:
        folder = home / "drawn"
        make_ratings.write("netflix", folder)
        say(f"drawn after {time.perf_counter() - began:.0f} s")
    one, _ = als_matrix.read(folder)
    calibration = calibrate(als_matrix.first_users(one, CALIBRATED), params)
    one = one if params.is_implicit else in_units(one, calibration.unit)
    ratings = gpu.Ratings(stacked(one.by_user, copies), side_by_side(one.by_item, copies, one.n_users))
    say(f"{len(ratings):,} ratings after {time.perf_counter() - began:.0f} s")
    partition_store.write(home, ratings, None, params, calibration)
    say(f"stored after {time.perf_counter() - began:.0f} s")


def stacked(rows: gpu.Rows, copies: int) -> gpu.Rows:
    """The rows `copies` times, one after the other."""
    n, starts = len(rows.items), np.concatenate([rows.starts + copy * len(rows.items) for copy in range(copies)])
    found = gpu.Rows(starts, np.tile(rows.lengths, copies), np.empty(copies * n, np.int32), np.empty(copies * n, "f4"))
    found.items.reshape(copies, n)[:], found.values.reshape(copies, n)[:] = rows.items, rows.values
    return found


def side_by_side(rows: gpu.Rows, copies: int, n_columns: int) -> gpu.Rows:
    """The rows with `copies` copies of their `n_columns` columns."""
    size, offsets = copies * len(rows.items), n_columns * np.arange(copies, dtype=np.int32)[:, None]
    items, values = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)
    for start, length in zip(rows.starts.tolist(), rows.lengths.tolist(), strict=True):
        own, to = slice(start, start + length), slice(copies * start, copies * (start + length))
        items[to].reshape(copies, length)[:] = rows.items[own] + offsets
        values[to].reshape(copies, length)[:] = rows.values[own]
    return gpu.Rows(copies * rows.starts, copies * rows.lengths, items, values)


def link_rate(backend: Backend) -> float:
    """GB a second of copies from pinned memory to the device; 0 on the host."""
    if backend.name == "host":
        return 0.0
    rate: float = importlib.import_module("gpu.device.cuda.feed").link_rate()
    return rate / GB


def _measured(
    data: partition_store.Partitions, params: AlsParams | AlsImplicitParams, backend: Backend, link: float
) -> Row:
    began = time.perf_counter()
    trainer = AlsTrainer(data.ratings, params, backend, None, data.calibration)
    loop.begin(trainer)
    ready_s = time.perf_counter() - began
    ms: list[float] = []
    for epoch in range(params.n_epochs):
        began = time.perf_counter()
        trainer.learn(epoch)
        ms.append((time.perf_counter() - began) * 1e3)
    say(" ".join(f"{one:.1f}" for one in ms))
    loss = float(trainer.metrics()["train_loss"])
    peak = backend.device_bytes().get("taken", 0)
    moved, batches = 0.0, (1, 1)
    if trainer.batches is not None:
        batches = len(trainer.batches.items) - 1, len(trainer.batches.users) - 1
        n_rows = data.ratings.n_users + data.ratings.n_items
        moved = 2 * RATING_BYTES * len(data.ratings) + ITEM_BYTES * n_rows
    digest = _digest(trainer.state())
    floor_ms = moved / link / 1e6 if link else 0.0
    size = params.algorithm, params.n_factors, len(data.ratings), 0.0, batches
    del trainer
    gc.collect()
    return Row(*size, statistics.median(ms[1:]), moved / GB, link, floor_ms, 0.0, peak / GB, loss, digest, ready_s)


def _digest(state: Mapping[str, NDArray[Any]]) -> str:
    digest = 0
    for _, table in sorted(state.items()):
        digest = zlib.crc32(table.tobytes(), digest)
    return f"{digest:08x}"
