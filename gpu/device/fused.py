"""Half-iterations on tensor cores: A and b of a row are formed and solved in one kernel and never written to memory.

Kernels, and who owns what in them: kernels/als.cu. A is rounded to FP16 for the solver, its sums are FP32; rows that a
plan has split are summed in parts, in FP32, and solved by a second kernel.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import cupy
import numpy as np
from cupy_backends.cuda.api import driver

from gpu.als import Problem
from gpu.device import arrays, plan
from gpu.device.arrays import Side, Table
from gpu.device.kernels import kernel, module

NAME = "als"
POINTERS = "columns", "values", "fixed", "gram", "gram_unit", "solved", "table", "parts"
HALF = np.dtype([(name, "<u8") for name in POINTERS])


class Geometry(NamedTuple):
    """What the kernels say of themselves; `kernels/als.cu` alone decides it.

    Attributes:
        threads: of a block.
        shared_bytes: of a block.
        slot_bytes: of the sums of a part of a row.
        gram_edge, gram_bytes: rows and columns of the Gram matrix with its padding, and memory of its packed form.
        short_threads, short_bytes: threads and shared memory of a block that solves short rows.
    """

    threads: int
    shared_bytes: int
    slot_bytes: int
    gram_edge: int
    gram_bytes: int
    short_threads: int
    short_bytes: int


def defines(problem: Problem) -> dict[str, int]:
    """The macros of `kernels/als.cu`."""
    return {"F": problem.n_factors, "BIASES": int(problem.biases), "IMPLICIT": int(problem.is_implicit)}


def slot_bytes(problem: Problem) -> int:
    """Memory of the sums of one part of a row; compiles the kernels."""
    return _geometry(problem).slot_bytes


def solve(side: Side, solved: Table, fixed: Table, problem: Problem) -> None:
    """One half-iteration, in place of both forms of `solved`; rows without ratings are left alone."""
    geometry = _geometry(problem)
    gram = _gram(fixed, problem) if problem.is_implicit else (None, None)
    half, constants = _half(side, solved, fixed, *gram), plan.solver_of(problem, side.n_rated)
    n_short = 0 if problem.is_implicit else side.plan.n_short  # G would have to be applied in every step
    n_items, n_splits = len(side.plan.items) - n_short, len(side.plan.splits)
    if n_items:
        counts = np.uint32(n_items), np.uint32(side.plan.n_slots)
        _launch("solve_rows", problem, n_items, side.items, *counts, half, constants)
    if n_short:
        short = side.items[plan.ITEM.itemsize * n_items :]
        _launch("solve_short_rows", problem, n_short, short, np.uint32(n_short), half, constants)
    if n_splits:
        solver = _kernel("solve_split_rows", problem)
        solver((n_splits,), (geometry.threads,), (side.splits, half, constants), shared_mem=geometry.shared_bytes)


def _launch(function: str, problem: Problem, most: int, *arguments: Any) -> None:
    """Run a kernel whose blocks share the work: as many as are on the device at once, `most` at most."""
    solver, (threads, shared_bytes) = _kernel(function, problem), _block(function, _geometry(problem))
    blocks = min(most, _blocks(solver, threads, shared_bytes))
    solver((blocks,), (threads,), arguments, shared_mem=shared_bytes)


def _half(side: Side, solved: Table, fixed: Table, gram: Any, gram_unit: Any) -> Any:
    """`Half` of the kernels: addresses, passed by value."""
    half = np.zeros((), dtype=HALF)
    given = side.columns, side.values, fixed.halves, gram, gram_unit, solved.values, solved.halves, side.slots
    for name, array in zip(POINTERS, given, strict=True):
        half[name] = 0 if array is None else array.data.ptr
    return half


def _gram(fixed: Table, problem: Problem) -> tuple[Any, Any]:
    """VᵀV as the kernels take it: float16 shares of its largest element, and that element."""
    geometry = _geometry(problem)
    padded = cupy.zeros((geometry.gram_edge,) * 2, dtype=cupy.float32)
    n_factors = fixed.values.shape[1]
    padded[:n_factors, :n_factors] = arrays.gram(fixed.values)
    packed, unit = cupy.empty(geometry.gram_bytes, dtype=cupy.uint8), cupy.empty(1, dtype=cupy.float32)
    _kernel("pack_gram", problem)((1,), (geometry.threads,), (padded, packed, unit))
    return packed, unit


def _kernel(function: str, problem: Problem) -> Any:
    return kernel(NAME, function, defines(problem), _block(function, _geometry(problem))[1])


def _block(function: str, geometry: Geometry) -> tuple[int, int]:
    """(threads, bytes of shared memory) of a block."""
    if function == "solve_short_rows":
        return geometry.short_threads, geometry.short_bytes
    return geometry.threads, geometry.shared_bytes


def _geometry(problem: Problem) -> Geometry:
    return _geometry_of(module(NAME, defines(problem)))


@functools.cache
def _geometry_of(loaded: Any) -> Geometry:
    found = cupy.ndarray(len(Geometry._fields), cupy.int32, loaded.get_global("geometry"))
    return Geometry(*found.get().tolist())


@functools.cache
def _blocks(solver: Any, threads: int, shared_bytes: int) -> int:
    """Blocks of a kernel that are on the device at once."""
    fit = driver.occupancyMaxActiveBlocksPerMultiprocessor(solver.kernel.ptr, threads, shared_bytes)
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"] * fit)
