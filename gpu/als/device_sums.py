"""ALS on a CUDA device in mode "reduce" of several ranks ([001] Alg. 3): A and b are added up, then solved.

See `gpu.als.halves`. The kernels are those that solve long rows in parts (kernels/als.cu, als_wide.cu): here a
rank's ratings of a row are one part, whose sums go to a slot of memory. Slots of all ranks are added up.
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
from gpu.als.device_sides import Side, Table, TensorPath
from gpu.als.device_stream import loaded_part
from gpu.als.objective import AlsObjective, is_blocked
from gpu.als.sum_batches import SumBatch
from gpu.base.device import TENSOR_CORES, compute_capability
from gpu.base.errors import InvalidParams
from gpu.cuda import work
from gpu.cuda.arrays import to_device
from gpu.cuda.feed import ALIGNMENT, Feed, Parcel
from gpu.data.ratings import Rows
from gpu.data.views import longest_first, within_columns

N_ARRAYS = 5  # of a batch


class Batch(NamedTuple):
    """Ratings of a batch.

    Attributes:
        arrays: on the device: columns and values of the ratings, items, splits of the rows that this rank solves, and
            places of rows without ratings. None if they are loaded.
        number: of their parcel, if they are loaded.
        n_rows: rows.
        own: those that this rank solves, by their place in its table.
    """

    arrays: list[Any] | None
    number: int
    n_rows: int
    own: slice


class Sums(NamedTuple):
    """Ratings whose entries are rows of the fixed side that this rank owns.

    Attributes:
        batches: in their order.
        feed: loads them; None: all are on the device.
        ridges: float64, ρ of the rows that this rank solves, on the host.
        n_rated: number of rows of the whole fixed side that have ratings.
        slots: float32 (rows, numbers of a slot), for the sums of the largest batch.
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
        values: float32 rows that this rank solves, if they were loaded from the host.
    """

    side: Side
    batch: Batch
    sums: Sums
    values: list[Any]


def is_available() -> bool:
    """Whether the current device can add up: it needs tensor cores."""
    return compute_capability() >= TENSOR_CORES


def most_rows(problem: AlsObjective) -> int:
    """Rows of a batch."""
    return als.max_slots(problem)


def slots_bytes(n_rows: int, problem: AlsObjective) -> int:
    """Bytes of the sums of `n_rows` rows."""
    slots: int = n_rows * als.tensor_path_of(problem).slot_bytes(problem)
    return slots


def batch_bytes(n_ratings: NDArray[np.int64], n_rows: NDArray[np.int64], n_own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of batches without their sums.

    They count ratings (8), for each row an item (32) or a place (8) and the sums of its errors (16), and for each row
    that this rank solves a split (32), ρ and its norm (24).

    Args:
        n_ratings, n_rows: int64 (q,), ratings over the fixed rows of this rank, and rows.
        n_own: int64 (q,), rows that this rank solves.
    """
    of_rows = (work.ITEM.itemsize + 16) * n_rows
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
        rated = longest_first(part.lengths)[: np.count_nonzero(part.lengths)]
        items = np.zeros(len(rated), dtype=work.ITEM)  # a row is one item, longest first; its slot is its place here
        items["begin"], items["length"] = part.starts[rated], part.lengths[rated]
        items["row"], items["slot"] = batch.numbers[rated], rated
        items["total"], items["weight"] = rows.lengths[items["row"]], weights[items["row"]]
        items, missing = plan.balanced(items, n_blocks, is_mixed=False), np.flatnonzero(part.lengths == 0)
        places = np.arange(batch.own.start, batch.own.stop)
        mine, splits = own.start + places, np.zeros(len(places), dtype=work.SPLIT)
        splits["row"] = splits["first_slot"] = places - batch.own.start
        splits["n_slots"] = 1
        splits["total"], splits["weight"] = rows.lengths[mine], weights[mine]
        arrays = part.items, part.values, items.view(np.uint8), splits.view(np.uint8), missing
        held = [to_device(array) for array in arrays] if feed is None else None
        rows_of_table = (table.values[batch.own],) if type(table.values) is np.ndarray else ()
        number = 0 if feed is None else feed.add(Parcel((*arrays, *rows_of_table), 0, len(rows_of_table)))
        found.append(Batch(held, number, len(batch.numbers), batch.own))
    ridges = problem.ridges(rows.lengths[own], n_rated)
    shape = max(batch.n_rows for batch in found), path.slot_bytes(problem) // 4
    return Sums(found, feed, ridges, n_rated, cupy.empty(shape, dtype=cupy.float32), path)


def loaded(sums: Sums, batches: Sequence[SumBatch]) -> Iterator[tuple[SumBatch, Loaded]]:
    """Each batch on the device; the caller launches its work before it asks for the next one."""
    for batch, here in zip(batches, sums.batches, strict=True):
        for side, values in _side_of(sums, here, is_changed=True):
            yield batch, Loaded(side, here, sums, values)


def _side_of(sums: Sums, batch: Batch, *, is_changed: bool = False) -> Iterator[tuple[Side, list[Any]]]:
    """The batch as a side, once, with its rows that were loaded; `is_changed`: the caller changes these."""
    nothing = plan.Plan(np.zeros(0, work.ITEM), np.zeros(0, work.SPLIT), 0, 0)
    if batch.arrays is not None:
        yield sides.loaded_side(batch.arrays, nothing, [], sums.n_rated, sums.slots), []
    elif sums.feed is not None:
        arrays, _ = sums.feed.take(batch.number)
        yield sides.loaded_side(arrays[:N_ARRAYS], nothing, [], sums.n_rated, sums.slots), arrays[N_ARRAYS:]
        sums.feed.release(batch.number, is_changed=is_changed and len(arrays) > N_ARRAYS)


def gram_to_add(part: Table, problem: AlsObjective) -> Any:
    """VᵀV, float32 (F, F), of some rows of the fixed side; None for explicit problems."""
    return sides.gram_of_halves(part.halves, problem.n_factors) if problem.is_implicit else None


def add_up(batch: Loaded, part: Table, problem: AlsObjective) -> Any:
    """A and b of the rows of a batch over the fixed rows `part`: float32 (n, numbers of a slot)."""
    side, path, slots = batch.side, batch.sums.path, batch.sums.slots[: batch.batch.n_rows]
    slots[side.empty] = 0
    half = fused.pointers(columns=side.columns, values=side.values, fixed=part.halves, parts=slots)
    n_items, constants = side.items.size // work.ITEM.itemsize, plan.solver_of(problem, side.n_rated)
    path.form(side.items, n_items, n_items, half, constants, path.defines(problem))
    return slots


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
        for side, _ in _side_of(sums, batch):
            found = losses.errors(side, table, part, problem, scale, first_row=first)
            squares, loss = squares + found[0], loss + found[1]
    return squares, loss


def penalty(sums: Sums, table: Table, problem: AlsObjective) -> float:
    """As `gpu.als.device.penalty`, of the rows that this rank solves."""
    del problem
    return losses.penalty(sums.ridges, table)
