"""ALS on a CUDA device in mode "reduce" of several ranks ([001] Alg. 3): A and b are added up, then solved.

See `gpu.als.halves`. The kernels are those that solve long rows in parts (kernels/als.cu, als_wide.cu): here a
rank's ratings of a row are one part, or several if they are many, whose sums go to slots of memory. Those of a row are
added up (kernels/als_slots.cu), and then those of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.als import device as als
from gpu.als import device_fused as fused
from gpu.als import device_losses as losses
from gpu.als import device_plan as plan
from gpu.als import device_sides as sides
from gpu.als import device_wide as wide
from gpu.als.device_sides import Side, Table, TensorPath
from gpu.als.device_stream import loaded_part
from gpu.als.objective import AlsObjective, is_blocked
from gpu.als.sum_batches import SumBatch
from gpu.base.device import TENSOR_CORES, compute_capability
from gpu.base.errors import InvalidParams
from gpu.cuda import kernels, work
from gpu.cuda.arrays import to_device
from gpu.cuda.feed import ALIGNMENT, Feed, Parcel
from gpu.cuda.launcher import Launcher
from gpu.data.ratings import Rows
from gpu.data.views import within_columns

NAME, THREADS = "als_slots", 256
N_OF_SIDE, N_ARRAYS = 5, 6  # arrays of a wave: those of its side; and the rows in several parts
N_FROM_HOST = 3  # rows that may come with them: float16 ones of the fixed side, and both forms of those to solve

run = Launcher(NAME, {})


class Wave(NamedTuple):
    """Ratings of a batch over some of the fixed rows.

    Attributes:
        columns: these rows, from the first of this rank on.
        arrays: on the device: columns and values of the ratings, items, splits of the rows that this rank solves (in
            the last wave), places of rows without ratings, and rows in several parts. None if they are loaded.
        number: of their parcel, if they are loaded.
        n_slots: slots of their parts.
    """

    columns: slice
    arrays: list[Any] | None
    number: int
    n_slots: int


class Batch(NamedTuple):
    """A batch of rows.

    Attributes:
        waves: their ratings; one wave if all fixed rows of this rank are on the device.
        n_rows: rows.
        own: those that this rank solves, by their place in its table.
    """

    waves: list[Wave]
    n_rows: int
    own: slice


class Sums(NamedTuple):
    """Ratings whose entries are rows of the fixed side that this rank owns.

    Attributes:
        batches: in their order.
        feed: loads them; None: all are on the device.
        ridges: float64, ρ of the rows that this rank solves, on the host.
        n_rated: number of rows of the whole fixed side that have ratings.
        slots: float32 (slots, numbers of a slot), for the sums of the largest batch or wave.
        totals: the same for the sums over several waves; None if there is one.
        path: the kernels.
    """

    batches: list[Batch]
    feed: Feed | None
    ridges: NDArray[np.float64]
    n_rated: int
    slots: Any
    totals: Any
    path: TensorPath


class Loaded(NamedTuple):
    """A wave of a batch on the device: its ratings, items and splits as a side, and what it is part of.

    Attributes:
        joined: int32 (3 m,), the rows in several parts; see `gpu.als.device_plan.Summed`.
        fixed: float16 rows of the wave, if they were loaded from the host.
        own: rows that this rank solves, if they were loaded from the host, in the last wave.
    """

    side: Side
    joined: Any
    fixed: Any | None
    own: list[Any]
    wave: Wave
    batch: Batch
    sums: Sums

    @property
    def is_last(self) -> bool:
        """Whether no more wave of the batch follows."""
        return self.wave is self.batch.waves[-1]


def is_available() -> bool:
    """Whether the current device can add up: it needs tensor cores."""
    return compute_capability() >= TENSOR_CORES


def compile_once(problem: AlsObjective) -> None:
    """Compile the kernels of ranks, in one of their processes; needs no ratings."""
    if not als.is_fused(problem) or is_blocked(problem):
        return
    wanted: list[kernels.Wanted] = [(fused.NAME, fused.defines(problem), None), (NAME, {}, None)]
    wanted.append((losses.NAME, losses.defines(problem), None))
    if wide.fits(problem):
        wanted.append((wide.NAME, wide.defines(problem), wide.ARCHITECTURE))
    kernels.compile_once(wanted)


def fixed_bytes(problem: AlsObjective) -> int:
    """Bytes of a fixed row in the form that is read."""
    return 2 * sides.n_half_columns(problem)


def most_rows(problem: AlsObjective) -> int:
    """Rows of a batch."""
    return als.max_slots(problem)


def slots_bytes(n_rows: int, n_ratings: int, problem: AlsObjective) -> int:
    """Bytes of the sums of `n_rows` rows with `n_ratings` over the fixed rows of this rank."""
    path = als.tensor_path_of(problem)
    slots: int = n_rows + plan.most_more(n_ratings, path.n_resident(problem))
    return slots * path.slot_bytes(problem)


def batch_bytes(n_ratings: NDArray[np.int64], n_rows: NDArray[np.int64], n_own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of batches without their sums.

    They count ratings (8), for each part of a row an item (32) and the sums of its errors (16), for each row in several
    parts three numbers (12), and for each row that this rank solves a split (32), ρ and its norm (24).

    Args:
        n_ratings, n_rows: int64 (q,), ratings over the fixed rows of this rank, and rows.
        n_own: int64 (q,), rows that this rank solves.
    """
    more = n_ratings // plan.LONG
    of_rows = (work.ITEM.itemsize + 16) * (n_rows + more) + 12 * more
    return 8 * n_ratings + of_rows + (work.SPLIT.itemsize + 24) * n_own + (N_ARRAYS + N_FROM_HOST) * ALIGNMENT


