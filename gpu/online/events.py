"""The last events of each user: `RecentKeys`, by which repetitions are recognized, `EventRecords`, by which one can be
taken back, and `Showings`, the items that users were shown; and `PairTypes`, the types of all events.
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
# What an event did to its pair: the row of the item (`~row` if the event only showed it), what was added (NaN: nothing,
# of an unknown type), the Unix seconds of the event and the bit of its type; and what it found: the sum, the latest
# time and the bits of types of the pair.
RECORD = np.dtype(
    [
        ("item", "i4"),
        ("sum", "f4"),
        ("amount", "f8"),
        ("seconds", "f8"),
        ("latest", "f8"),
        ("bit", "u4"),
        ("bits", "u4"),
    ]
)
_WORDS = RECORD.itemsize // 8  # entries of an arena that a record takes


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
        return _entries(self._arena, user).view(np.int64)[:, 0]

    def drop_user(self, user: int) -> None:
        """Forget the keys of a user and overwrite their memory."""
        kernels.drop_user(user, self._arena.directory, self._arena.columns)


class EventRecords:
    """What the events behind the `RecentKeys` of each user did, in the same order; 40 bytes an event."""

    def __init__(self) -> None:
        self._arena = Arena(np.int32, np.int32)

    def add(self, users: NDArray[np.integer], records: NDArray[np.void]) -> None:
        """Remember records, of `RECORD`, (B,), of events whose keys are new ones of `users`, rows (B,)."""
        _append(self._arena, np.repeat(users, _WORDS), records.view(np.int32).reshape(-1, 2), N_KEPT * _WORDS)

    def of(self, user: int) -> NDArray[np.void]:
        """The records of a user, the oldest first: a copy."""
        return _entries(self._arena, user).reshape(-1).view(RECORD)

    def drop_user(self, user: int) -> None:
        """Forget the records of a user and overwrite their memory."""
        if user < self._arena.n_rows:
            kernels.drop_user(user, self._arena.directory, self._arena.columns)


class Showings:
    """Remembers the last `N_SHOWINGS` showings of each user, in the order in which they came."""

    def __init__(self) -> None:
        self._arena = Arena(np.int32, np.int32)

    def add(self, users: NDArray[np.integer], items: NDArray[np.integer], seconds: NDArray[np.float64]) -> None:
        """Remember that each user of (B,) was shown an item at a time in Unix seconds, which is rounded down."""
        times = np.clip(seconds, 0, LAST_S).astype(np.uint32).view(np.int32)
        _append(self._arena, users, np.stack([items.astype(np.int32), times], axis=1), N_SHOWINGS)

    def of(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
        """(items, Unix seconds) of the showings of a user, the oldest first."""
        entries = _entries(self._arena, user)
        return entries[:, 0].copy(), entries[:, 1].copy().view(np.uint32)

    def remove(self, user: int, item: int, seconds: float) -> None:
        """Forget the newest showing of an item at a time, if it is remembered."""
        items, times = self.of(user)
        places = np.flatnonzero((items == item) & (times == np.uint32(np.clip(seconds, 0, LAST_S))))
        if len(places):
            self.drop_user(user)
            stay = np.arange(len(items)) != places[-1]
            self.add(np.full(len(items) - 1, user), items[stay], times[stay].astype(np.float64))

    def drop_user(self, user: int) -> None:
        """Forget the showings of a user and overwrite their memory."""
        if user < self._arena.n_rows:
            kernels.drop_user(user, self._arena.directory, self._arena.columns)


class PairTypes:
    """Remembers of which types the events of each (user, item) were, as bits; 8 bytes a pair."""

    def __init__(self) -> None:
        self._arena = Arena(np.int32, np.int32)

    def add(
        self, users: NDArray[np.integer], items: NDArray[np.integer], bits: NDArray[np.uint32]
    ) -> NDArray[np.uint32]:
        """Add bits to those of pairs, (B,); returns the bits that each addition found."""
        found = np.zeros(len(users), dtype=np.int32)
        if not len(users):
            return found.view(np.uint32)
        self._arena.grow(int(users.max()) + 1)  # a service without events keeps nothing of any user
        pairs = np.stack([items.astype(np.int32), bits.view(np.int32)], axis=1)
        rows, done = users.astype(np.int64), 0
        arena = self._arena
        while (done := kernels.add_bits(done, rows, pairs, found, arena.directory, arena.columns)) < len(rows):
            arena.make_room(len(arena.columns[0]))
        return found.view(np.uint32)

    def replace(self, user: int, item: int, bits: int) -> None:
        """Replace the bits of a pair; 0 forgets it."""
        items, all_bits = self.of(user)
        all_bits[items == item] = bits
        self.drop_user(user)
        rest = all_bits != 0
        self.add(np.full(np.count_nonzero(rest), user), items[rest], all_bits[rest])

    def of(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
        """(items ascending, bits) of a user: copies."""
        entries = _entries(self._arena, user)
        return entries[:, 0].copy(), entries[:, 1].copy().view(np.uint32)

    def pack(self) -> None:
        """Free the spare room of all rows; too slow for a table that answers requests."""
        self._arena.pack()

    def drop_user(self, user: int) -> None:
        """Forget the types of a user's events and overwrite their memory."""
        if user < self._arena.n_rows:
            kernels.drop_user(user, self._arena.directory, self._arena.columns)


def _entries(arena: Arena, user: int) -> NDArray[np.int32]:
    """The entries of a user, the oldest first, int32 (N, 2): a copy."""
    if user >= arena.n_rows:
        return np.zeros((0, 2), dtype=np.int32)
    start = arena.starts[user]
    return np.stack([column[start : start + arena.lengths[user]] for column in arena.columns], axis=1)


def _append(arena: Arena, users: NDArray[np.integer], entries: NDArray[np.int32], most: int) -> None:
    """Append entries, (B, 2), to those of `users`, (B,), of which each keeps the last `most`."""
    if not len(users):
        return
    arena.grow(int(users.max()) + 1)  # a service without such events keeps nothing of any user
    rows, done = users.astype(np.int64), 0
    while (done := kernels.append(done, rows, entries, arena.directory, arena.columns, most)) < len(rows):
        arena.make_room(len(arena.columns[0]))
