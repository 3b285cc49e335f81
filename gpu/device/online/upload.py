"""A table of ratings copied to the device while the one on the host goes on changing."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.device.cuda.arrays import to_device
from gpu.device.cuda.growing import Growing
from gpu.device.online.rating_table import RatingTable
from gpu.online import rating_table as host
from gpu.ratings import Rows

RATINGS_AT_ONCE, USERS_AT_ONCE = 100_000, 100_000  # gathered and copied in a slice: about two milliseconds
COLUMNS = np.int32, np.float32, np.int64  # items, values, positions


def uploaded(table: host.RatingTable, scale: tuple[float, float]) -> Generator[None, None, RatingTable]:
    """A copy of `table`, in slices of some milliseconds, between which it may grow and change.

    Ratings are kept within `scale` (`Model.learned_scale`). Of each user it has what was there when their turn came:
    whoever replays what has changed since the first slice, in order, gets what the table then holds.
    """
    n_users, n_ratings, n_known = 0, 0, table.n_ratings
    columns = [Growing(cupy.zeros(n_known, dtype=kind)) for kind in COLUMNS]
    lengths = Growing(cupy.zeros(table.n_users, dtype=cupy.int64))
    while n_users < table.n_users:
        counts = table.rows.lengths[n_users : n_users + USERS_AT_ONCE]
        counts = counts[: 1 + int(np.searchsorted(np.cumsum(counts), RATINGS_AT_ONCE))]
        part = _part(table, n_users, counts, scale)
        for column, values in zip(columns, part, strict=True):
            _append(column, n_ratings, values)
        _append(lengths, n_users, counts)
        n_users, n_ratings = n_users + len(counts), n_ratings + len(part[0])
        yield
    items, values, positions = (column.values[:n_ratings] for column in columns)
    all_lengths = lengths.values[:n_users]
    rows = Rows(cupy.cumsum(all_lengths) - all_lengths, all_lengths, items, values)
    return (yield from RatingTable.of(rows, positions, table.n_items))


def _append(to: Growing, held: int, values: NDArray[Any]) -> None:
    """Put `values` behind the `held` first ones; copies alone, which need no kernel compiled on the way."""
    to.grow(held + len(values))
    to.values[held : held + len(values)] = to_device(values)


def _part(
    table: host.RatingTable, first: int, lengths: NDArray[np.int64], scale: tuple[float, float]
) -> tuple[NDArray[Any], ...]:
    """Items, values within `scale` and positions of the users from `first` on who have so many ratings."""
    starts, _, items, values = table.rows
    begins = starts[first : first + len(lengths)] - np.cumsum(lengths) + lengths
    places = np.repeat(begins, lengths) + np.arange(lengths.sum())
    learned = np.clip(values[places], *scale).astype(np.float32, copy=False)
    return items[places], learned, table.positions[places]
