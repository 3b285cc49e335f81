"""Copies a table of ratings to the device while the table on the host keeps changing."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.arrays import to_device
from gpu.cuda.growing import Growing
from gpu.data import rating_table as host
from gpu.data.ratings import Rows
from gpu.online.device.rating_table import RatingTable

RATINGS_AT_ONCE, USERS_AT_ONCE = 100_000, 100_000  # ratings, and users, copied in a slice of about two milliseconds
COLUMNS = np.int32, np.float32, np.int64  # items, values, positions


def uploaded(table: host.RatingTable, scale: tuple[float, float]) -> Generator[None, None, RatingTable]:
    """A device copy of `table`, in slices of some milliseconds, between which the table may grow and change.

    Ratings are clipped to `scale` (`Model.learned_scale`). The copy has each user's ratings from the time of the slice
    that read them. The caller then replays all changes since the first slice, in order, to reach the table's state.
    """
    n_users, n_ratings, n_expected = 0, 0, table.n_ratings
    columns = [Growing(cupy.zeros(n_expected, dtype=kind)) for kind in COLUMNS]
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
    """Write `values` behind the first `held` entries, by copies, which need no compiled kernel."""
    to.grow(held + len(values))
    to.values[held : held + len(values)] = to_device(values)


def _part(
    table: host.RatingTable, first: int, lengths: NDArray[np.int64], scale: tuple[float, float]
) -> tuple[NDArray[Any], ...]:
    """(items, values clipped to `scale`, positions) of the users from `first` on, who have `lengths` (B,) ratings."""
    starts, _, items, values = table.rows
    begins = starts[first : first + len(lengths)] - np.cumsum(lengths) + lengths
    places = np.repeat(begins, lengths) + np.arange(lengths.sum())
    learned = np.clip(values[places], *scale).astype(np.float32, copy=False)
    return items[places], learned, table.positions[places]
