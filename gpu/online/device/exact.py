"""Exact refits of rows on the device: twin of `gpu.online.host.exact`; see kernels/exact.cu.

The device has a copy of the model's item factors, and sums over both sides. One copy uploads the ratings of the rows,
and for rows of items also the factors of their raters. One copy brings the solutions back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.base.device import shared_memory
from gpu.cuda.arrays import to_device
from gpu.cuda.launcher import Launcher
from gpu.cuda.scratch import Scratch, fetched, pinned
from gpu.cuda.structures import structure
from gpu.data.model import Model
from gpu.data.refit_rules import N_SWEEPS, SMALLEST_RIDGE, TINY, TOLERANCE, Objective
from gpu.online.exact_rows import RatedRows, Read, Solved, Sums, n_fitting, parts_of

# Limits of a launch, so that it takes some milliseconds.
RATINGS_AT_ONCE, USERS_AT_ONCE, ITEMS_AT_ONCE = 2**16, 1024, 32
NUMBERS_AT_ONCE = 2**20  # numbers; users' factors that the host gathers and copies in about a millisecond
ADDS_AT_ONCE = 2**31  # multiply-adds of all rows
ADDS_OF_ROW = 2**26  # multiply-adds of one row, which runs on a single multiprocessor
SWEEPS = 100  # sweeps; a typical row of NMF
WORKSPACE_BYTES, MOST_BLOCKS = 2**26, 128  # bytes and blocks for matrices that do not fit into shared memory
STORE_THREADS, STEP_BYTES = 256, 32  # as in kernels/exact.cu
ALIGNED = 16  # bytes


class _Side(NamedTuple):
    """Sums over a side on the device: VᵀV, m and VᵀV m, float64 (F F + 2 F,), and the trace of VᵀV."""

    numbers: Any
    trace: float


class _Launch(NamedTuple):
    """Rows `first` to `last` (excluded) of one launch.

    A row with very many ratings takes several launches: `is_begun` says that an earlier launch has its first ratings,
    `is_ended` that this launch has its last ones.
    """

    rows: RatedRows
    first: int
    last: int
    is_begun: bool
    is_ended: bool


class Solver:
    """Solves rows of one model on the device; the twin of `gpu.online.host.exact.Solver`.

    It reads only items that the snapshot trained, so the copy of the items does not grow.
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
        self._sent = Scratch(lambda n_bytes: (pinned(n_bytes), cupy.empty(n_bytes, dtype=cupy.uint8)))
        self._solutions = Scratch(lambda n: (cupy.empty(n), pinned(8 * n).view(np.float64)))

    def take_sums(self, of_items: Sums, of_users: Sums) -> None:
        """Copy these sums to the device."""
        self._of_items, self._of_users = _side_of(of_items), _side_of(of_users)

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Copy the parameters of the trained ones of `items` (B,) to the device."""
        items = items[self._model.item_trained[items]]
        if not len(items):
            return
        factors, biases = self._model.item_factors[items], self._model.item_bias[items]
        addresses = self._send(items.astype(np.int32), factors, biases)
        n_blocks = -(-len(items) * (self._n_factors + 1) // STORE_THREADS)
        arguments = *map(np.uint64, addresses), np.int32(len(items)), self._factors, self._biases
        self._run("store_rows", n_blocks, STORE_THREADS, *arguments)
        cupy.cuda.get_current_stream().synchronize()  # the next call overwrites the pinned buffer

    def n_users(self, counts: NDArray[np.int64]) -> int:
        """How many of the first users fit into a launch, at least one.

        Args:
            counts: ratings of each user, (B,).
        """
        return n_fitting(self._costs(counts, RATINGS_AT_ONCE), ADDS_AT_ONCE)

    def n_items(self, counts: NDArray[np.int64]) -> int:
        """The same for items, whose raters' factors are gathered on the host."""
        return n_fitting(self._costs(counts, self._most_gathered), ADDS_AT_ONCE)

    def users(self, rows: RatedRows) -> Solved:
        """[u; b] of users against the items on the device."""
        return self._solved(rows, self._of_items, None)

    def items(self, rows: RatedRows, read: Read) -> Solved:
        """[v; b] of items against the users that `read` returns, one launch at a time."""
        return self._solved(rows, self._of_users, read)

    @property
    def _most_gathered(self) -> int:
        """Ratings, at most, of a launch whose users are gathered on the host."""
        return max(NUMBERS_AT_ONCE // self._n_factors, 1)

    def _of_row(self, most: int) -> int:
        """Ratings, at most, of one row in a launch that takes up to `most` ratings."""
        adds = self._n_factors if self._objective.is_nonnegative else self._n_terms**2 // 2
        return max(min(ADDS_OF_ROW // max(adds, 1), most), 1)

    def _costs(self, counts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Cost of each row, (B,), in multiply-adds; a launch may cost `ADDS_AT_ONCE`.

        A rating costs at least 1 / `most` of a launch and a row at least 1 / `USERS_AT_ONCE`, so a launch never has
        more of either. A row with more ratings than fit into one launch costs all of it.

        Args:
            counts: ratings of each row, (B,).
            most: ratings of a launch, at most.
        """
        n_terms, is_nonnegative = self._n_terms, self._objective.is_nonnegative
        rating, row = (n_terms, SWEEPS * n_terms**2) if is_nonnegative else (n_terms**2 // 2, n_terms**3 // 6)
        rating, row = max(rating, ADDS_AT_ONCE // most), max(row, ADDS_AT_ONCE // USERS_AT_ONCE)
        return np.asarray(np.where(counts > self._of_row(most), ADDS_AT_ONCE, counts * rating + row))

    def _solved(self, rows: RatedRows, sums: _Side, read: Read | None) -> Solved:
        solutions = np.zeros((len(rows.ridges), self._n_factors + 1))
        most = RATINGS_AT_ONCE if read is None else self._most_gathered
        for n, launch in enumerate(self._launches(rows, most)):
            if n:
                yield
            self._launch(launch, sums, read)
            if launch.is_ended:
                part = solutions[launch.first : launch.last]
                to, held = self._solutions.of(part.size)
                part[:] = fetched(to[: part.size], held[: part.size]).reshape(part.shape)
            else:
                cupy.cuda.get_current_stream().synchronize()  # the next launch overwrites the pinned buffer
        return solutions

    def _launches(self, rows: RatedRows, most: int) -> Iterator[_Launch]:
        """Split the rows into launches; a row with very many ratings takes several."""
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
        """Upload the ratings of the rows, and the users that `read` returns, and start to solve them."""
        others, values, bounds, ridges, priors = launch.rows
        n_rows, n_factors, nothing = len(ridges), self._n_factors, np.uint64(0)
        sent = self._send(bounds, ridges, values, priors, *((others,) if read is None else read(others)))
        at_bounds, at_ridges, at_values, at_priors, *at_side = map(np.uint64, sent)
        at_others, *side = (at_side[0], self._factors, self._biases) if read is None else (nothing, *at_side)
        flags = np.int32(launch.is_begun), np.int32(launch.is_ended), np.int32(0)
        at_priors = at_priors if len(priors) else nothing
        at_gram = sums.numbers.data.ptr
        at_usual = at_gram + 8 * n_factors**2
        at_sums = map(np.uint64, (at_gram, at_usual, at_usual + 8 * n_factors))
        arguments = (
            structure(at_bounds, at_ridges, at_others, at_values, at_priors, np.int32(n_rows), *flags),
            structure(*side, *at_sums, np.float64(sums.trace)),
            self._constants,
            self._carry,
            self._solutions.of(n_rows * (n_factors + 1))[0],
        )
        threads, stage_bytes, matrix_bytes = self._run.geometry
        if self._objective.is_nonnegative:
            threads = min(-(-n_factors // 32) * 32, 256)
            self._run("solve_nonnegative", n_rows, threads, *arguments, shared=STEP_BYTES)
        elif self._is_in_shared:
            self._run("solve_in_shared", n_rows, threads, *arguments, shared=stage_bytes + matrix_bytes)
        else:
            n_blocks = min(n_rows, self._n_blocks)
            self._run("solve_in_memory", n_blocks, threads, *arguments, self._workspace, shared=stage_bytes)

    def _send(self, *arrays: NDArray[Any]) -> list[int]:
        """Copy `arrays` to the device in one transfer; returns their addresses, valid until the next call."""
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
