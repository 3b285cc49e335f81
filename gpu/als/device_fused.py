"""Half-iterations on tensor cores: one kernel forms and solves A and b of a row without writing them to memory.

Kernels and their ownership of data: kernels/als.cu. Sums of A are FP32; the solver reads A rounded to FP16. Parts of
split rows are summed in FP32, and a second kernel solves these rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.als import device_plan as plan
from gpu.als import device_sides as sides
from gpu.als.device_sides import Side, Table
from gpu.als.device_subspace import Block
from gpu.als.objective import AlsObjective, block_problem, is_blocked, width
from gpu.cuda import work
from gpu.cuda.kernels import kernel, module
from gpu.cuda.launcher import blocks_at_once

NAME = "als"
POINTERS = "columns", "values", "fixed", "gram", "gram_unit", "solved", "table", "parts", "lacks", "product", "steps"
MOST_PEERS = 7  # other ranks whose tables a kernel writes
HALF = np.dtype(
    [*((name, "<u8") for name in POINTERS), ("peers", "<u8", MOST_PEERS), ("n_peers", "<i4"), ("unused", "<i4")]
)
Macros = Mapping[str, int]


class Geometry(NamedTuple):
    """Sizes that kernels/als.cu defines and exports.

    Attributes:
        threads: threads of a block.
        shared_bytes: bytes of shared memory of a block.
        slot_bytes: bytes of the sums of a part of a row.
        gram_edge, gram_bytes: rows and columns of the padded Gram matrix, and bytes of its packed form.
        short_threads, short_bytes: threads, and bytes of shared memory, of a block that solves short rows.
    """

    threads: int
    shared_bytes: int
    slot_bytes: int
    gram_edge: int
    gram_bytes: int
    short_threads: int
    short_bytes: int


def defines(problem: AlsObjective, stride: int | None = None) -> dict[str, int]:
    """The macros of kernels/als.cu.

    Args:
        stride: width of the solved table, to improve one block of its factors. Default: rows are solved whole.
    """
    kind = {"F": problem.n_factors, "BIASES": int(problem.biases), "IMPLICIT": int(problem.is_implicit)}
    return {**kind, "STEP": int(stride is not None), "STRIDE": stride or width(problem)}


def slot_bytes(problem: AlsObjective) -> int:
    """Bytes of the sums of one part of a row; compiles the kernels."""
    return _geometry(defines(problem)).slot_bytes


def n_resident(problem: AlsObjective) -> int:
    """Blocks that form A which the device runs at once; compiles the kernels."""
    macros = defines(block_problem(problem), sides.stride(problem)) if is_blocked(problem) else defines(problem)
    return blocks_at_once(_kernel("solve_rows", macros), *_block(_geometry(macros)))


def solve(side: Side, solved: Table, fixed: Table, problem: AlsObjective) -> None:
    """Run one half-iteration, in place in both forms of `solved`; rows without ratings do not change."""
    macros = defines(problem)
    gram: tuple[Any, Any] = (None, None)
    if problem.is_implicit:
        gram = packed(sides.gram_of_halves(fixed.halves, problem.n_factors), macros)
    half, constants = half_of(side, solved, fixed, *gram), plan.solver_of(problem, side.n_rated)
    _solve_rows(side, half, constants, macros)


def improve(side: Side, block: Block, problem: AlsObjective) -> None:
    """Improve one block of factors of every row with ratings."""
    inner, stride = block_problem(problem), sides.stride(problem)
    macros = defines(inner, stride)
    gram, unit = (None, None) if block.gram is None else packed(block.gram, macros)
    values = side.values if problem.is_implicit else block.lacks
    half = pointers(
        columns=side.columns,
        values=values,
        fixed=block.fixed_halves,
        gram=gram,
        gram_unit=unit,
        solved=block.values,
        table=block.halves,
        parts=side.slots,
        lacks=block.lacks,
        product=block.product,
        steps=block.steps,
    )
    _solve_rows(side, half, plan.solver_of(inner, side.n_rated), macros)


def _solve_rows(side: Side, half: NDArray[np.void], constants: NDArray[np.void], macros: Macros) -> None:
    for items, splits, batch in launches(side):
        form(items, batch.n_items, batch.n_slots, half, constants, macros)
        solve_split_rows(splits, batch.n_splits, half, constants, macros)
    solve_short_rows(side, half, constants, macros)


def launches(side: Side) -> Iterator[tuple[Any, Any, plan.Batch]]:
    """(items, splits, sizes) of each batch."""
    for batch in side.batches:
        items = side.items[work.ITEM.itemsize * batch.first_slot :]
        yield items, side.splits[work.SPLIT.itemsize * batch.first_split :], batch


def form(
    items: Any, n_items: int, n_parts: int, half: NDArray[np.void], constants: NDArray[np.void], macros: Macros
) -> None:
    """Form A and b of `n_items` items: parts of rows, which come first, go to their slots; whole rows are solved."""
    if n_items:
        counts = np.uint32(n_items), np.uint32(n_parts)
        launch(_kernel("solve_rows", macros), *_block(_geometry(macros)), n_items, items, *counts, half, constants)


def solve_split_rows(
    splits: Any, n_splits: int, half: NDArray[np.void], constants: NDArray[np.void], macros: Macros
) -> None:
    """Solve the rows whose parts have been formed."""
    if n_splits:
        geometry, solver = _geometry(macros), _kernel("solve_split_rows", macros)
        solver((n_splits,), (geometry.threads,), (splits, half, constants), shared_mem=geometry.shared_bytes)


def solve_short_rows(side: Side, half: NDArray[np.void], constants: NDArray[np.void], macros: Macros) -> None:
    """Solve the last items, which are short rows: see `plan.short_of`."""
    n_short = side.plan.n_short
    if n_short:
        geometry = _geometry(macros)
        items = side.items[work.ITEM.itemsize * (len(side.plan.items) - n_short) :]
        solver, block = _kernel("solve_short_rows", macros), (geometry.short_threads, geometry.short_bytes)
        launch(solver, *block, n_short, items, np.uint32(n_short), half, constants)


def launch(solver: Any, threads: int, shared_bytes: int, most: int, *arguments: Any) -> None:
    """Run a kernel whose blocks share the work: as many blocks as are resident at once, at most `most`."""
    blocks = min(most, blocks_at_once(solver, threads, shared_bytes))
    solver((blocks,), (threads,), arguments, shared_mem=shared_bytes)


def half_of(side: Side, solved: Table, fixed: Table, gram: Any, gram_unit: Any) -> NDArray[np.void]:
    """`Half` of the kernels for rows that are solved whole."""
    return pointers(
        solved.peers,
        columns=side.columns,
        values=side.values,
        fixed=fixed.halves,
        gram=gram,
        gram_unit=gram_unit,
        solved=solved.values,
        table=solved.halves,
        parts=side.slots,
    )


def pointers(peers: Sequence[int] = (), **arrays: Any) -> NDArray[np.void]:
    """`Half` of the kernels: addresses, passed by value; `peers` as in `Table`."""
    half = np.zeros((), dtype=HALF)
    half["n_peers"] = len(peers)
    half["peers"][: len(peers)] = peers
    for name, array in arrays.items():
        half[name] = 0 if array is None else array.data.ptr
    return half.view(f"V{HALF.itemsize}")  # CuPy spells out the fields of a structure at each launch


def packed(gram: Any, macros: Macros) -> tuple[Any, Any]:
    """VᵀV in the kernels' form: (float16 shares of its largest element, that element)."""
    geometry = _geometry(macros)
    padded = cupy.zeros((geometry.gram_edge,) * 2, dtype=cupy.float32)
    padded[: len(gram), : len(gram)] = gram
    packed, unit = cupy.empty(geometry.gram_bytes, dtype=cupy.uint8), cupy.empty(1, dtype=cupy.float32)
    _kernel("pack_gram", macros)((1,), (geometry.threads,), (padded, packed, unit))
    return packed, unit


def _kernel(function: str, macros: Macros) -> Any:
    geometry = _geometry(macros)
    shared_bytes = geometry.short_bytes if function == "solve_short_rows" else geometry.shared_bytes
    return kernel(NAME, function, dict(macros), shared_bytes)


def _block(geometry: Geometry) -> tuple[int, int]:
    """(threads, bytes of shared memory) of a block."""
    return geometry.threads, geometry.shared_bytes


def _geometry(macros: Macros) -> Geometry:
    return Geometry(*geometry_of(module(NAME, dict(macros)), len(Geometry._fields)))


@functools.cache
def geometry_of(loaded: Any, n: int) -> tuple[int, ...]:
    """The `n` numbers of the global array `geometry` that a module exports."""
    numbers = cupy.ndarray(n, cupy.int32, loaded.get_global("geometry"))
    return tuple(numbers.get().tolist())
