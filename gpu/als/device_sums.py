"""ALS on a CUDA device in mode "reduce" of several ranks ([001] Alg. 3): A and b are added up, then solved.

See `gpu.als.halves`. The kernels are those that solve long rows in parts (kernels/als.cu, als_wide.cu): here a
rank's ratings of a row are one part, whose sums go to a slot of memory. Slots of all ranks are added up.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.als import device as als
from gpu.als import device_fused as fused
from gpu.als import device_plan as plan
from gpu.als import device_sides as sides
from gpu.als.device_sides import Side, Table
from gpu.als.objective import AlsObjective, is_blocked
from gpu.base.device import TENSOR_CORES, compute_capability
from gpu.base.errors import InvalidParams
from gpu.cuda import work
from gpu.cuda.arrays import to_device
from gpu.data.ratings import Rows
from gpu.data.views import within_columns


class Batch(NamedTuple):
    """Rows whose sums are in memory together.

    Attributes:
        first_item, n_items: its items on the device, one for each row with ratings on this rank.
        missing: int64, rows without such ratings, from 0; on the device.
    """

    first_item: int
    n_items: int
    missing: Any


class Sums(NamedTuple):
    """Ratings whose entries are rows of the fixed side that this rank owns.

    Attributes:
        side: those ratings of all rows to solve; ρ of whole rows; splits of all rows, in their order.
        batches: (first, last) of rows, last excluded, whose sums are in memory together.
        items: the items of each batch.
        path: the module whose kernels are used.
    """

    side: Side
    batches: list[tuple[int, int]]
    items: list[Batch]
    path: ModuleType


def is_available() -> bool:
    """Whether the current device can add up: it needs tensor cores."""
    return compute_capability() >= TENSOR_CORES


def bytes_needed(n_rows: int, problem: AlsObjective) -> int:
    """Bytes of the sums of a side with `n_rows` rows, and of the items and splits of all rows."""
    slots: int = min(n_rows, als.max_slots(problem)) * als.path_of(problem).slot_bytes(problem)
    return slots + n_rows * (work.ITEM.itemsize + work.SPLIT.itemsize)


def prepare(rows: Rows, columns: slice, problem: AlsObjective, n_rated: int) -> Sums:
    """Ratings to add up over the fixed rows `columns`, copied to the device.

    Args:
        rows: whole rows of the side to solve.
        columns: consecutive rows of the fixed side.
        problem: the objective.
        n_rated: number of rows of the whole fixed side that have ratings.

    Raises:
        InvalidParams: only rows solved whole on tensor cores can be added up.
    """
    if not als.is_fused(problem) or is_blocked(problem):
        raise InvalidParams(
            "Invalid mode: expected gather, got reduce, which needs solver=cg, precision=float16, F <= 256"
        )
    part, weights, path = within_columns(rows, columns), plan.weights(rows, problem), als.path_of(problem)
    n, n_rows = als.max_slots(problem), len(rows.starts)
    batches = [(first, min(first + n, n_rows)) for first in range(0, n_rows, n)]
    n_blocks = path.n_resident(problem)
    items = [plan.balanced(_items(part, rows, weights, *batch), n_blocks) for batch in batches]
    splits = np.zeros(n_rows, dtype=work.SPLIT)
    splits["row"], splits["n_slots"] = np.arange(n_rows), 1
    splits["first_slot"] = np.arange(n_rows) % n
    splits["total"], splits["weight"] = rows.lengths, weights
    whole = plan.Plan(np.concatenate([*items, np.zeros(0, work.ITEM)]), splits, min(n, n_rows), 0)
    ridges, n_bytes = problem.ridges(rows.lengths, n_rated), whole.n_slots * path.slot_bytes(problem)
    side = sides.side_of(part, whole, [], ridges, n_rated, n_bytes)
    first_items = np.cumsum([0, *(len(some) for some in items)])
    found = [
        Batch(int(first), len(some), to_device(np.flatnonzero(part.lengths[slice(*batch)] == 0)))
        for first, some, batch in zip(first_items, items, batches, strict=False)
    ]
    return Sums(side, batches, found, path)


def _items(part: Rows, rows: Rows, weights: NDArray[np.float32], first: int, last: int) -> NDArray[np.void]:
    """An `ITEM` for each row of a batch with ratings here, longest first; its slot is the row, from `first`."""
    rated = first + np.flatnonzero(part.lengths[first:last])
    rated = rated[np.argsort(-part.lengths[rated], kind="stable")]
    items = np.zeros(len(rated), dtype=work.ITEM)
    items["begin"], items["length"] = part.starts[rated], part.lengths[rated]
    items["row"], items["slot"] = rated, rated - first
    items["total"], items["weight"] = rows.lengths[rated], weights[rated]
    return items


def gram_to_add(part: Table, problem: AlsObjective) -> Any:
    """VᵀV, float32 (F, F), of some rows of the fixed side; None for explicit problems."""
    return sides.gram_of_halves(part.halves, problem.n_factors) if problem.is_implicit else None


def add_up(sums: Sums, batch: tuple[int, int], part: Table, problem: AlsObjective) -> Any:
    """A and b of the rows of a batch over the fixed rows `part`: float32 (n, numbers of a slot)."""
    side, some = sums.side, sums.items[sums.batches.index(batch)]
    n_rows = batch[1] - batch[0]
    slots = side.slots.view(cupy.float32).reshape(side.plan.n_slots, -1)[:n_rows]
    slots[some.missing] = 0
    half = fused.pointers(columns=side.columns, values=side.values, fixed=part.halves, parts=slots)
    items = side.items[work.ITEM.itemsize * some.first_item :]
    constants = plan.solver_of(problem, side.n_rated)
    sums.path.form(items, some.n_items, some.n_items, half, constants, sums.path.defines(problem))
    return slots


def solve(
    sums: Sums, batch: tuple[int, int], own: slice, totals: Any, gram: Any, table: Table, problem: AlsObjective
) -> None:
    """Solve the rows `own` of a batch, whose A and b have been added up over all ranks, in place in `table`."""
    del batch
    packed = (None, None) if gram is None else fused.packed(gram, fused.defines(problem))
    half = fused.pointers(gram=packed[0], gram_unit=packed[1], solved=table.values, table=table.halves, parts=totals)
    splits = sums.side.splits[work.SPLIT.itemsize * own.start :]
    constants = plan.solver_of(problem, sums.side.n_rated)
    sums.path.solve_split_rows(splits, own.stop - own.start, half, constants, sums.path.defines(problem))
