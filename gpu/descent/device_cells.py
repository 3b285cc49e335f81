"""The cells of a deterministic descent, divided among ranks: each learns the cells of its own tiles of users.

In a sub-step all ranks learn from different items; then all get all items. A cell meets the same users and items on any
rank, so any number of equal devices gives the bits of one. Every rank has all ratings, and the parameters of all users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.ranks.exchange import Exchange


class Cells:
    """Which tiles of users this rank learns, and how all ranks get what each has learned.

    Attributes:
        own: the tiles of this rank; there may be none.
    """

    def __init__(self, n_tiles: int, item_bounds: NDArray[np.int64], exchange: Exchange) -> None:
        """Divide the tiles into runs as even as possible.

        Args:
            n_tiles: D, number of tiles of users and of groups of items.
            item_bounds: int64 (D + 1,), first item of each group.
        """
        self._exchange, self._item_bounds = exchange, item_bounds
        self._first_tiles = np.arange(exchange.size + 1, dtype=np.int64) * n_tiles // exchange.size
        self.own = slice(*self._first_tiles[exchange.rank : exchange.rank + 2].tolist())

    def gather_items(self, shift: int, arrays: Sequence[Any]) -> None:
        """Get the items of all ranks after a sub-step in which tile d has met the items of group (d + shift) mod D.

        Args:
            arrays: on the device, items first, changed in place.
        """
        if self._exchange.size == 1:
            return
        widths = np.roll(np.diff(self._item_bounds), -shift)
        bounds = np.append(0, np.cumsum(widths))[self._first_tiles]
        first = int(self._item_bounds[shift])  # the items of tile 0: from here on, cyclic, ranks follow each other
        for array in arrays:
            if array.size:
                rolled = cupy.roll(array, -first, axis=0)
                self._exchange.gather(rolled, bounds)
                array[...] = cupy.roll(rolled, first, axis=0)

    def gather_users(self, tile_users: int, arrays: Sequence[Any]) -> None:
        """Get the users of all ranks.

        Args:
            tile_users: users of a tile.
            arrays: on the device, users first, in the order of tiles; changed in place.
        """
        for array in arrays:
            self._exchange.gather(array, self._first_tiles * tile_users)
