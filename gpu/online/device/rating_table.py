"""`RatingTable` on the device: twin of `gpu.data.rating_table` that applies whole batches in a few kernels.

The kernels sort a batch, merge it with the rows that it changes, and rewrite those rows; see kernels/rating_table.cu.
The host reads nine counts in between, to size the launches and the memory. Timestamps stay on the host.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.scratch import Scratch, fetched, pinned
from gpu.cuda.structures import structure
from gpu.data.changes import check_changes
from gpu.data.ratings import Rows
from gpu.online.device.arena import ROW_THREADS, Arena, run

TILE, PLAN_THREADS, MERGE_THREADS = 256, 1024, 512  # as in kernels/rating_table.cu
CHANGE = np.dtype([("position", np.int64), ("key", np.int64), ("value", np.float32)], align=True)
COUNTS = "pairs", "users", "items", "user_places", "user_most", "merged", "item_places", "item_most", "deleted"


@dataclass(frozen=True)
class Changes:
    """Changes that a batch made to a table, on the device; arrays are views that the next batch overwrites.

    Attributes:
        n_changes: B.
        n_pairs: P, distinct (user, item) pairs of the batch.
        n_users, n_items: A and C, users of these pairs, and items whose raters or ratings have changed.
        n_deleted: pairs whose rating was deleted.
        n_ratings: ratings of the A users.
        work: the memory that the views lie in.
    """

    n_changes: int
    n_pairs: int
    n_users: int
    n_items: int
    n_deleted: int
    n_ratings: int
    work: Work

    @property
    def old(self) -> Any:
        """The value that each change replaced, NaN for none; float32 (B,)."""
        return self.work.old[: self.n_changes]

    @property
    def users(self) -> Any:
        """Users of the pairs, int32 (P,); pairs ascend by user, then item."""
        return self.work.users[: self.n_pairs]

    @property
    def items(self) -> Any:
        """Items of the pairs, int32 (P,)."""
        return self.work.items[: self.n_pairs]

    @property
    def before(self) -> Any:
        """Ratings of the pairs before the batch, NaN for none; float32 (P,)."""
        return self.work.before[: self.n_pairs]

    @property
    def now(self) -> Any:
        """Ratings of the pairs after the batch, NaN for none; float32 (P,)."""
        return self.work.now[: self.n_pairs]

    @property
    def touched_users(self) -> Any:
        """Users of the pairs, ascending, int32 (A,)."""
        return self.work.touched_users[: self.n_users]

    @property
    def touched_items(self) -> Any:
        """Items that have changed, in any order, int32 (C,)."""
        return self.work.touched_items[: self.n_items]


class RatingTable:
    """A mutable sparse matrix of ratings in device memory: full rows by user, and the raters by item.

    A rating takes 16 bytes by user and 4 by item, and up to half as much again in spare room.
    """

    def __init__(self, rows: Rows, positions: NDArray[np.int64], n_items: int) -> None:
        """Copy rows of users, host arrays of `gpu.data.rating_table.RatingTable` or `gpu.Ratings`.

        Args:
            rows: items ascending within a row.
            positions: int64, parallel to `rows.items`; a user's newest ratings have the highest ones.
        """
        for _ in self._take_in(rows, positions, n_items):
            pass

    @classmethod
    def of(cls, rows: Rows, positions: NDArray[np.int64], n_items: int) -> Generator[None, None, RatingTable]:
        """The same, in slices of some milliseconds."""
        table = cls.__new__(cls)
        yield from table._take_in(rows, positions, n_items)
        return table

    @property
    def n_users(self) -> int:
        """U, rows of users, including those without ratings."""
        return len(self._by_user)

    @property
    def n_items(self) -> int:
        """I, rows of items, including those without ratings."""
        return len(self._by_item)

    @property
    def item_counts(self) -> Any:
        """Ratings of each item, int64 (I,): a view that changes with the table until it grows."""
        return self._by_item.lengths

    @property
    def lengths(self) -> Any:
        """Ratings of each user, int64 (U,): a view that changes with the table until it grows."""
        return self._by_user.lengths

    @property
    def n_bytes(self) -> int:
        """Bytes of the ratings, including spare room."""
        return sum(int(column.nbytes) for arena in (self._by_user, self._by_item) for column in arena.columns)

    @property
    def pointers(self) -> Any:
        """`Table` of the kernels, invalid after the next change."""
        return _pointers(self._by_user, self._by_item)

    def grow(self, n_users: int, n_items: int) -> None:
        """Grow to at least (n_users, n_items); new rows are empty."""
        self._by_user.grow(n_users)
        self._by_item.grow(n_items)

    def apply(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        values: NDArray[np.floating],
        positions: NDArray[np.int64],
    ) -> Changes:
        """Apply changes in order; the last one of a (user, item) wins. Arguments are host arrays, as in the twin.

        Raises:
            InvalidInput: unequal lengths, or a row beyond the table (`grow` first).
        """
        check_changes((self.n_users, self.n_items), users, items, values, positions)
        n = len(users)
        work = self._work.of(max(n, 1), self.n_items)
        if not n:
            return Changes(0, 0, 0, 0, 0, 0, work)
        work.give(users, items, values, positions)
        tiles, table = -(-n // TILE), self.pointers
        run("sort_tiles", tiles, TILE, np.uint32(n), work.batch)
        run("look", tiles, TILE, np.uint32(n), table, work.batch)
        run("plan", 1, PLAN_THREADS, np.uint32(n), work.batch)
        run("measure", tiles, TILE, table, work.batch)
        counts = dict(zip(COUNTS, fetched(work.counts, work.pinned_counts).tolist(), strict=True))
        self._by_user.take(counts["user_places"], counts["user_most"])
        self._by_item.take(counts["item_places"], counts["item_most"])
        n_pairs, n_users, n_items, n_deleted, n_merged = (
            counts[name] for name in ("pairs", "users", "items", "deleted", "merged")
        )
        table, rows = self.pointers, structure(*self._rows.of(n_merged))  # the rows may have moved
        run("merge", n_users + n_deleted, MERGE_THREADS, table, work.batch, rows, np.int32(n_users))
        if n_items:
            run("settle_items", n_items, ROW_THREADS, table, work.batch)
            run("append", -(-n_pairs // TILE), TILE, table, work.batch)
        return Changes(n, n_pairs, n_users, n_items, n_deleted, n_merged, work)

    def drop_user(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.float32], Changes]:
        """Delete all ratings of a user and overwrite their memory; returns the deleted (items, values) and changes."""
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
        users: NDArray[np.int32] = np.sort(self._by_item.columns[0][start : start + length].get())
        return users

    def entries(self) -> tuple[Any, Any, Any]:
        """(users, items, values) of all ratings, int32, int32 and float32 (N,) on the device, by user."""
        lengths = self._by_user.lengths
        ends = cupy.cumsum(lengths)
        numbers = cupy.arange(int(lengths.sum()))
        users = cupy.searchsorted(ends, numbers, side="right")
        places = (self._by_user.starts - ends + lengths)[users] + numbers
        items, values, _ = self._by_user.columns
        return users.astype(cupy.int32), items[places], values[places]

    def _take_in(self, rows: Rows, positions: NDArray[np.int64], n_items: int) -> Iterator[None]:
        columns = [cupy.asarray(column) for column in (rows.items, rows.values, positions)]
        self._by_user = Arena(cupy.asarray(rows.starts), cupy.asarray(rows.lengths), columns)
        self._by_user.pack(0)
        yield
        _, items, _ = self.entries()
        yield
        # Count each item. `bincount` would run kernels that CuPy chooses by the number of items.
        lengths = cupy.zeros(n_items, dtype=cupy.int64)
        if len(items):
            ascending, numbers = cupy.sort(items), cupy.arange(n_items)
            lengths = cupy.searchsorted(ascending, numbers, side="right") - cupy.searchsorted(ascending, numbers)
        yield
        raters = [cupy.empty(len(items), dtype=cupy.int32)]
        self._by_item = Arena(cupy.cumsum(lengths) - lengths, cupy.zeros_like(lengths), raters)
        if len(items):
            run("list_raters", self.n_users, ROW_THREADS, _pointers(self._by_user, self._by_item))
        yield
        self._by_item.pack(0)
        self._work = Scratch(Work)
        kinds = [column.dtype for column in self._by_user.columns]
        self._rows = Scratch(lambda n: [cupy.empty(n, dtype=kind) for kind in kinds])  # in which `merge` builds rows


class Work:
    """Memory of one batch of `n` changes, for a table of `n_items`: `Batch` of the kernels.

    Attributes:
        old, users, items, before, now, touched_users, touched_items: see `Changes`.
        deleted: int32, pairs whose rating was deleted.
        counts, pinned_counts: int64, the numbers of `COUNTS` on the device, and pinned host memory for them.
        batch: the structure `Batch`.
    """

    def __init__(self, n: int, n_items: int) -> None:
        """Allocate."""
        n_bytes = n * CHANGE.itemsize
        self._pinned_changes, self._changes = pinned(n_bytes), cupy.empty(n_bytes, dtype=cupy.uint8)
        self.counts = cupy.zeros(len(COUNTS), dtype=cupy.int64)
        self.pinned_counts = pinned(8 * len(COUNTS)).view(np.int64)
        marks = cupy.zeros((3, n_items), dtype=cupy.int32)
        keys, positions, merged = cupy.empty((3, n), dtype=cupy.int64)
        self.old, held, self.before, self.now = cupy.empty((4, n), dtype=cupy.float32)
        codes = cupy.empty(n, dtype=cupy.uint8)
        tiled, order, sources, deltas, firsts, self.deleted = cupy.empty((6, n + 1), dtype=cupy.int32)
        self.users, self.items, self.touched_users, self.touched_items = cupy.empty((4, n), dtype=cupy.int32)
        self.batch = structure(
            self._changes, keys, tiled, order, self.old, held, codes, sources, deltas, firsts, self.users, self.items,
            self.before, self.now, positions, self.deleted, self.touched_users, merged, self.touched_items, *marks,
            self.counts,
        )  # fmt: skip
        self._references = marks, keys, held, codes, tiled  # `batch` has only their addresses

    def give(self, users: Any, items: Any, values: Any, positions: Any) -> None:
        """Start to copy changes to the device.

        The pinned buffer is free by then: every batch waits for its counts, which its kernels write after reading it.
        """
        changes = self._pinned_changes.view(CHANGE)[: len(users)]
        changes["position"], changes["value"] = positions, values
        changes["key"] = users.astype(np.int64) << 32 | items
        self._changes.data.copy_from_host_async(self._pinned_changes.ctypes.data, changes.nbytes)


def _pointers(by_user: Arena, by_item: Arena) -> Any:
    return structure(*by_user.directory, *by_user.columns, *by_item.directory, *by_item.columns)
