"""`RatingTable`: the last rating of every (user, item), updated in place as ratings arrive."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpu.data import host_rating_table as kernels
from gpu.data.changes import Changes, check_changes
from gpu.data.host_arena import Arena, Directory
from gpu.data.host_rating_table import OrderedRows
from gpu.data.ratings import Ratings, Rows

POSITIONS_PER_MS = kernels.POSITIONS_PER_MS
PORTION = 1 << 20  # ratings that are copied at a time


class RatingTable:
    """A mutable sparse matrix of ratings: full rows by user, and the raters by item.

    A rating takes 24 bytes by user and 4 by item. Spare room takes a quarter as much again, and twice as much if all
    rows have grown in step since `pack`. Applying a rating takes about a microsecond. Rows of users are sorted by item.
    A long row takes in the items of a batch in one merge, about a millisecond for 200,000 ratings.
    """

    def __init__(self, n_users: int = 0, n_items: int = 0) -> None:
        self._by_user = Arena(np.int32, np.float32, np.float64, np.int64)
        self._by_item, self._lacks_raters = Arena(np.int32), False
        self.grow(n_users, n_items)

    @property
    def n_users(self) -> int:
        """U, rows of users, including those without ratings."""
        return self._by_user.n_rows

    @property
    def n_items(self) -> int:
        """I, rows of items, including those without ratings."""
        return self._by_item.n_rows

    @property
    def n_ratings(self) -> int:
        """N, ratings in the table."""
        return int(self._by_item.lengths.sum())

    @property
    def n_bytes(self) -> int:
        """Bytes of memory, including spare room."""
        return self._by_user.n_bytes + self._by_item.n_bytes

    @property
    def item_counts(self) -> NDArray[np.int64]:
        """Ratings of each item, (I,): a view that changes with the table until it grows."""
        counts: NDArray[np.int64] = self._by_item.lengths
        return counts

    @property
    def rows(self) -> Rows:
        """All users' rows: views of the present state, invalid after the next change."""
        items, values, _, _ = self._by_user.columns
        return Rows(self._by_user.starts, self._by_user.lengths, items, values)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Position of each entry of `rows`; a user's newest ratings have the highest ones."""
        positions: NDArray[np.int64] = self._by_user.columns[3]
        return positions

    @property
    def timestamps(self) -> NDArray[np.float64]:
        """Timestamp of each entry of `rows`, Unix seconds."""
        timestamps: NDArray[np.float64] = self._by_user.columns[2]
        return timestamps

    @property
    def ordered_rows(self) -> OrderedRows:
        """`rows` with `positions`."""
        return OrderedRows(*self.rows, self.positions)

    def share(self, other: RatingTable) -> None:
        """Have the content of `other`: what is applied to one is in both, until `separate`."""
        self._by_user, self._by_item, self._lacks_raters = other._by_user, other._by_item, other._lacks_raters

    def separate(self) -> None:
        """Copy the content, so that a table that shared it stays as it is; 0.05 seconds for 5 million ratings."""
        self._by_user, self._by_item = self._by_user.copied(), self._by_item.copied()

    def grow(self, n_users: int, n_items: int) -> None:
        """Grow to at least (n_users, n_items); new rows are empty."""
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
            timestamps, positions: stored with each rating, (B,); positions ascend over the life of the table.

        Returns:
            The changes with the values that they replaced, in new arrays.

        Raises:
            InvalidInput: unequal lengths, or a row beyond the table (`grow` first).
        """
        check_changes((self.n_users, self.n_items), users, items, values, timestamps, positions)
        old = np.empty(len(users), dtype=np.float32)
        ordered, times = positions.astype(np.int64), timestamps.astype(np.float64)
        changes = Changes(
            users=users.astype(np.int64),
            items=items.astype(np.int64),
            old=old,
            new=values.astype(np.float32),
            positions=ordered,
            old_times=np.empty(len(users)),
            times=times_of(times, ordered),
        )
        if len(users) > 1 and self._by_user.lengths[users].max() >= kernels.LONG:
            order = np.argsort(users, kind="stable")  # consecutive changes of one user can be merged
            sorted_columns = changes.users[order], changes.items[order], old[order], changes.new[order]
            by_user = Changes(*sorted_columns, ordered[order], np.empty(len(users)), changes.times[order])
            self._apply_to_users(by_user, times[order])
            old[order], changes.old_times[order] = by_user.old, by_user.old_times
        else:
            self._apply_to_users(changes, times)
        done = len(changes.items) if self._lacks_raters else 0
        while (done := kernels.apply_raters(done, changes, *self._raters)) < len(changes.items):
            self._by_item.make_room(len(self._by_item.columns[0]))
        return changes

    def put_off_raters(self) -> None:
        """Have no raters of items, and so no counts, until `pack` lists them all: that takes a tenth of the time."""
        self._by_item.empty(np.zeros(self.n_items, dtype=np.int64))
        self._lacks_raters = True

    def pack(self) -> None:
        """Free the spare room of all rows; too slow for a table that answers requests."""
        self._by_user.pack()
        starts, lengths, items, _ = self.rows
        self._by_item.empty(kernels.count_raters(starts, lengths, items, self.n_items))
        kernels.list_raters(starts, lengths, items, *self._raters)
        self._lacks_raters = False

    def drop_user(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Delete all ratings of a user and overwrite their memory; returns the deleted (items, values)."""
        part = self._slice(user)
        items, values, _, _ = (column[part].copy() for column in self._by_user.columns)
        kernels.drop_user(user, self._by_user.directory, self._by_user.columns)
        if not self._lacks_raters:
            kernels.forget_raters(user, items, *self._raters)
        return items, values

    def row(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]]:
        """(items ascending, values, timestamps, positions) of a user: views that the next change may move."""
        part = self._slice(user)
        items, values, timestamps, positions = self._by_user.columns
        return items[part], values[part], timestamps[part], positions[part]

    def raters(self, item: int) -> NDArray[np.int32]:
        """Users who have rated `item`, ascending."""
        return np.sort(self.raters_as_stored(item))

    def raters_as_stored(self, item: int) -> NDArray[np.int32]:
        """Users who have rated `item`, in no meaningful order: a view that the next change may move."""
        start = self._by_item.starts[item]
        raters: NDArray[np.int32] = self._by_item.columns[0][start : start + self._by_item.lengths[item]]
        return raters

    def column(self, item: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(raters ascending, their ratings) of an item; the ratings are looked up in the raters' rows."""
        raters = self.raters(item)
        return raters, self.values(item, raters)

    def values(self, item: int, users: NDArray[np.int32]) -> NDArray[np.float32]:
        """Rating of `item` by each of `users` (B,), who have all rated it; float32 (B,)."""
        return self.rows.values[self.entries(np.full(len(users), item), users)]

    def looked_up(
        self, users: NDArray[np.integer], items: NDArray[np.integer]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """(value, timestamp) of each pair of `users` and `items` (B,); NaN where there is none."""
        pairs: tuple[NDArray[np.float32], NDArray[np.float64]]
        pairs = kernels.looked_up(users, items, self._by_user.directory, self._by_user.columns)
        return pairs

    def entries(self, items: NDArray[np.int64], users: NDArray[np.int32]) -> NDArray[np.int64]:
        """Index into `rows.items` of the rating of `items[n]` by `users[n]`, (B,); every pair must have one."""
        entries: NDArray[np.int64] = kernels.entries_of(items, users, self.rows)
        return entries

    def ratings(
        self, user_keys: NDArray[np.uint64] | None = None, item_keys: NDArray[np.uint64] | None = None
    ) -> Ratings:
        """An immutable copy of the present state; keys as in `Ratings`."""
        _, lengths, items, values = self.rows
        users, places = np.repeat(np.arange(self.n_users), lengths), self._places(slice(None))
        shape = (self.n_users, self.n_items)
        return Ratings.from_coo(users, items[places], values[places], shape, user_keys, item_keys)

    def seconds(self) -> NDArray[np.float64]:
        """`times_of` the ratings of `ratings`, float64 (N,), in the order of `Ratings.coo`."""
        places = self._places(slice(None))
        return times_of(self.timestamps[places], self.positions[places])

    def places_in_stream(self) -> NDArray[np.int64]:
        """`positions` of the ratings of `ratings`, int64 (N,), in the order of `Ratings.coo`."""
        return self.positions[self._places(slice(None))]

    def portions(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float64]]]:
        """(items, values, `times_of`) of all ratings, about `PORTION` at a time."""
        _, lengths, items, values = self.rows
        ends = np.cumsum(lengths)
        bounds = np.searchsorted(ends, np.arange(PORTION, self.n_ratings, PORTION))
        for first, end in itertools.pairwise([0, *bounds.tolist(), self.n_users]):
            places = self._places(slice(first, end))
            yield items[places], values[places], times_of(self.timestamps[places], self.positions[places])

    def _places(self, users: slice) -> NDArray[np.int64]:
        """Index into `rows.items` of each rating of some users."""
        starts, lengths = self._by_user.starts[users], self._by_user.lengths[users]
        places: NDArray[np.int64] = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        places += np.arange(len(places))
        return places

    def _slice(self, user: int) -> slice:
        start = int(self._by_user.starts[user])
        return slice(start, start + int(self._by_user.lengths[user]))

    @property
    def _raters(self) -> tuple[Directory, NDArray[np.int32]]:
        return self._by_item.directory, self._by_item.columns[0]

    def _apply_to_users(self, changes: Changes, timestamps: NDArray[np.float64]) -> None:
        rows, done = self._by_user, 0
        while (done := kernels.apply(done, changes, timestamps, rows.directory, rows.columns)) < len(changes.users):
            rows.make_room(len(rows.columns[0]))


def times_of(timestamps: NDArray[np.float64], positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """When ratings count as given, Unix seconds, float64 (B,): at most the time of their position."""
    times: NDArray[np.float64] = np.minimum(timestamps, positions / kernels.POSITIONS_PER_S)
    return times
