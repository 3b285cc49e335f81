"""`Exchange`: how the ranks of one training send each other parameters.

A rank is one of several processes that train one model together; each owns a block of the rows. Every method of an
exchange is collective: all ranks call the same methods in the same order. The forms are `gpu.ranks.ring` (TCP, or
threads of one process) and `gpu.ranks.device_exchange` (NCCL).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.ranks.traffic import Traffic

PIECE_BYTES = 64 * 2**20  # of rows that move around the ring


class Exchange(Protocol):
    """The ranks of a training, seen from one of them.

    Arrays are contiguous and lie in the memory of the backend. A sum adds up in an order that depends on the number of
    ranks alone, so equal inputs give equal bits.

    Attributes:
        rank: this rank, from 0.
        size: P, number of ranks.
        weights: (P,), how much of the work each rank should get, in any unit: less if its device has other work too.
        traffic: what this rank sends, and how long that takes.

    Raises:
        RankLost: another rank has ended, or did not answer in time. The exchange cannot be used afterwards.
    """

    rank: int
    size: int
    weights: tuple[float, ...]
    traffic: Traffic

    @property
    def on_host(self) -> Exchange:
        """The exchange of the same ranks for arrays in host memory."""

    def gather(self, table: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Fill `table` (rows, …) in place: rank r owns rows `bounds[r]` to `bounds[r + 1]` (excluded) and sends them.

        Args:
            bounds: int64 (P + 1,), ascending from 0 to the number of rows. A block may be empty.
        """

    def reduce_scatter(self, parts: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Add up `parts` (rows, …) of all ranks, in place: rank r gets the sums of its rows; other rows are undefined.

        Args:
            bounds: as in `gather`.
        """

    def reduce(self, array: NDArray[Any]) -> None:
        """Replace `array` on all ranks by the sum of theirs, in place, with equal bits on all ranks."""

    def shift(self, send: NDArray[Any], receive: NDArray[Any]) -> None:
        """Send an array to the next rank, and fill `receive` from the one before; the last rank is before the first.

        The two arrays must not overlap. What one rank sends has the size that the next one receives.
        """

    def totals(self, *numbers: float) -> tuple[float, ...]:
        """The sums of these numbers over all ranks, on the host, with equal bits on all ranks."""

    def barrier(self) -> None:
        """Return when all ranks have called it."""

    def close(self) -> None:
        """Leave; other ranks that still wait for this one get `RankLost`."""


class Alone:
    """The exchange of a training with one rank: everything is in place already."""

    rank, size, traffic = 0, 1, Traffic()
    weights: tuple[float, ...] = (1.0,)

    @property
    def on_host(self) -> Exchange:
        """Itself."""
        return self

    def gather(self, table: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Do nothing."""

    def reduce_scatter(self, parts: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Do nothing."""

    def reduce(self, array: NDArray[Any]) -> None:
        """Do nothing."""

    def shift(self, send: NDArray[Any], receive: NDArray[Any]) -> None:
        """Copy."""
        receive[...] = send

    def totals(self, *numbers: float) -> tuple[float, ...]:
        """The numbers."""
        return numbers

    def barrier(self) -> None:
        """Return at once."""

    def close(self) -> None:
        """Do nothing."""


ALONE = Alone()


def in_turn(exchange: Exchange, own: NDArray[Any], bounds: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Every rank's rows in turn, in pieces that move around the ring: (number of the first row, rows of a table).

    All ranks must take all pieces. A piece is valid until the next one is taken.

    Args:
        own: our rows (n, …), contiguous; on all ranks in the memory of the backend, or on all on the host.
        bounds: as in `Exchange.gather`.
    """
    links = exchange.on_host if type(own) is np.ndarray else exchange
    most_rows = max(1, PIECE_BYTES * len(own) // max(1, own.nbytes))
    n_pieces = most(exchange, -(-len(own) // most_rows))
    for n in range(n_pieces):
        edges = bounds[:-1] + np.diff(bounds) * np.array([[n], [n + 1]]) // n_pieces
        owner = exchange.rank
        piece = own[edges[0, owner] - bounds[owner] : edges[1, owner] - bounds[owner]]
        yield int(edges[0, owner]), piece
        for _ in range(exchange.size - 1):
            owner = (owner - 1) % exchange.size
            received = np.empty_like(own, shape=(int(edges[1, owner] - edges[0, owner]), *own.shape[1:]))
            links.shift(piece, received)
            piece = received
            yield int(edges[0, owner]), piece


def most(exchange: Exchange, number: int) -> int:
    """The largest of the numbers that the ranks give."""
    numbers = np.zeros(exchange.size, dtype=np.int64)
    numbers[exchange.rank] = number
    exchange.on_host.gather(numbers, np.arange(exchange.size + 1))
    return int(numbers.max())
