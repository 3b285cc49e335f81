"""ALS on a CUDA device in mode "reduce" of several ranks ([001] Alg. 3): A and b are added up, then solved.

See `gpu.als.halves`. The kernels are those that solve long rows in parts (kernels/als.cu, als_wide.cu): here a
rank's ratings of a row are one part, or several if they are many, whose sums go to slots of memory. Those of a row are
added up (kernels/als_slots.cu), and then those of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
N_OF_SIDE, N_ARRAYS = 5, 6  # arrays of a batch: those of its side; and the rows in several parts

run = Launcher(NAME, {})


class Batch(NamedTuple):
    """Ratings of a batch.

    Attributes:
        arrays: on the device: columns and values of the ratings, items, splits of the rows that this rank solves,
            places of rows without ratings, and rows in several parts. None if they are loaded.
        number: of their parcel, if they are loaded.
        n_rows: rows.
        n_slots: slots of their parts.
        own: those that this rank solves, by their place in its table.
    """

    arrays: list[Any] | None
    number: int
    n_rows: int
    n_slots: int
    own: slice


class Sums(NamedTuple):
    """Ratings whose entries are rows of the fixed side that this rank owns.

    Attributes:
        batches: in their order.
        feed: loads them; None: all are on the device.
        ridges: float64, ρ of the rows that this rank solves, on the host.
        n_rated: number of rows of the whole fixed side that have ratings.
        slots: float32 (slots, numbers of a slot), for the sums of the largest batch.
        path: the kernels.
    """

    batches: list[Batch]
    feed: Feed | None
    ridges: NDArray[np.float64]
    n_rated: int
    slots: Any
    path: TensorPath


class Loaded(NamedTuple):
    """A batch on the device: its ratings, items and splits as a side, and what it is part of.

    Attributes:
        joined: int32 (3 m,), the rows in several parts; see `gpu.als.device_plan.Summed`.
        values: float32 rows that this rank solves, if they were loaded from the host.
    """

    side: Side
    joined: Any
    batch: Batch
    sums: Sums
    values: list[Any]


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
    return 8 * n_ratings + of_rows + (work.SPLIT.itemsize + 24) * n_own + N_ARRAYS * ALIGNMENT


def prepare(
    rows: Rows,
    columns: slice,
    own: slice,
    batches: Sequence[SumBatch],
    problem: AlsObjective,
    n_rated: int,
    feed: Feed | None,
    table: Table,
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
        table: of the rows that this rank solves; loads its float32 rows too, if they are on the host.

    Raises:
        InvalidParams: only rows solved whole on tensor cores can be added up.
    """
    if not als.is_fused(problem) or is_blocked(problem):
        raise InvalidParams(
            "Invalid mode: expected gather, got reduce, which needs solver=cg, precision=float16, F <= 256"
        )
    path, weights = als.tensor_path_of(problem), plan.weights(rows, problem)
    n_blocks, found = path.n_resident(problem), list[Batch]()
    for batch in batches:
        part = within_columns(rows.at(batch.numbers), columns)
        items, joined = plan.summed(part, batch.numbers, rows.lengths, weights, n_blocks)
        missing, n_slots = np.flatnonzero(part.lengths == 0), len(batch.numbers) + int(joined[2].sum())
        places = np.arange(batch.own.start, batch.own.stop)
        mine, splits = own.start + places, np.zeros(len(places), dtype=work.SPLIT)
        splits["row"] = splits["first_slot"] = places - batch.own.start
        splits["n_slots"] = 1
        splits["total"], splits["weight"] = rows.lengths[mine], weights[mine]
        arrays = part.items, part.values, items.view(np.uint8), splits.view(np.uint8), missing, joined.ravel()
        held = [to_device(array) for array in arrays] if feed is None else None
        rows_of_table = (table.values[batch.own],) if type(table.values) is np.ndarray else ()
        number = 0 if feed is None else feed.add(Parcel((*arrays, *rows_of_table), 0, len(rows_of_table)))
        found.append(Batch(held, number, len(batch.numbers), n_slots, batch.own))
    ridges = problem.ridges(rows.lengths[own], n_rated)
    shape = max(batch.n_slots for batch in found), path.slot_bytes(problem) // 4
    return Sums(found, feed, ridges, n_rated, cupy.empty(shape, dtype=cupy.float32), path)


