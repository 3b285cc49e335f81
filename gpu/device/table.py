"""`RatingTable` on the device: twin of `gpu.table.RatingTable`, which takes in whole batches in a few kernels.

A batch is sorted, joined with the rows it touches, and those rows are made anew; see kernels/table.cu. The host learns
eight numbers on the way: how much there is to do, and how much room it takes. Timestamps stay on the host.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.device.arena import ROW_THREADS, Arena, run
from gpu.device.growing import Growing
from gpu.device.structures import structure
from gpu.errors import InvalidInput
from gpu.ratings import Rows

THREADS, PLAN_THREADS = 256, 1024  # the second as kernels/table.cu has it
N_COUNTS = 8


class Changes(NamedTuple):
    """What a batch did to a table, on the device.

    Attributes:
        old: float32 (B,), the value each change replaced, NaN where there was none.
        users, items: int32 (P,), pairs that the batch named, ascending.
        before, now: float32 (P,), their ratings before and after the batch, NaN where there is none.
        touched_users: int32 (A,), users of these pairs, ascending; touched_items: int32 (C,), items whose raters or
            ratings have changed, in any order.
        n_ratings: what the touched users hold.
    """

    old: Any
    users: Any
    items: Any
    before: Any
    now: Any
    touched_users: Any
    touched_items: Any
    n_ratings: int


class RatingTable:
    """A mutable sparse matrix of ratings in device memory, by user with everything, by item with its raters.

    A rating takes 16 bytes by user and 4 by item, and up to half as much again in spare room; a batch of 10,000 changes
    takes about half a millisecond on an H100.
    """

    def __init__(self, rows: Rows, positions: NDArray[np.int64], n_items: int) -> None:
        """Take in the rows of users, host arrays, which `gpu.table.RatingTable` or `gpu.Ratings` hold.

        Args:
            rows: items ascending within a row.
            positions: int64, parallel to `rows.items`; they tell a user's newest ratings.
        """
        lengths = cupy.asarray(rows.lengths)
        columns = [cupy.asarray(column) for column in (rows.items, rows.values, positions)]
        self._by_user = Arena(cupy.asarray(rows.starts), lengths, columns)
        self._by_user.pack(0)
        self._by_item = self._raters_of_items(n_items)
        self._marks = [Growing(cupy.zeros(n_items, dtype=cupy.int32)) for _ in range(3)]

    @property
    def n_users(self) -> int:
        """M, rows of users (those without ratings too)."""
        return len(self._by_user.starts)

    @property
    def n_items(self) -> int:
        """N, rows of items (those without ratings too)."""
        return len(self._by_item.starts)

    @property
    def item_counts(self) -> Any:
        """Ratings of each item, int64 (N,): a view that changes with the table until it grows."""
        return self._by_item.lengths

    @property
    def lengths(self) -> Any:
        """Ratings of each user, int64 (M,): a view that changes with the table until it grows."""
        return self._by_user.lengths

    @property
    def n_bytes(self) -> int:
        """Bytes of ratings held, spare room included."""
        return sum(int(column.nbytes) for arena in (self._by_user, self._by_item) for column in arena.columns)

    @property
    def pointers(self) -> Any:
        """`Table` of the kernels; take it anew after each change."""
        return _pointers(self._by_user, self._by_item)

    def grow(self, n_users: int, n_items: int) -> None:
        """Lengthen to at least (n_users, n_items); new rows are empty."""
        self._by_user.grow(n_users)
        self._by_item.grow(n_items)
        for mark in self._marks:
            mark.grow(n_items)

    def apply(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        values: NDArray[np.floating],
        positions: NDArray[np.int64],
    ) -> Changes:
        """Apply changes in order; the last one of a (user, item) wins. Arguments, host arrays, as on the host.

        Raises:
            InvalidInput: unequal lengths, or a row beyond the table (`grow` first).
        """
        self._check(users, items, values, positions)
        n = len(users)
        if not n:
            none, no_value = cupy.zeros(0, dtype=cupy.int32), cupy.zeros(0, dtype=cupy.float32)
            return Changes(no_value, none, none, no_value, no_value, none, none, 0)
        work = _Work(n, *_uploaded(users, items, values, positions), [mark.values for mark in self._marks])
        table = self.pointers
        run("look", _blocks(n), THREADS, np.uint32(n), table, work.batch)
        run("plan", 1, PLAN_THREADS, np.uint32(n), work.batch)
        run("measure", _blocks(n), THREADS, table, work.batch)
        run("measure_items", _blocks(n), THREADS, table, work.batch)
        pairs, n_users, n_items, places, most, merged, item_places, item_most = work.counts.get().tolist()
        self._by_user.take(places, most)
        self._by_item.take(item_places, item_most)
        self._join(work, pairs, n_users, n_items, merged)
        return work.changes(pairs, n_users, n_items, merged)

    def drop_user(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.float32], Changes]:
        """Delete all ratings of a user, bytes included; returns what they were as (items, values), and the changes."""
        items, values, positions = self.row(user)
        start, length = int(self._by_user.starts[user]), len(items)
        changes = self.apply(np.full(length, user), items, np.full(length, np.nan, dtype=np.float32), positions)
        for column in self._by_user.columns:
            column[start : start + length] = 0
        return items, values, changes

    def row(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        """(items ascending, values, positions) of a user, on the host."""
        start, length = int(self._by_user.starts[user]), int(self._by_user.lengths[user])
        items, values, positions = (column[start : start + length].get() for column in self._by_user.columns)
        return items, values, positions

    def raters(self, item: int) -> NDArray[np.int32]:
        """Users who have rated `item`, ascending, on the host."""
        start, length = int(self._by_item.starts[item]), int(self._by_item.lengths[item])
        found: NDArray[np.int32] = np.sort(self._by_item.columns[0][start : start + length].get())
        return found

    def entries(self) -> tuple[Any, Any, Any]:
        """All (users, items, values), int32, int32 and float32 on the device, by user."""
        lengths = self._by_user.lengths
        ends = cupy.cumsum(lengths)
        numbers = cupy.arange(int(lengths.sum()))
        users = cupy.searchsorted(ends, numbers, side="right")
        places = (self._by_user.starts - ends + lengths)[users] + numbers
        items, values, _ = self._by_user.columns
        return users.astype(cupy.int32), items[places], values[places]

    def _raters_of_items(self, n_items: int) -> Arena:
        """The rows of items, from those of users."""
        _, items, _ = self.entries()
        lengths = cupy.bincount(items, minlength=n_items) if len(items) else cupy.zeros(n_items, dtype=cupy.int64)
        arena = Arena(cupy.cumsum(lengths) - lengths, cupy.zeros_like(lengths), [cupy.empty(len(items), cupy.int32)])
        if len(items):
            run("list_raters", self.n_users, ROW_THREADS, _pointers(self._by_user, arena))
        arena.pack(0)
        return arena

    def _join(self, work: _Work, pairs: int, n_users: int, n_items: int, merged: int) -> None:
        """Make the touched rows anew."""
        rows = [cupy.empty(merged, dtype=column.dtype) for column in self._by_user.columns]
        table = self.pointers
        run("merge", n_users, ROW_THREADS, table, work.batch, structure(*rows))
        if n_items:
            run("mark_gone", pairs, ROW_THREADS, table, work.batch)
            run("settle_items", n_items, ROW_THREADS, table, work.batch)
            run("append", _blocks(pairs), THREADS, table, work.batch)

    def _check(self, users: Any, items: Any, *columns: Any) -> None:
        lengths = [len(users), len(items), *(len(column) for column in columns)]
        if len(set(lengths)) > 1:
            raise InvalidInput(f"Invalid lengths of changes: expected four equal arrays, got {lengths}")
        for rows, n, name in ((users, self.n_users, "users"), (items, self.n_items, "items")):
            if len(rows) and not (rows.min() >= 0 and rows.max() < n):
                raise InvalidInput(
                    f"Invalid rows of {name}: expected 0 to {n - 1}, got {rows.min()} to {rows.max()}; grow the table"
                )


class _Work:
    """Arrays of one batch of `n` changes: `Batch` of the kernels."""

    def __init__(self, n: int, positions: Any, users: Any, items: Any, values: Any, marks: list[Any]) -> None:
        keys = cupy.empty(n, dtype=cupy.int64)
        run("keys_of", _blocks(n), THREADS, users, items, np.uint32(n), keys)
        order = cupy.argsort(keys)  # stable: changes of a pair stay in the order they came
        self.counts = cupy.zeros(N_COUNTS, dtype=cupy.int64)
        self.old, held, self.before, self.now = cupy.empty((4, n), dtype=cupy.float32)
        codes = cupy.empty(n, dtype=cupy.uint8)
        whole = cupy.empty((7, n + 1), dtype=cupy.int32)
        sources, deltas, firsts, self.users, self.items, self.touched_users, self.touched_items = whole
        pair_positions, merged = cupy.empty((2, n), dtype=cupy.int64)
        self.batch = structure(
            users, items, values, positions, order, self.old, held, codes, sources, deltas, firsts, self.users,
            self.items, self.before, self.now, pair_positions, self.touched_users, merged, self.touched_items, *marks,
            self.counts,
        )  # fmt: skip
        self._kept = keys, order, whole, held, codes, pair_positions, merged, users, items, values, positions

    def changes(self, pairs: int, n_users: int, n_items: int, merged: int) -> Changes:
        """What was found."""
        users, items, before, now = (column[:pairs] for column in (self.users, self.items, self.before, self.now))
        touched = self.touched_users[:n_users], self.touched_items[:n_items]
        return Changes(self.old, users, items, before, now, *touched, merged)


def _uploaded(users: Any, items: Any, values: Any, positions: Any) -> tuple[Any, Any, Any, Any]:
    """(positions, users, items, values) on the device, in one copy."""
    n = len(users)
    packed = np.empty(20 * n, dtype=np.uint8)
    views = _columns_of(packed, n)
    for view, column in zip(views, (positions, users, items, values), strict=True):
        view[:] = column
    found = cupy.empty(20 * n, dtype=cupy.uint8)
    found.set(packed)
    return _columns_of(found, n)


def _columns_of(packed: Any, n: int) -> tuple[Any, Any, Any, Any]:
    bounds = (0, 8 * n, 12 * n, 16 * n, 20 * n)
    kinds = (np.int64, np.int32, np.int32, np.float32)
    one, two, three, four = (packed[bounds[k] : bounds[k + 1]].view(kind) for k, kind in enumerate(kinds))
    return one, two, three, four


def _pointers(by_user: Arena, by_item: Arena) -> Any:
    return structure(*by_user.directory, *by_user.columns, *by_item.directory, *by_item.columns)


def _blocks(n: int) -> int:
    return -(-n // THREADS)
