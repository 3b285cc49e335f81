"""ALS on a CUDA device with ratings that are loaded in batches of rows; see `gpu.als.batches`.

Both tables stay on the device. `gpu.cuda.feed` copies ratings and work items of a batch there while the batch
before is solved. Work items are planned once, as for the whole side: rows are cut, formed and solved as in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.als import device as als
from gpu.als import device_losses as losses
from gpu.als import device_plan as plan
from gpu.als import device_sides as sides
from gpu.als.device_sides import Side, Table
from gpu.als.device_tiling import tiling
from gpu.als.objective import WHOLE, AlsObjective, Extent, is_blocked
from gpu.base.errors import InvalidParams
from gpu.cuda.feed import ALIGNMENT, N_BUFFERS, Feed, Parcel
from gpu.data.ratings import Rows
from gpu.data.views import part_of

__all__ = ["Feed"]  # a primitive that another module has

N_OF_SIDE, N_ARRAYS = 5, 8  # arrays of a batch: those of its side; also sums of parts, and parameters


class Batch(NamedTuple):
    """Consecutive rows; their ratings, work items and empty rows are parcel `number` of the feed."""

    number: int
    rows: slice
    work: als.Work


class Stream(NamedTuple):
    """One side in batches.

    Attributes:
        feed: loads them; shared with the other side.
        batches: in the order of their rows.
        ridges: float64 (rows,), ρ, on the host.
        n_rated: number of rows of the fixed side that have ratings.
        slots: memory for sums that all batches use, uint8; None if each batch has its own.
    """

    feed: Feed
    batches: list[Batch]
    ridges: NDArray[np.float64]
    n_rated: int
    slots: Any


def n_buffers() -> int:
    """Batches in memory at the same time."""
    return N_BUFFERS


def can_stream(problem: AlsObjective) -> bool:
    """Whether ratings can be loaded in batches: not where rows are solved in blocks of factors."""
    return not is_blocked(problem)


def side_bytes(lengths: NDArray[np.int64], n_columns: int, problem: AlsObjective) -> int:
    """As `gpu.als.device.side_bytes`: peak bytes of device memory for rows that are all there."""
    found: int = als.side_bytes(lengths, n_columns, problem)
    return found


def base_bytes(users: Extent, items: Extent, problem: AlsObjective, *, on_host: bool = False) -> int:
    """Peak bytes of device memory without batches: both tables, ρ and norms of rows, sums, work space."""
    sums = 0
    if not als.is_fused(problem):
        most = max(int(plan.n_parts_of(side.lengths).sum()) for side in (users, items))
        sums = min(most, tiling(problem).max_slots) * als.path_of(problem).slot_bytes(problem)
    n_rows = max(min(len(side.lengths), sides.PASSING_BYTES // (4 * sides.stride(problem))) for side in (users, items))
    base = als.base_bytes(users, items, problem, on_host=on_host)
    return base + 24 * n_rows + sums + N_BUFFERS * N_ARRAYS * ALIGNMENT


def row_bytes(lengths: NDArray[np.int64], n_columns: int, problem: AlsObjective) -> NDArray[np.int64]:
    """Bytes of each row of a side in a batch.

    They count ratings (8), work items and split rows (32), sums of their errors (16), positions of rows without ratings
    (8), and on tensor cores sums of parts of rows.
    """
    if als.is_fused(problem):
        parts = plan.parts_of(lengths, als.n_ranges(n_columns, problem))
        split, sums = parts > 0, parts * als.path_of(problem).slot_bytes(problem)
    else:
        parts, sums = plan.n_parts_of(lengths), np.zeros_like(lengths)
        split = parts > 0
    n_items = np.where(lengths > 0, np.maximum(parts, 1), 0)
    found: NDArray[np.int64] = 8 * lengths + (32 + 16) * n_items + 32 * split + 8 * (lengths == 0) + sums
    return found


def prepare(
    rows: Rows,
    n_columns: int,
    problem: AlsObjective,
    n_rated: int,
    bounds: NDArray[np.int64],
    feed: Feed,
    table: Table,
) -> Stream:
    """The batches of one side; rows `bounds[k]` to `bounds[k + 1]` (excluded) are in batch k.

    Args:
        bounds: int64 (q + 1,).
        feed: of the training.
        table: of the rows; loads those that are on the host, too.
        rows, n_columns, problem, n_rated: as in `gpu.als.device.prepare`.

    Raises:
        InvalidParams: rows are solved in blocks of factors.
    """
    if not can_stream(problem):
        raise InvalidParams(f"Invalid n_factors: expected at most {WHOLE} with batches, got {problem.n_factors}")
    spans, batches = [slice(first, last) for first, last in pairwise(bounds.tolist())], []
    for span in spans:
        part, _ = part_of(rows, span)
        work = als.planned(part, n_columns, problem)
        tables = work.plan.items.view(np.uint8), work.plan.splits.view(np.uint8), np.flatnonzero(part.lengths == 0)
        own_sums = work.slots_bytes if als.is_fused(problem) else 0
        rows_of_table = table.of_host(span)
        parcel = Parcel((part.items, part.values, *tables, *rows_of_table), own_sums, len(rows_of_table))
        batches.append(Batch(feed.add(parcel), span, work))
    sums = None
    if not als.is_fused(problem):
        sums = cupy.empty(max((batch.work.slots_bytes for batch in batches), default=0), dtype=cupy.uint8)
    return Stream(feed, batches, problem.ridges(rows.lengths, n_rated), n_rated, sums)


def solve(stream: Stream, solved: Table, fixed: Table, problem: AlsObjective) -> None:
    """As `gpu.als.device.solve`, with the same bits; returns before the last batch is solved."""
    for rows, side, values in _loaded(stream, is_changed=True):
        als.solve(side, loaded_part(solved, rows, values), fixed, problem)


def loaded_part(table: Table, rows: slice, loaded: list[Any]) -> Table:
    """Consecutive rows of a table; `loaded`: its float32 rows, and float16 ones, if they were loaded from the host."""
    part, names = als.part(table, rows), ("values", "halves")[: len(loaded)]
    arrays = zip(names, loaded, strict=True)
    return replace(part, **{name: array.reshape(getattr(part, name).shape) for name, array in arrays})


def errors(
    stream: Stream, table: Table, fixed: Table, problem: AlsObjective, scale: tuple[float, float], first: int = 0
) -> tuple[float, float]:
    """As `gpu.als.device.errors`, but for the order of summation."""
    squares, loss = 0.0, losses.of_unrated(table, fixed) if problem.is_implicit else 0.0
    for rows, side, _ in _loaded(stream):
        found = losses.errors(side, als.part(table, rows), fixed, problem, scale, first_column=first)
        squares, loss = squares + found[0], loss + found[1]
    return squares, loss


def penalty(stream: Stream, table: Table, problem: AlsObjective) -> float:
    """As `gpu.als.device.penalty`."""
    del problem
    return losses.penalty(stream.ridges, table)


def _loaded(stream: Stream, *, is_changed: bool = False) -> Iterator[tuple[slice, Side, list[Any]]]:
    """Each batch on the device, with its rows, and their parameters if these come from the host.

    The caller launches its work before it asks for the next one, and says whether that changes parameters.
    """
    for number, rows, work in stream.batches:
        arrays, sums = stream.feed.take(number)
        sums = sums if stream.slots is None else stream.slots
        side = sides.loaded_side(arrays[:N_OF_SIDE], work.plan, work.batches, stream.n_rated, sums)
        yield rows, side, arrays[N_OF_SIDE:]
        stream.feed.release(number, is_changed=is_changed and len(arrays) > N_OF_SIDE)
