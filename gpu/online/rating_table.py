"""`RatingTable`: the last rating of every (user, item), changing as ratings come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.errors import InvalidInput
from gpu.host.arena import Arena
from gpu.host.online import rating_table as kernels
from gpu.ratings import Ratings, Rows


class Changes(NamedTuple):
    """What changes of ratings did to a table, in the order applied.

    Attributes:
        users, items: int64 (B,), rows.
        old: float32 (B,), the value that each change replaced; NaN: there was none.
        new: float32 (B,), the value since; NaN: it was deleted.
        positions: int64 (B,), by which a user's newest ratings are told; ascend over the life of the table.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    old: NDArray[np.float32]
    new: NDArray[np.float32]
    positions: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence[Changes]) -> Changes:
        """One after the other; one part at least."""
        return cls(*map(np.concatenate, zip(*parts, strict=True))) if len(parts) > 1 else parts[0]

    def part(self, which: slice) -> Changes:
        """Some of them: views."""
        users, items, old, new, positions = self
        return Changes(users[which], items[which], old[which], new[which], positions[which])


class RatingTable:
    """A mutable sparse matrix of ratings, by user with everything, by item with its raters.

    A rating takes 24 bytes by user and 4 by item, and a quarter as much again in spare room, twice as much where all
    rows have grown in step since `pack`. Applying one takes about a microsecond. The row of a user is kept sorted: what
    a batch brings in is merged into a long one in one pass, a millisecond for 200,000 ratings.
    """

    def __init__(self, n_users: int = 0, n_items: int = 0) -> None:
        self._by_user = Arena(np.int32, np.float32, np.float64, np.int64)
        self._by_item = Arena(np.int32)
        self.grow(n_users, n_items)

    @property
    def n_users(self) -> int:
        """M, rows of users (those without ratings too)."""
        return self._by_user.n_rows

    @property
    def n_items(self) -> int:
        """N, rows of items (those without ratings too)."""
        return self._by_item.n_rows

    @property
    def n_ratings(self) -> int:
        """Ratings held."""
        return int(self._by_item.lengths.sum())

    @property
    def n_bytes(self) -> int:
        """Bytes held, spare room included."""
        return self._by_user.n_bytes + self._by_item.n_bytes

    @property
    def item_counts(self) -> NDArray[np.int64]:
        """Ratings of each item, (N,): a view that changes with the table until it grows."""
        counts: NDArray[np.int64] = self._by_item.lengths
        return counts

    @property
    def rows(self) -> Rows:
        """All users' rows. Views of the present state: take them anew after each change."""
        items, values, _, _ = self._by_user.columns
        return Rows(self._by_user.starts, self._by_user.lengths, items, values)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Position of each entry of `rows`, by which a user's newest ratings are told."""
        return self._by_user.columns[3]

    def grow(self, n_users: int, n_items: int) -> None:
        """Lengthen to at least (n_users, n_items); new rows are empty."""
        self._by_user.grow(n_users)
        self._by_item.grow(n_items)

    def apply(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        values: NDArray[np.floating],
        timestamps: NDArray[np.float64],
        positions: NDArray[np.int64],
    ) -> Changes:
        """Apply changes in order; the last one of a (user, item) wins.

        Args:
            users, items: rows, (B,).
            values: ratings, (B,); NaN deletes.
            timestamps, positions: kept beside each rating, (B,); positions ascend over the life of the table.

        Returns:
            The changes, with what each replaced; in arrays of their own.

        Raises:
            InvalidInput: unequal lengths, or a row beyond the table (`grow` first).
        """
        check_changes((self.n_users, self.n_items), users, items, values, timestamps, positions)
        old = np.empty(len(users), dtype=np.float32)
        changes = Changes(
            users.astype(np.int64), items.astype(np.int64), old, values.astype(np.float32), positions.astype(np.int64)
        )
        times = timestamps.astype(np.float64)
        if len(users) > 1 and self._by_user.lengths[users].max() >= kernels.LONG:
            order = np.argsort(users, kind="stable")  # what is of one user can be merged
            known = changes.users[order], changes.items[order], old[order], changes.new[order]
            by_user = Changes(*known, changes.positions[order])
            self._apply_all(by_user, times[order])
            old[order] = by_user.old
        else:
            self._apply_all(changes, times)
        return changes

    def pack(self) -> None:
        """Free the room that rows have left; nothing for a table that has to answer meanwhile."""
        self._by_user.pack()
        self._by_item.pack()

    def drop_user(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Delete all ratings of a user, bytes included; returns what they were as (items, values)."""
        part = self._slice(user)
        items, values, _, _ = (column[part].copy() for column in self._by_user.columns)
        kernels.drop_user(user, self._by_user.directory, self._by_user.columns)
        kernels.forget_raters(user, items, self._by_item.directory, self._by_item.columns[0])
        return items, values

    def row(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]]:
        """(items ascending, values, timestamps, positions) of a user: views that the next change may move."""
        part = self._slice(user)
        items, values, timestamps, positions = self._by_user.columns
        return items[part], values[part], timestamps[part], positions[part]

    def raters(self, item: int) -> NDArray[np.int32]:
        """Users who have rated `item`, ascending."""
        start = self._by_item.starts[item]
        return np.sort(self._by_item.columns[0][start : start + self._by_item.lengths[item]])

    def column(self, item: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(raters ascending, their ratings) of an item; the ratings are looked up in the raters' rows."""
        raters = self.raters(item)
        return raters, self.values(item, raters)

    def values(self, item: int, users: NDArray[np.int32]) -> NDArray[np.float32]:
        """What each of `users` (B,), who have all rated `item`, gave it."""
        found: NDArray[np.float32] = kernels.values_of(item, users, self.rows)
        return found

    def ratings(
        self, user_keys: NDArray[np.uint64] | None = None, item_keys: NDArray[np.uint64] | None = None
    ) -> Ratings:
        """An immutable copy of the present state; keys as in `Ratings`."""
        starts, lengths, items, values = self.rows
        users = np.repeat(np.arange(self.n_users), lengths)
        places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(len(users))
        shape = (self.n_users, self.n_items)
        return Ratings.from_coo(users, items[places], values[places], shape, user_keys, item_keys)

    def _slice(self, user: int) -> slice:
        start = int(self._by_user.starts[user])
        return slice(start, start + int(self._by_user.lengths[user]))

    def _apply_all(self, changes: Changes, timestamps: NDArray[np.float64]) -> None:
        done = 0
        while (done := self._apply_from(done, changes, timestamps)) < len(changes.users):
            self._make_room()

    def _apply_from(self, first: int, changes: Changes, timestamps: NDArray[np.float64]) -> int:
        users, items, old, new, positions = changes
        by_user, by_item, kept = self._by_user, self._by_item, (new, timestamps, positions)
        done: int = kernels.apply(
            first, users, items, kept, old, by_user.directory, by_user.columns, by_item.directory, by_item.columns[0]
        )
        return done

    def _make_room(self) -> None:
        """Double the arena that has less of its places left: one of the two was full."""
        fuller = min(self._by_user, self._by_item, key=lambda arena: 1 - arena.ends[0] / len(arena.columns[0]))
        fuller.make_room(len(fuller.columns[0]))


def check_changes(
    shape: tuple[int, int], users: NDArray[np.integer], items: NDArray[np.integer], *kept: NDArray[Any]
) -> None:
    """Refuse columns of changes, each (B,), that a table of `shape` (users, items) cannot take.

    Raises:
        InvalidInput: unequal lengths, or a row beyond the table.
    """
    lengths = [len(column) for column in (users, items, *kept)]
    if len(set(lengths)) > 1:
        raise InvalidInput(f"Invalid lengths of changes: expected {len(lengths)} equal ones, got {lengths}")
    for rows, n, name in zip((users, items), shape, ("users", "items"), strict=True):
        if len(rows) and not (rows.min() >= 0 and rows.max() < n):
            raise InvalidInput(
                f"Invalid rows of {name}: expected 0 to {n - 1}, got {rows.min()} to {rows.max()}; grow the table"
            )