def loaded(sums: Sums, batches: Sequence[SumBatch]) -> Iterator[tuple[SumBatch, Loaded]]:
    """Each batch on the device; the caller launches its work before it asks for the next one."""
    for batch, here in zip(batches, sums.batches, strict=True):
        for side, joined, values in _side_of(sums, here, is_changed=True):
            yield batch, Loaded(side, joined, here, sums, values)


def _side_of(sums: Sums, batch: Batch, *, is_changed: bool = False) -> Iterator[tuple[Side, Any, list[Any]]]:
    """The batch as a side, its rows in several parts, and those that were loaded, once.

    `is_changed`: the caller changes the last ones.
    """
    nothing = plan.Plan(np.zeros(0, work.ITEM), np.zeros(0, work.SPLIT), 0, 0)
    if batch.arrays is not None:
        arrays = batch.arrays
        yield sides.loaded_side(arrays[:N_OF_SIDE], nothing, [], sums.n_rated, sums.slots), arrays[N_OF_SIDE], []
    elif sums.feed is not None:
        arrays, _ = sums.feed.take(batch.number)
        side = sides.loaded_side(arrays[:N_OF_SIDE], nothing, [], sums.n_rated, sums.slots)
        yield side, arrays[N_OF_SIDE], arrays[N_ARRAYS:]
        sums.feed.release(batch.number, is_changed=is_changed and len(arrays) > N_ARRAYS)


def gram_to_add(part: Table, problem: AlsObjective) -> Any:
    """VᵀV, float32 (F, F), of some rows of the fixed side; None for explicit problems."""
    return sides.gram_of_halves(part.halves, problem.n_factors) if problem.is_implicit else None


def add_up(batch: Loaded, part: Table, problem: AlsObjective) -> Any:
    """A and b of the rows of a batch over the fixed rows `part`: float32 (n, numbers of a slot)."""
    side, path, slots = batch.side, batch.sums.path, batch.sums.slots[: batch.batch.n_slots]
    slots[side.empty] = 0
    half = fused.pointers(columns=side.columns, values=side.values, fixed=part.halves, parts=slots)
    n_items, constants = side.items.size // work.ITEM.itemsize, plan.solver_of(problem, side.n_rated)
    path.form(side.items, n_items, n_items, half, constants, path.defines(problem))
    width, n_joined = slots.shape[1], len(batch.joined) // 3
    if n_joined:
        rows, firsts, counts = (batch.joined[k * n_joined : (k + 1) * n_joined] for k in range(3))
        run("add_parts", (-(-width // THREADS), n_joined), THREADS, slots, rows, firsts, counts, np.int32(width))
    return slots[: batch.batch.n_rows]


def solve(batch: Loaded, totals: Any, gram: Any, table: Table, problem: AlsObjective) -> None:
    """Solve the rows of this rank in a batch, in place in `table`; `totals` begins with their A and b of all ranks."""
    path, side, table = batch.sums.path, batch.side, loaded_part(table, batch.batch.own, batch.values)
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
        for side, _, _ in _side_of(sums, batch):
            found = losses.errors(side, table, part, problem, scale, first_row=first)
            squares, loss = squares + found[0], loss + found[1]
    return squares, loss


def penalty(sums: Sums, table: Table, problem: AlsObjective) -> float:
    """As `gpu.als.device.penalty`, of the rows that this rank solves."""
    del problem
    return losses.penalty(sums.ridges, table)
