"""Item groups that rotate among ranks: MCUSGD++ and MCULSH-MF ([004] §4.2) with the two sides exchanged.

Users and items are cut into D groups each. In every sub-step of an epoch user group d learns from item group
(d + shift) mod D; all ranks know the shift. Each rank owns a run of user groups, whose parameters and ratings stay on
it. The parameters of an item group travel to the rank that needs them in the next sub-step.

Groups travel along the ring of ranks, and only as far as they need to. That takes `Exchange.shift` alone, and about
half of the bytes that all ranks would send if everyone got all items after each sub-step (docs/decisions/0039).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.ranks.exchange import Exchange


def first_groups(n_groups: int, size: int) -> NDArray[np.int64]:
    """First user group of each rank, int64 (P + 1,): runs as even as possible; with P > D some ranks have none."""
    return np.arange(size + 1, dtype=np.int64) * n_groups // size


class Rotation:
    """Which rank holds the present parameters of each item group, and how they get to another.

    Every method that moves groups is collective: all ranks call it with the same arguments.
    """

    def __init__(self, tables: tuple[NDArray[np.float32], ...], bounds: NDArray[np.int64], exchange: Exchange) -> None:
        """At the start each rank holds all groups.

        Args:
            tables: parameters of all items on this rank, float32 (I,) or (I, n) each; groups arrive in them.
            bounds: int64 (D + 1,), first item of each group.
        """
        self._tables = [table if table.ndim == 2 else table[:, None] for table in tables]
        self._columns = np.cumsum([table.shape[1] for table in self._tables])
        self._bounds, self._exchange = bounds, exchange
        self._n_groups = len(bounds) - 1
        n_owned = np.diff(first_groups(self._n_groups, exchange.size))
        self._owners = np.repeat(np.arange(exchange.size), n_owned)  # rank of each user group
        self._holders: NDArray[np.int64] | None = None  # rank of each item group; None: every rank holds all

    def bring(self, shift: int) -> None:
        """Move each item group to the rank whose users meet it at `shift`."""
        wanted = np.roll(self._owners, shift)
        if self._holders is not None:
            self._move(self._holders, (wanted - self._holders) % self._exchange.size)
        self._holders = wanted

    @property
    def is_complete(self) -> bool:
        """Whether each rank holds all groups."""
        return self._holders is None

    def complete(self) -> None:
        """Send every group to all ranks."""
        if self._holders is not None:
            self._move(self._holders, np.full(self._n_groups, self._exchange.size - 1))
            self._holders = None

    def held(self) -> list[slice]:
        """The items of each group that this rank holds."""
        is_held = np.ones(self._n_groups, np.bool_) if self._holders is None else self._holders == self._exchange.rank
        return [slice(*self._bounds[group : group + 2].tolist()) for group in np.flatnonzero(is_held)]

    def _move(self, holders: NDArray[np.int64], n_hops: NDArray[np.int64]) -> None:
        """Send item group g from rank `holders[g]` on by `n_hops[g]` ranks; every rank on its way keeps a copy."""
        rank, size = self._exchange.rank, self._exchange.size
        for hop in range(n_hops.max()):
            senders = np.where(n_hops > hop, (holders + hop) % size, -1)
            self._hop(senders == rank, senders == (rank - 1) % size)

    def _hop(self, sent: NDArray[np.bool_], received: NDArray[np.bool_]) -> None:
        """Send some groups to the next rank, and receive some from the one before; bool (D,) each."""
        leaving, arriving = (np.repeat(groups, np.diff(self._bounds)) for groups in (sent, received))
        arrived = np.empty((np.count_nonzero(arriving), self._columns[-1]), dtype=np.float32)
        self._exchange.shift(np.hstack([table[leaving] for table in self._tables]), arrived)
        for table, part in zip(self._tables, np.split(arrived, self._columns[:-1], axis=1), strict=True):
            table[arriving] = part
