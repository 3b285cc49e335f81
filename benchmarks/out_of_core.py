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
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import gpu
from benchmarks import datasets, make_ratings, options
from benchmarks.options import Algorithm, Factors, Parameters, Where
from benchmarks.results import Row, say
from benchmarks.timing import timed
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


def out_of_core(
    memories: Annotated[str, typer.Option("--memory", help="Comma-separated GB; 0: no bound.")] = "0,8",
    copies: Annotated[int, typer.Option(help="Copies of each user.", min=1)] = 10,
    ratings: Annotated[
        Path | None,
        typer.Option(help="Folder of raw arrays as cuMF reads them. Default: Netflix's shape is drawn.", exists=True),
    ] = None,
    algorithm: Algorithm = "als",
    factors: Factors = "100",
    epochs: Annotated[int, typer.Option(help="Epochs; the median leaves the first out.", min=2)] = 6,
    set_: Parameters = None,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Milliseconds of an epoch of ALS with ratings in memory, and in batches that are loaded within a bound.

    `batches` are those of the items and of the users, 1 and 1 if all ratings stay in memory. `epoch_ms` is the median
    without the first epoch. `moved_gb` is what an epoch loads, and `floor_ms` the time that this takes at the rate of a
    pinned copy, `link_gb_s`, measured before. `times` is the epoch in times of the larger of the floor and of the epoch
    of the training without bound, if there was one. `peak_gb` is what all processes take of the device at the end, CUDA
    included. Equal `digest` mean equal tables. `ready_s` is what comes before the first epoch.
    """
    where, params = options.chosen(backend), params_for(algorithm, {**options.parameters(set_), "n_epochs": epochs})
    assert isinstance(params, AlsParams | AlsImplicitParams)  # noqa: S101 - what the command offers
    with TemporaryDirectory(prefix="nearfield-") as home:
        _, seconds = timed(lambda: _store(ratings, copies, params, Path(home)))
        say(f"stored after {seconds:.0f} s")
        data, link = partition_store.read(Path(home)), 0.0
        if where.name == "device":
            link = importlib.import_module("gpu.device.cuda.feed").link_rate() / GB
        for n_factors in options.whole(factors):
            unbounded_ms = 0.0
            for memory in options.numbers(memories):
                say(f"{algorithm}, F = {n_factors}, {memory:g} GB")
                bounded = where.within(int(memory * GB)) if memory else where
                try:
                    row = _measured(data, replace(params, n_factors=n_factors), bounded, link)
                except NotEnoughMemory as error:
                    say(str(error))
                    continue
                unbounded_ms = unbounded_ms if memory else row["epoch_ms"]
                floor = max(row["floor_ms"], unbounded_ms)
                yield row | {"memory_gb": memory, "times": row["epoch_ms"] / floor if floor else math.nan}
                where.release()


def _store(folder: Path | None, copies: int, params: AlsParams | AlsImplicitParams, home: Path) -> None:
    """Write the store of the copied matrix into the work folder `home`; calibrated on the first users alone."""
    if folder is None:
        folder = home / "drawn"
        make_ratings.make_ratings("netflix", folder)
    one = datasets.ratings_of(folder)
    calibration = calibrate(datasets.first_users(one, CALIBRATED), params)
    one = one if params.is_implicit else in_units(one, calibration.unit)
    partition_store.write(home, copied(one, copies), None, params, calibration)


def copied(ratings: gpu.Ratings, copies: int) -> gpu.Ratings:
    """The ratings with so many copies of each user."""
    rows, n = ratings.by_user, len(ratings)
    starts = np.concatenate([rows.starts + copy * n for copy in range(copies)])
    by_user = gpu.Rows(starts, np.tile(rows.lengths, copies), np.tile(rows.items, copies), np.tile(rows.values, copies))
    rows, offsets = ratings.by_item, ratings.n_users * np.arange(copies, dtype=np.int32)[:, None]
    users, values = np.empty(copies * n, dtype=np.int32), np.empty(copies * n, dtype=np.float32)
    for start, length in zip(rows.starts.tolist(), rows.lengths.tolist(), strict=True):
        own, to = slice(start, start + length), slice(copies * start, copies * (start + length))
        users[to].reshape(copies, length)[:] = rows.items[own] + offsets
        values[to].reshape(copies, length)[:] = rows.values[own]
    return gpu.Ratings(by_user, gpu.Rows(copies * rows.starts, copies * rows.lengths, users, values))


def digest_of(state: Mapping[str, NDArray[Any]]) -> str:
    """A checksum of all arrays."""
    digest = 0
    for _, table in sorted(state.items()):
        digest = zlib.crc32(table.tobytes(), digest)
    return f"{digest:08x}"


def _measured(
    data: partition_store.Partitions, params: AlsParams | AlsImplicitParams, backend: gpu.Backend, link: float
) -> Row:
    began = time.perf_counter()
    trainer = AlsTrainer(data.ratings, params, backend, None, data.calibration)
    loop.begin(trainer)
    ready_s = time.perf_counter() - began
    ms: list[float] = []
    for epoch in range(params.n_epochs):
        began = time.perf_counter()
        trainer.learn(epoch)
        ms.append(1e3 * (time.perf_counter() - began))
    say(" ".join(f"{one:.1f}" for one in ms))
    moved, batches, n_ratings = 0.0, (1, 1), len(data.ratings)
    if trainer.batches is not None:
        batches = len(trainer.batches.items) - 1, len(trainer.batches.users) - 1
        moved = 2 * RATING_BYTES * n_ratings + ITEM_BYTES * (data.ratings.n_users + data.ratings.n_items)
    row = {
        "algorithm": params.algorithm, "n_factors": params.n_factors, "n_ratings": n_ratings, "batches": batches,
        "epoch_ms": statistics.median(ms[1:]), "moved_gb": moved / GB, "link_gb_s": link,
        "floor_ms": moved / link / 1e6 if link else 0.0, "peak_gb": backend.device_bytes().get("taken", 0) / GB,
        "loss": float(trainer.metrics()["train_loss"]), "digest": digest_of(trainer.state()), "ready_s": ready_s,
    }  # fmt: skip
    del trainer
    gc.collect()
    return row
