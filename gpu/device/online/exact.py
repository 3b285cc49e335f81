"""Exact refits of rows on the device: twin of `gpu.host.online.exact`; see kernels/exact.cu.

The factors of the items lie here as the model has them, and sums over both sides. What rows are solved from goes up in
one copy, and so does the part of the users that items are solved beside; what is found comes back in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.device import shared_memory
from gpu.device.cuda.arrays import to_device
from gpu.device.cuda.launcher import Launcher
from gpu.device.cuda.scratch import Scratch, fetched, pinned
from gpu.device.cuda.structures import structure
from gpu.model import Model
from gpu.online.exact_rows import RatedRows, Read, Solved, Sums, n_fitting, parts_of
from gpu.refit_rules import N_SWEEPS, SMALLEST_RIDGE, TINY, TOLERANCE, Objective

# What a launch has at most, so that it takes some milliseconds.
RATINGS_AT_ONCE, USERS_AT_ONCE, ITEMS_AT_ONCE = 2**16, 1024, 32
NUMBERS_AT_ONCE = 2**20  # factors of users that are gathered on the host and copied: a millisecond
ADDS_AT_ONCE = 2**31  # multiply-adds of all rows,
ADDS_OF_ROW = 2**26  # and of one, which has a single multiprocessor
SWEEPS = 100  # that a row of NMF takes, more or less
WORKSPACE_BYTES, MOST_BLOCKS = 2**26, 128  # for matrices that do not fit into shared memory, and blocks that have one
STORE_THREADS, STEP_BYTES = 256, 32  # as kernels/exact.cu has them
ALIGNED = 16  # bytes


class _Side(NamedTuple):
    """Sums over a side on the device: VᵀV, m and VᵀV m, float64 (F F + 2 F,), and the trace of VᵀV."""

    numbers: Any
    trace: float


class _Launch(NamedTuple):
    """Rows of one launch: where they come from, and whether it goes on with a row and has its last ratings."""

    rows: RatedRows
    first: int
    last: int
    is_begun: bool
    is_ended: bool


class Solver:
    """Rows of one model, solved on the device; see `gpu.online.exact_rows.Solver`.

    Only items that the snapshot trained are ever read, so the copy of the items does not grow.
    """

    most_users, most_items = USERS_AT_ONCE, ITEMS_AT_ONCE

    def __init__(self, model: Model, objective: Objective) -> None:
        """Copy the items and compile the kernels. Any thread."""
        self._model, self._objective, self._n_factors = model, objective, model.params.width
        n_factors, self._n_terms = self._n_factors, self._n_factors + objective.has_biases
        macros = {"F": n_factors, "BIASES": int(objective.has_biases), "IMPLICIT": int(objective.is_implicit)}
        self._run = Launcher("exact", macros)
        self._factors, self._biases = to_device(model.item_factors), to_device(model.item_bias)
        nothing = Sums(np.zeros((n_factors, n_factors)), np.zeros(n_factors))
        self._of_items = self._of_users = _side_of(nothing)
        numbers = objective.alpha, objective.mean, objective.unit, SMALLEST_RIDGE, TINY, TOLERANCE
        self._constants = structure(*map(np.float64, numbers), np.int64(N_SWEEPS))
        _, stage_bytes, matrix_bytes = self._run.geometry
        self._is_in_shared = stage_bytes + matrix_bytes <= shared_memory()
        self._carry = cupy.empty(max(matrix_bytes // 8, n_factors))
        self._n_blocks = max(min(WORKSPACE_BYTES // matrix_bytes, MOST_BLOCKS), 1)
        has_workspace = not (self._is_in_shared or objective.is_nonnegative)
        self._workspace = cupy.empty(self._n_blocks * matrix_bytes // 8) if has_workspace else None
        self._sent, self._solutions = Scratch(_transfer), Scratch(_results)

    def take_sums(self, of_items: Sums, of_users: Sums) -> None:
        """Copy these sums."""
        self._of_items, self._of_users = _side_of(of_items), _side_of(of_users)

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Copy the parameters of those of `items` that are read."""
        items = items[self._model.item_trained[items]]
        if not len(items):
            return
        factors, biases = self._model.item_factors[items], self._model.item_bias[items]
        addresses = self._send(items.astype(np.int32), factors, biases)
        n_blocks = -(-len(items) * (self._n_factors + 1) // STORE_THREADS)
        arguments = *map(np.uint64, addresses), np.int32(len(items)), self._factors, self._biases
        self._run("store_rows", n_blocks, STORE_THREADS, *arguments)
        cupy.cuda.get_current_stream().synchronize()  # what was sent from is written again

    def n_users(self, counts: NDArray[np.int64]) -> int:
        """How many of the first users fit into a launch, at least one.

        Args:
            counts: ratings of each user, (B,).
        """
        return n_fitting(self._costs(counts, RATINGS_AT_ONCE), ADDS_AT_ONCE)

    def n_items(self, counts: NDArray[np.int64]) -> int:
        """The same for items, whose raters are gathered."""
        return n_fitting(self._costs(counts, self._most_gathered), ADDS_AT_ONCE)

    def users(self, rows: RatedRows) -> Solved:
        """Rows of users beside the items that lie here."""
        return self._solved(rows, self._of_items, None)

    def items(self, rows: RatedRows, read: Read) -> Solved:
        """Rows of items beside the users that are read, a launch at a time."""
        return self._solved(rows, self._of_users, read)

    @property
    def _most_gathered(self) -> int:
        """Ratings of a launch for which users are gathered."""
        return max(NUMBERS_AT_ONCE // self._n_factors, 1)

    def _of_row(self, most: int) -> int:
        """Ratings of one row in a launch that has `most`."""
        adds = self._n_factors if self._objective.is_nonnegative else self._n_terms**2 // 2
        return max(min(ADDS_OF_ROW // max(adds, 1), most), 1)

    def _costs(self, counts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """What each row takes of a launch, (B,), in multiply-adds; a launch has `ADDS_AT_ONCE`.

        A rating costs at least 1 / `most` of a launch and a row at least 1 / `USERS_AT_ONCE`, so a launch never has
        more of either. A row with more ratings than fit into one launch costs all of it.

        Args:
            counts: ratings of each row, (B,).
            most: ratings of a launch.
        """
        n_terms, is_nonnegative = self._n_terms, self._objective.is_nonnegative
        rating, row = (n_terms, SWEEPS * n_terms**2) if is_nonnegative else (n_terms**2 // 2, n_terms**3 // 6)
        rating, row = max(rating, ADDS_AT_ONCE // most), max(row, ADDS_AT_ONCE // USERS_AT_ONCE)
        return np.asarray(np.where(counts > self._of_row(most), ADDS_AT_ONCE, counts * rating + row))

    def _solved(self, rows: RatedRows, sums: _Side, read: Read | None) -> Solved:
        found = np.zeros((len(rows.ridges), self._n_factors + 1))
        most = RATINGS_AT_ONCE if read is None else self._most_gathered
        for n, launch in enumerate(self._launches(rows, most)):
            if n:
                yield
            self._launch(launch, sums, read)
            if launch.is_ended:
                found[launch.first : launch.last] = self._fetched(launch.last - launch.first)
            else:
                cupy.cuda.get_current_stream().synchronize()  # what was sent from is written again
        return found

    def _launches(self, rows: RatedRows, most: int) -> Iterator[_Launch]:
        """The rows in parts, each of which fits into a launch; a row of very many ratings in pieces."""
        of_row = self._of_row(most)
        for first, last in parts_of(self._costs(rows.counts, most), ADDS_AT_ONCE):
            part = rows.part(first, last)
            n_ratings = len(part.values)
            if last - first > 1 or n_ratings <= of_row:
                yield _Launch(part, first, last, False, True)
                continue
            for begin in range(0, n_ratings, of_row):
                end = min(begin + of_row, n_ratings)
                yield _Launch(part.piece(begin, end), first, last, begin > 0, end == n_ratings)

    def _launch(self, launch: _Launch, sums: _Side, read: Read | None) -> None:
        """Send what rows are solved from, and start to solve them."""
        others, values, bounds, ridges = launch.rows
        beside = (others,) if read is None else read(others)
        at_bounds, at_ridges, at_values, *at = map(np.uint64, self._send(bounds, ridges, values, *beside))
        flags = np.int32(launch.is_begun), np.int32(launch.is_ended), np.int32(0)
        given = (
            structure(at_bounds, at_ridges, np.uint64(0) if read else at[0], at_values, np.int32(len(ridges)), *flags),
            self._side(sums, *(at if read else ())),
            self._constants,
            self._carry,
            self._solutions.of(len(ridges) * (self._n_factors + 1))[0],
        )
        self._solve(len(ridges), *given)

    def _solve(self, n_rows: int, *given: Any) -> None:
        threads, stage_bytes, matrix_bytes = self._run.geometry
        if self._objective.is_nonnegative:
            self._run("solve_nonnegative", n_rows, _threads_of(self._n_factors), *given, shared=STEP_BYTES)
        elif self._is_in_shared:
            self._run("solve_in_shared", n_rows, threads, *given, shared=stage_bytes + matrix_bytes)
        else:
            n_blocks = min(n_rows, self._n_blocks)
            self._run("solve_in_memory", n_blocks, threads, *given, self._workspace, shared=stage_bytes)

    def _fetched(self, n_rows: int) -> NDArray[np.float64]:
        """What the launch has found, (n_rows, F + 1), until the next one; waits for it."""
        n = n_rows * (self._n_factors + 1)
        to, held = self._solutions.of(n)
        return fetched(to[:n], held[:n]).reshape(n_rows, -1)

    def _side(self, sums: _Side, factors: Any = None, biases: Any = None) -> Any:
        """`Side` of the kernels: the items, or users whose factors and biases lie at these addresses."""
        at, n = sums.numbers.data.ptr, self._n_factors
        usual = at + 8 * n * n
        arrays = (self._factors, self._biases) if factors is None else (factors, biases)
        return structure(*arrays, *map(np.uint64, (at, usual, usual + 8 * n)), np.float64(sums.trace))

    def _send(self, *arrays: NDArray[Any]) -> list[int]:
        """Copy `arrays` to the device in one go; their addresses, until the next call."""
        sizes = [-(-array.nbytes // ALIGNED) * ALIGNED for array in arrays]
        starts = np.cumsum([0, *sizes]).tolist()
        held, to = self._sent.of(starts[-1])
        for array, start in zip(arrays, starts, strict=False):
            held[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        to.data.copy_from_host_async(held.ctypes.data, starts[-1])
        return [to.data.ptr + start for start in starts[:-1]]


def _side_of(sums: Sums) -> _Side:
    whole = sums.gram + np.triu(sums.gram, 1).T
    pull = (whole * sums.usual).sum(axis=1)  # not by BLAS, whose bits may depend on where an array lies
    return _Side(to_device(np.concatenate([whole.ravel(), sums.usual, pull])), float(np.trace(whole)))


def _threads_of(n_factors: int) -> int:
    """Of a block of `solve_nonnegative`."""
    return min(-(-n_factors // 32) * 32, 256)


def _transfer(n_bytes: int) -> tuple[NDArray[np.uint8], Any]:
    return pinned(n_bytes), cupy.empty(n_bytes, dtype=cupy.uint8)


def _results(n: int) -> tuple[Any, NDArray[np.float64]]:
    return cupy.empty(n), pinned(8 * n).view(np.float64)
