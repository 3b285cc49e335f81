"""`RecentKeys`, by which repeated events are recognized, `Showings`, the items that users were shown last, and
`PairTypes`, the types of all events.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.data.host_arena import Arena
from gpu.online.host import events as kernels

N_KEPT = 64  # keys of a user; a client that repeats a request after a failure repeats its last events
NO_KEY = 0
N_SHOWINGS = 128  # showings of a user that are kept, 8 bytes each: those of a dozen pages
LAST_S = 2**32 - 1  # Unix seconds, the year 2106: times of showings take 32 bits


class RecentKeys:
    """Remembers the last `N_KEPT` distinct keys of each user, in the order in which they came; 8 bytes a key."""

    def __init__(self) -> None:
        self._arena = Arena(np.int32, np.int32)

    def grow(self, n_users: int) -> None:
        """Grow to at least `n_users`; new users have no keys."""
        self._arena.grow(n_users)

    def take(self, users: NDArray[np.integer], keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each event is new, bool (B,); remembers the keys of the new ones.

        Args:
            users: rows, (B,).
            keys: (B,); an event with `NO_KEY` is always new.
        """
        if not keys.any():
            return np.ones(len(users), dtype=np.bool_)
        are_new, halves = np.empty(len(users), dtype=np.bool_), keys.view(np.int32).reshape(-1, 2)
        rows, done = users.astype(np.int64), 0
        while True:
            arena = self._arena
            done = kernels.take(done, rows, halves, arena.directory, arena.columns, N_KEPT, are_new)
            if done == len(users):
                return are_new
            arena.make_room(len(arena.columns[0]))

    def of(self, user: int) -> NDArray[np.int64]:
        """The keys of a user, the oldest first: a copy."""
        start = self._arena.starts[user]
        halves = [column[start : start + self._arena.lengths[user]] for column in self._arena.columns]
        return np.ascontiguousarray(np.stack(halves, axis=1)).view(np.int64)[:, 0]

    def drop_user(self, user: int) -> None:
        """Forget the keys of a user and overwrite their memory."""
        kernels.drop_user(user, self._arena.directory, self._arena.columns)


class Showings:
    """Remembers the last `N_SHOWINGS` showings of each user, in the order in which they came."""

    def __init__(self) -> None:
        self._arena = Arena(np.int32, np.int32)

    def add(self, users: NDArray[np.integer], items: NDArray[np.integer], seconds: NDArray[np.float64]) -> None:
        """Remember that each user of (B,) was shown an item at a time in Unix seconds, which is rounded down."""
        if not len(users):
            return
        self._arena.grow(int(users.max()) + 1)  # a service without such events keeps nothing of any user
        times = np.clip(seconds, 0, LAST_S).astype(np.uint32).view(np.int32)
        entries = np.stack([items.astype(np.int32), times], axis=1)
        rows, done = users.astype(np.int64), 0
        while True:
            arena = self._arena
            done = kernels.append(done, rows, entries, arena.directory, arena.columns, N_SHOWINGS)
            if done == len(rows):
                return
            arena.make_room(len(arena.columns[0]))

    def of(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
        """(items, Unix seconds) of the showings of a user, the oldest first."""
        if user >= self._arena.n_rows:
            return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint32)
        start = self._arena.starts[user]
        items, seconds = (column[start : start + self._arena.lengths[user]].copy() for column in self._arena.columns)
        return items, seconds.view(np.uint32)

    def drop_user(self, user: int) -> None:
        """Forget the showings of a user and overwrite their memory."""
        if user < self._arena.n_rows:
            kernels.drop_user(user, self._arena.directory, self._arena.columns)


class PairTypes:
    """Remembers of which types the events of each (user, item) were, as bits; 8 bytes a pair."""

    def __init__(self) -> None:
        self._arena = Arena(np.int32, np.int32)

    def add(self, users: NDArray[np.integer], items: NDArray[np.integer], bits: NDArray[np.uint32]) -> None:
        """Add bits to those of pairs, (B,)."""
        if not len(users):
            return
        self._arena.grow(int(users.max()) + 1)  # a service without events keeps nothing of any user
        pairs = np.stack([items.astype(np.int32), bits.view(np.int32)], axis=1)
        rows, done = users.astype(np.int64), 0
        while True:
            arena = self._arena
            done = kernels.add_bits(done, rows, pairs, arena.directory, arena.columns)
            if done == len(rows):
                return
            arena.make_room(len(arena.columns[0]))

    def of(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
        """(items ascending, bits) of a user: copies."""
        if user >= self._arena.n_rows:
            return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint32)
        start = self._arena.starts[user]
        items, bits = (column[start : start + self._arena.lengths[user]].copy() for column in self._arena.columns)
        return items, bits.view(np.uint32)

    def pack(self) -> None:
        """Free the spare room of all rows; too slow for a table that answers requests."""
        self._arena.pack()

    def drop_user(self, user: int) -> None:
        """Forget the types of a user's events and overwrite their memory."""
        if user < self._arena.n_rows:
            kernels.drop_user(user, self._arena.directory, self._arena.columns)
