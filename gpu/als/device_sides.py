"""Both sides of ALS on the device: parameters in the kernels' forms, and ratings with their plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import cupy
import numpy as np
from cupy_backends.cuda.libs import cublas
from numpy.typing import NDArray

from gpu.als.device_plan import Batch, Plan
from gpu.als.objective import BLOCK, AlsObjective, is_blocked, n_blocks, width
from gpu.cuda.arrays import PIECE_BYTES, to_device
from gpu.data.ratings import Rows

CUDA_FLOAT32, CUDA_FLOAT16 = 0, 2  # cudaDataType
CUBLAS_COMPUTE_FLOAT32, CUBLAS_DEFAULT = 68, -1  # cublasComputeType_t, cublasGemmAlgo_t
PASSING_BYTES = 64 * 2**20  # of float32 rows that are on the device for a while
PANEL = 32_768  # rows of a table that are converted to float64 at a time


@dataclass(frozen=True)
class Table:
    """Parameters of one side: of the rows that a rank solves, or what kernels read of all rows.

    Attributes:
        values: float32 (rows, D); an array of NumPy if they stay on the host, as with `halves`. If rows are improved in
            n blocks of W factors: (rows, n W), factors padded with zeros. None in a table of all rows of several ranks,
            if kernels read `halves`.
        halves: float16 (rows, LD), read by tensor cores and updated by the solving kernels; None if no kernel reads it.
            Columns: F factors; with biases 1, the bias rounded to float16 and its remainder; zeros up to a multiple of
            8. In blocks: (n, rows, W).
        biases: float32 (rows,), in blocks; None if they are part of `values`, or without biases.
        n_factors: F, in blocks; None if `values` has no padding.
        peers: addresses of these rows in the `halves` of other ranks; the solving kernels write there too.
        fence: float32 (1,), with peers; ranks add it up to wait for each other on their devices.
    """

    values: Any
    halves: Any
    biases: Any = None
    n_factors: int | None = None
    peers: tuple[int, ...] = ()
    fence: Any = None

    def part(self, rows: slice) -> Table:
        """Consecutive rows, not copied; not of a table in blocks."""
        halves = None if self.halves is None else self.halves[rows]
        offset = 0 if halves is None or not self.peers else halves.data.ptr - self.halves.data.ptr
        values = None if self.values is None else self.values[rows]
        return Table(values, halves, peers=tuple(peer + offset for peer in self.peers))

    def of_host(self, rows: slice) -> list[NDArray[Any]]:
        """What solving these rows loads from the host, and changes: `values`, then `halves`, if they are there."""
        return [array[rows] for array in (self.values, self.halves) if type(array) is np.ndarray]


@dataclass
class Side:
    """Ratings of one side and the plan to solve its rows.

    Attributes:
        columns, values: int32 and float32 (N,), the ratings in the order of the rows.
        plan, batches: the plan on the host; `batches` only if A is written to memory.
        items, splits: `plan.items` and `plan.splits` as bytes (32 n,).
        ridges: float64 (rows,), ρ.
        empty: int64, rows without ratings.
        starts, lengths: int64 (rows,), position and number of the ratings of each row.
        n_rated: number of rows of the fixed side that have ratings.
        slots_bytes: bytes of `slots`.
    """

    columns: Any
    values: Any
    plan: Plan
    batches: list[Batch]
    items: Any
    splits: Any
    ridges: Any
    empty: Any
    starts: Any
    lengths: Any
    n_rated: int
    slots_bytes: int

    @cached_property
    def slots(self) -> Any:
        """Memory for sums of parts of rows, allocated when the side is first solved: uint8 (slots_bytes,)."""
        return cupy.empty(self.slots_bytes, dtype=cupy.uint8)


class Path(Protocol):
    """Kernels that solve a problem, or one block of it: `gpu.als.device_plain`, or a `TensorPath`."""

    def slot_bytes(self, problem: AlsObjective) -> int:
        """Bytes of A and b of a part of a row."""

    def solve(self, side: Side, solved: Table, fixed: Table, problem: AlsObjective) -> None:
        """Run one half-iteration, in place in `solved`."""


class TensorPath(Path, Protocol):
    """Kernels on tensor cores: `gpu.als.device_fused` or `gpu.als.device_wide`."""

    def defines(self, problem: AlsObjective) -> dict[str, int]:
        """Macros of the kernels."""

    def n_resident(self, problem: AlsObjective) -> int:
        """Blocks of the solving kernel that run at a time."""

    def form(
        self, items: Any, n_items: int, n_parts: int, half: NDArray[np.void], constants: NDArray[np.void],
        macros: Mapping[str, int],
    ) -> None:  # fmt: skip
        """See `gpu.als.device_fused.form`."""

    def solve_split_rows(
        self, splits: Any, n_splits: int, half: NDArray[np.void], constants: NDArray[np.void], macros: Mapping[str, int]
    ) -> None:
        """See `gpu.als.device_fused.solve_split_rows`."""


def side_of(
    rows: Rows, plan: Plan, batches: list[Batch], ridges: NDArray[np.float64], n_rated: int, slots_bytes: int
) -> Side:
    """The side with these ratings and this plan, copied to the device."""
    ratings = to_device(rows.items), to_device(rows.values)
    work = to_device(plan.items.view(np.uint8)), to_device(plan.splits.view(np.uint8))
    places = to_device(np.flatnonzero(rows.lengths == 0)), to_device(rows.starts), to_device(rows.lengths)
    return Side(*ratings, plan, batches, *work, to_device(ridges), *places, n_rated, slots_bytes)


def loaded_side(loaded: list[Any], plan: Plan, batches: list[Batch], n_rated: int, slots: Any) -> Side:
    """A side whose rows are solved whole, in memory that others own.

    Args:
        loaded: `columns`, `values`, `items`, `splits` and `empty` of the side.
        slots: memory for sums of parts of rows.
    """
    columns, values, items, splits, empty = loaded
    side = Side(columns, values, plan, batches, items, splits, None, empty, None, None, n_rated, slots.size)
    side.slots = slots
    return side


def stride(problem: AlsObjective) -> int:
    """Columns of `Table.values`: D, or whole blocks of factors."""
    return n_blocks(problem) * BLOCK if is_blocked(problem) else width(problem)


def table_of(values: NDArray[np.float32], problem: AlsObjective, has_halves: bool) -> Table:
    """A table (rows, D), copied to the device in every form that kernels read."""
    if not is_blocked(problem):
        whole = to_device(values)
        return Table(whole, halves_of(whole, problem) if has_halves else None)
    n_factors, n_rows = problem.n_factors, max(1, PIECE_BYTES // (4 * values.shape[1]))
    blocked = cupy.zeros((len(values), stride(problem)), dtype=cupy.float32)
    for first in range(0, len(values), n_rows):
        piece = slice(first, first + n_rows)
        blocked[piece, :n_factors] = to_device(values[piece, :n_factors])
    halves = None
    if has_halves:
        halves = cupy.empty((n_blocks(problem), len(values), BLOCK), dtype=cupy.float16)
        halves[:] = blocked.reshape(len(values), n_blocks(problem), BLOCK).transpose(1, 0, 2)
    return Table(blocked, halves, to_device(values[:, -1]) if problem.biases else None, n_factors)


def fetched(table: Table) -> NDArray[np.float32]:
    """The table (rows, D) on the host; waits for kernels that write it."""
    if type(table.values) is np.ndarray:
        return table.values.copy()
    values: NDArray[np.float32] = table.values.get()
    values = values[:, : table.n_factors]
    return values if table.biases is None else np.column_stack([values, table.biases.get()])


def n_half_columns(problem: AlsObjective) -> int:
    """LD, columns of `Table.halves`; in blocks, the columns of all blocks together."""
    if is_blocked(problem):
        return stride(problem)
    used = problem.n_factors + 3 * problem.biases
    return -(-used // 8) * 8


def halves_of(values: Any, problem: AlsObjective) -> Any:
    """`Table.halves` of these values."""
    n_factors = problem.n_factors
    halves = cupy.zeros((len(values), n_half_columns(problem)), dtype=cupy.float16)
    halves[:, :n_factors] = values[:, :n_factors]
    if problem.biases:
        halves[:, n_factors] = 1
        halves[:, n_factors + 1] = values[:, n_factors]
        halves[:, n_factors + 2] = values[:, n_factors] - halves[:, n_factors + 1]
    return halves


def gram(values: Any) -> Any:
    """VᵀV, float32 (D, D)."""
    rows = values if len(values) else cupy.zeros((1, values.shape[1]), dtype=cupy.float32)  # a rehearsal starts cuBLAS
    return rows.T @ rows


def gram_of_halves(halves: Any, n_factors: int) -> Any:
    """VᵀV of the factors of `Table.halves` (rows, LD), summed in float32 on tensor cores: float32 (F, F).

    The kernels form A from the same numbers. It is five times as fast as `gram`, and ranks need no float32 rows of
    each other.
    """
    rows = halves if len(halves) else cupy.zeros((1, halves.shape[1]), dtype=cupy.float16)  # a rehearsal starts cuBLAS
    total = cupy.empty((n_factors, n_factors), dtype=cupy.float32)
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    # cuBLAS goes by columns: for it `rows` is (LD, rows), and its first F rows are the factors.
    sizes, stride = (n_factors, n_factors, len(rows)), rows.shape[1]
    cublas.gemmEx(
        cupy.cuda.device.get_cublas_handle(), cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_T, *sizes,
        one.ctypes.data, rows.data.ptr, CUDA_FLOAT16, stride, rows.data.ptr, CUDA_FLOAT16, stride,
        zero.ctypes.data, total.data.ptr, CUDA_FLOAT32, n_factors, CUBLAS_COMPUTE_FLOAT32, CUBLAS_DEFAULT,
    )  # fmt: skip
    return total


def here(array: Any) -> Any:
    """The array, copied from the host if it is there."""
    return to_device(array) if type(array) is np.ndarray else array


def on_device(values: Any) -> Iterator[tuple[int, Any]]:
    """(number of the first row, rows) of `Table.values`: all at once, or pieces that are copied from the host."""
    if type(values) is not np.ndarray:
        yield 0, values
        return
    n_rows = max(1, PASSING_BYTES // (4 * values.shape[1]))
    for first in range(0, len(values), n_rows):
        yield first, to_device(values[first : first + n_rows])


def exact_gram(values: Any) -> NDArray[np.float64]:
    """VᵀV on the host, summed in float64."""
    total = cupy.zeros((values.shape[1],) * 2, dtype=cupy.float64)
    for _, rows in on_device(values):
        for first in range(0, len(rows), PANEL):
            panel = rows[first : first + PANEL].astype(cupy.float64)
            total += panel.T @ panel
    on_host: NDArray[np.float64] = total.get()
    return on_host
