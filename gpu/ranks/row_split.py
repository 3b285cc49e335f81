"""`RowSplit`: the rows of one side of a matrix, divided among the ranks of a training."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.views import weighted_bounds
from gpu.ranks.exchange import ALONE, Exchange


class RowSplit(NamedTuple):
    """Which rank owns which rows.

    Attributes:
        exchange: the ranks.
        bounds: int64 (P + 1,), first row of each rank; the last one is the number of rows.
    """

    exchange: Exchange
    bounds: NDArray[np.int64]

    @property
    def own(self) -> slice:
        """The rows of this rank."""
        return slice(*self.bounds[self.exchange.rank : self.exchange.rank + 2].tolist())

    @property
    def n_rows(self) -> int:
        """Rows of all ranks."""
        return int(self.bounds[-1])


def undivided(n_rows: int) -> RowSplit:
    """One rank has all rows."""
    return RowSplit(ALONE, np.array([0, n_rows], dtype=np.int64))


def split_rows(costs: NDArray[np.int64], exchange: Exchange, alignment: int) -> RowSplit:
    """Runs of rows that cost about equally much, or as much as the weights of their ranks say.

    Args:
        costs: int64 (rows,), above 0; what a row costs, in any unit.
        alignment: each run starts at a multiple of this number. With fewer multiples than ranks some ranks have no row.
    """
    blocks = np.add.reduceat(costs, np.arange(0, len(costs), alignment))
    return RowSplit(exchange, np.minimum(weighted_bounds(blocks, exchange.weights) * alignment, len(costs)))
