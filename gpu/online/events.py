"""`RecentKeys`, by which repeated events are recognized."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.host.arena import Arena
from gpu.host.online import events as kernels

N_KEPT = 64  # keys of a user; a client that repeats a request after a failure repeats its last events
NO_KEY = 0


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
        are_new, halves = np.empty(len(users), dtype=np.bool_), keys.view(np.int32).reshape(-1, 2)
        rows, done = users.astype(np.int64), 0
        while True:
            arena = self._arena
            done = kernels.take(done, rows, halves, arena.directory, arena.columns, N_KEPT, are_new)
            if done == len(users):
                return are_new
            arena.make_room(len(arena.columns[0]))

    def drop_user(self, user: int) -> None:
        """Forget the keys of a user and overwrite their memory."""
        kernels.drop_user(user, self._arena.directory, self._arena.columns)