def prepare(
    rows: Rows,
    columns: slice,
    own: slice,
    batches: Sequence[SumBatch],
    problem: AlsObjective,
    n_rated: int,
    feed: Feed | None,
    tables: tuple[Table, Table],
    waves: NDArray[np.int64] | None = None,
) -> Sums:
    """Ratings to add up over the fixed rows `columns`.

    Args:
        rows: whole rows of the side to solve.
        columns: consecutive rows of the fixed side.
        own: the rows that this rank solves.
        batches: whose sums are in memory together.
        problem: the objective.
        n_rated: number of rows of the whole fixed side that have ratings.
        feed: if the ratings of each batch are to be loaded again in every half; None: they stay on the device.
        tables: of the rows that this rank solves, and of the fixed ones; loads those that are on the host, too.
        waves: int64 (w + 1,), bounds of waves of `columns`, from 0. Default: one.

    Raises:
        InvalidParams: only rows solved whole on tensor cores can be added up.
    """
    if not als.is_fused(problem) or is_blocked(problem):
        raise InvalidParams(
            "Invalid mode: expected gather, got reduce, which needs solver=cg, precision=float16, F <= 256"
        )
    path, weights = als.tensor_path_of(problem), plan.weights(rows, problem)
    n_blocks, found = path.n_resident(problem), list[Batch]()
    solved, fixed = tables
    edges = np.array([0, columns.stop - columns.start]) if waves is None else waves
    for batch in batches:
        places = np.arange(batch.own.start, batch.own.stop)
        mine, splits = own.start + places, np.zeros(len(places), dtype=work.SPLIT)
        splits["row"] = splits["first_slot"] = places - batch.own.start
        splits["n_slots"] = 1
        splits["total"], splits["weight"] = rows.lengths[mine], weights[mine]
        in_waves, given = list[Wave](), rows.at(batch.numbers)
        for first, last in pairwise(edges.tolist()):
            part = within_columns(given, slice(columns.start + first, columns.start + last))
            items, joined = plan.summed(part, batch.numbers, rows.lengths, weights, n_blocks)
            missing, n_slots = np.flatnonzero(part.lengths == 0), len(batch.numbers) + int(joined[2].sum())
            to_solve = splits if last == edges[-1] else splits[:0]
            arrays = part.items, part.values, items.view(np.uint8), to_solve.view(np.uint8), missing, joined.ravel()
            held, number = None, 0
            if feed is None:
                held = [to_device(array) for array in arrays]
            else:
                rounded = [fixed.halves[first:last]] if type(fixed.halves) is np.ndarray else []
                changed = solved.of_host(batch.own) if last == edges[-1] else []
                number = feed.add(Parcel((*arrays, *rounded, *changed), 0, len(changed), bool(rounded)))
            in_waves.append(Wave(slice(first, last), held, number, n_slots))
        found.append(Batch(in_waves, len(batch.numbers), batch.own))
    ridges, width = problem.ridges(rows.lengths[own], n_rated), path.slot_bytes(problem) // 4
    slots = cupy.empty((max(wave.n_slots for batch in found for wave in batch.waves), width), dtype=cupy.float32)
    n_totals = max(batch.n_rows for batch in found) if len(edges) > 2 else 0
    totals = cupy.empty((n_totals, width), dtype=cupy.float32)
    return Sums(found, feed, ridges, n_rated, slots, totals, path)


def loaded(sums: Sums, batches: Sequence[SumBatch]) -> Iterator[tuple[SumBatch, Loaded]]:
    """Each batch on the device, wave by wave; the caller launches its work before it asks for the next one."""
    for batch, here in zip(batches, sums.batches, strict=True):
        for wave in here.waves:
            for one in _on_device(sums, here, wave, is_changed=True):
                yield batch, one


