"""`Applied`: what some entries have changed in a `History`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.changes import Changes
from gpu.data.rating_table import RatingTable, times_of

_NO_ROWS, _NO_VALUES = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
_NO_TIMES = np.zeros(0)
NO_CHANGES = Changes(_NO_ROWS, _NO_ROWS, _NO_VALUES, _NO_VALUES, _NO_ROWS, _NO_TIMES, _NO_TIMES)


class ForgottenUser(NamedTuple):
    """A forgotten user: the retired row and the ratings, or strengths, it had, with their times (Unix seconds)."""

    user: int
    items: NDArray[np.int32]
    values: NDArray[np.float32]
    times: NDArray[np.float64]

    @classmethod
    def of(cls, user: int, table: RatingTable) -> ForgottenUser:
        """The row of `user`, which leaves `table`."""
        _, _, timestamps, positions = table.row(user)
        times = times_of(timestamps, positions)  # a copy: the row is about to be overwritten
        items, values = table.drop_user(user)
        return cls(user, items, values, times)


class Applied(NamedTuple):
    """The effect of some entries. All changes of a row come before it was forgotten, so apply `forgotten` last.

    Attributes:
        changes: changes of the table of ratings, at ascending positions; see `service.engine.state.positions`.
        forgotten: forgotten users, in order.
        of_strengths: the effect on the table of strengths; None if it shares that of ratings.
        described: int64 (B,), items whose attributes have changed.
    """

    changes: Changes
    forgotten: list[ForgottenUser]
    of_strengths: Applied | None = None
    described: NDArray[np.int64] = _NO_ROWS

    @property
    def strengths(self) -> Applied:
        """The effect on the table of strengths."""
        return self.of_strengths or Applied(self.changes, self.forgotten)

    @classmethod
    def joined(cls, parts: Sequence[Applied]) -> Applied:
        """The effect of all parts in order; expects at least one part."""
        if len(parts) == 1:
            return parts[0]
        changes = Changes.joined([part.changes for part in parts])
        is_shared = all(part.of_strengths is None for part in parts)
        strengths = None if is_shared else cls.joined([part.strengths for part in parts])
        described = np.concatenate([part.described for part in parts])
        return cls(changes, [gone for part in parts for gone in part.forgotten], strengths, described)
