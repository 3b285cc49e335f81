"""What a user takes over from another user, by an entry `merge`. Part of a `History`.

Of two ratings of one item the newer one counts, wherever it came. Events add up, as those of one user do. Repeated
`event_id`s of either user stay repeated ones. The other user is then gone, as after a forgetting.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.online.rating_table import RatingTable


class Moving(NamedTuple):
    """Ratings that move, the oldest first.

    Attributes:
        items: int32 (B,), rows.
        values: float32 (B,).
        timestamps: float64 (B,), Unix seconds.
    """

    items: NDArray[np.int32]
    values: NDArray[np.float32]
    timestamps: NDArray[np.float64]


def moving(table: RatingTable, user: int, into: int) -> Moving:
    """Copies of the ratings of `user` that are newer than those of `into`, or of items that `into` has not rated."""
    items, values, timestamps, positions = table.row(user)
    theirs, _, _, their_positions = table.row(into)
    places = np.searchsorted(theirs, items)
    have = places < len(theirs)
    have[have] = theirs[places[have]] == items[have]
    newest = np.full(len(items), -1, dtype=np.int64)
    newest[have] = their_positions[places[have]]
    moves = np.flatnonzero(positions > newest)
    order = moves[np.argsort(positions[moves])]
    return Moving(items[order], values[order], timestamps[order])