def _on_device(sums: Sums, batch: Batch, wave: Wave, *, is_changed: bool = False) -> Iterator[Loaded]:
    """The wave, once; `is_changed`: the caller changes the rows that this rank solves."""
    nothing = plan.Plan(np.zeros(0, work.ITEM), np.zeros(0, work.SPLIT), 0, 0)
    arrays = sums.feed.take(wave.number)[0] if wave.arrays is None and sums.feed is not None else wave.arrays or []
    side, rows = sides.loaded_side(arrays[:N_OF_SIDE], nothing, [], sums.n_rated, sums.slots), arrays[N_ARRAYS:]
    fixed = rows.pop(0) if rows and rows[0].dtype == cupy.float16 else None
    yield Loaded(side, arrays[N_OF_SIDE], fixed, rows, wave, batch, sums)
    if wave.arrays is None and sums.feed is not None:
        sums.feed.release(wave.number, is_changed=is_changed and bool(rows))


def gram_to_add(sums: Sums, part: Table, problem: AlsObjective) -> Any:
    """VᵀV, float32 (F, F), of some rows of the fixed side; None for explicit problems."""
    if not problem.is_implicit:
        return None
    if type(part.halves) is not np.ndarray or sums.feed is None:
        return sides.gram_of_halves(part.halves, problem.n_factors)
    sums.feed.wait()  # until all that was solved is there
    total = cupy.zeros((problem.n_factors,) * 2, dtype=cupy.float32)
    for _, rows in sides.on_device(part.halves):
        total += sides.gram_of_halves(rows, problem.n_factors)
    return total


def add_up(batch: Loaded, part: Table, problem: AlsObjective) -> Any:
    """A and b of the rows of a batch over the fixed rows `part` up to this wave: float32 (n, numbers of a slot)."""
    side, path, slots = batch.side, batch.sums.path, batch.sums.slots[: batch.wave.n_slots]
    slots[side.empty] = 0
    fixed = part.halves if batch.fixed is None else batch.fixed
    half = fused.pointers(columns=side.columns, values=side.values, fixed=fixed, parts=slots)
    n_items, constants = side.items.size // work.ITEM.itemsize, plan.solver_of(problem, side.n_rated)
    path.form(side.items, n_items, n_items, half, constants, path.defines(problem))
    width, n_joined = slots.shape[1], len(batch.joined) // 3
    if n_joined:
        rows, firsts, counts = (batch.joined[k * n_joined : (k + 1) * n_joined] for k in range(3))
        run("add_parts", (-(-width // THREADS), n_joined), THREADS, slots, rows, firsts, counts, np.int32(width))
    sums = slots[: batch.batch.n_rows]
    if len(batch.batch.waves) == 1:
        return sums
    totals = batch.sums.totals[: batch.batch.n_rows]
    if batch.wave is batch.batch.waves[0]:
        totals[...] = sums
    else:
        totals += sums
    return totals


def solve(batch: Loaded, totals: Any, gram: Any, table: Table, problem: AlsObjective) -> None:
    """Solve the rows of this rank in a batch, in place in `table`; `totals` begins with their A and b of all ranks."""
    path, side, table = batch.sums.path, batch.side, loaded_part(table, batch.batch.own, batch.own)
    packed = (None, None) if gram is None else fused.packed(gram, fused.defines(problem))
    half = fused.pointers(
        table.peers, gram=packed[0], gram_unit=packed[1], solved=table.values, table=table.halves, parts=totals
    )
    constants = plan.solver_of(problem, side.n_rated)
    n_own = batch.batch.own.stop - batch.batch.own.start
    path.solve_split_rows(side.splits, n_own, half, constants, path.defines(problem))


def errors(
    sums: Sums, table: Table, part: Table, problem: AlsObjective, scale: tuple[float, float], first: int
) -> tuple[float, float]:
    """As `gpu.als.device.errors`, of consecutive rows `table`, from row `first` on, over the fixed rows `part`."""
    squares, loss = 0.0, losses.of_unrated(table, part) if problem.is_implicit else 0.0
    for batch in sums.batches:
        for wave in batch.waves:
            fixed = als.part(part, wave.columns)
            for one in _on_device(sums, batch, wave):
                found = losses.errors(one.side, table, fixed, problem, scale, first_row=first)
                squares, loss = squares + found[0], loss + found[1]
    return squares, loss


def penalty(sums: Sums, table: Table, problem: AlsObjective) -> float:
    """As `gpu.als.device.penalty`, of the rows that this rank solves."""
    del problem
    return losses.penalty(sums.ridges, table)
