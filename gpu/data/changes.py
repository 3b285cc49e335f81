"""`Changes`: what a batch has changed in a table of ratings, as every part that learns from it gets it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import InvalidInput


class Changes(NamedTuple):
    """Changes that a table has applied, in order, with the values that they replaced.

    Attributes:
        users, items: int64 (B,), rows.
        old: float32 (B,), the value that each change replaced; NaN if there was none.
        new: float32 (B,), the new value; NaN for a delete.
        positions: int64 (B,), ascending over the life of the table: a user's newest ratings have the highest ones.
        old_times: float64 (B,), `times_of` the replaced ratings; NaN where there was none.
        times: float64 (B,), `times_of` the new ratings, also of deletes.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    old: NDArray[np.float32]
    new: NDArray[np.float32]
    positions: NDArray[np.int64]
    old_times: NDArray[np.float64]
    times: NDArray[np.float64]

    @classmethod
    def joined(cls, parts: Sequence[Changes]) -> Changes:
        """The changes of all parts in order; expects at least one part."""
        return cls(*map(np.concatenate, zip(*parts, strict=True))) if len(parts) > 1 else parts[0]

    def part(self, which: slice) -> Changes:
        """A slice of the changes, as views."""
        users, items, old, new, positions, old_times, times = self
        return Changes(
            users[which], items[which], old[which], new[which], positions[which], old_times[which], times[which]
        )


def check_changes(
    shape: tuple[int, int], users: NDArray[np.integer], items: NDArray[np.integer], *further: NDArray[Any]
) -> None:
    """Check columns of changes, each (B,), for a table of `shape` (U, I).

    Raises:
        InvalidInput: unequal lengths, or a row beyond the table.
    """
    lengths = [len(column) for column in (users, items, *further)]
    if len(set(lengths)) > 1:
        raise InvalidInput(f"Invalid lengths of changes: expected {len(lengths)} equal ones, got {lengths}")
    for rows, n, name in zip((users, items), shape, ("users", "items"), strict=True):
        if len(rows) and not (rows.min() >= 0 and rows.max() < n):
            raise InvalidInput(
                f"Invalid rows of {name}: expected 0 to {n - 1}, got {rows.min()} to {rows.max()}; grow the table"
            )
