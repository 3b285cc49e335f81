"""`Shown`: how far each item that a user was shown is lowered in a list. Belongs to the engine thread.

A showing lowers the score of its item by a number, by half of it after a half-life, by a quarter after two. Its age is
that at the last entry of the stream, not at the time of the clock, so that replicas agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.ranking.eligible import WORD, Eligible
from service.engine.lists.boosts import BoostClass
from service.engine.state.history import History


class Shown(NamedTuple):
    """What a user was shown.

    Attributes:
        rows: int64 (S,), ascending.
        boosts: float64 (S,), what each item gets added to its score.
    """

    rows: NDArray[np.int64]
    boosts: NDArray[np.float64]

    def within(self, classes: Sequence[BoostClass]) -> Shown:
        """The items that are in one of `classes`, with the boosts of these."""
        rows, boosts = [self.rows[:0]], [self.boosts[:0]]
        for eligible, boost in classes:
            own = np.ones(len(self.rows), dtype=np.bool_)
            if eligible is not None:
                own = np.isin(self.rows, eligible.among(self.rows))
            rows.append(self.rows[own])
            boosts.append(self.boosts[own] + boost)
        all_rows, added = np.concatenate(rows), np.concatenate(boosts)
        order = np.argsort(all_rows)
        return Shown(all_rows[order], added[order])

    @property
    def eligible(self) -> Eligible:
        """The items as a set."""
        bits = np.zeros(int(self.rows.max(initial=0)) // WORD + 1, dtype=np.uint32)
        np.bitwise_or.at(bits, self.rows // WORD, np.uint32(1) << (self.rows % WORD).astype(np.uint32))
        return Eligible(bits, len(self.rows))

    def boosts_of(self, rows: NDArray[np.integer]) -> NDArray[np.float64]:
        """The boosts of `rows`, all of which are in it."""
        return self.boosts[np.searchsorted(self.rows, rows)]


NONE_SHOWN = Shown(np.zeros(0, dtype=np.int64), np.zeros(0))


def shown_to(history: History, user: str | None, rotate: tuple[float, float] | None) -> Shown:
    """What `user` was shown last; nothing without `rotate`, and for an anonymous or unknown user."""
    row = None if user is None or rotate is None else history.users.row(user)
    if row is None or rotate is None:
        return NONE_SHOWN
    items, seconds = history.strengths.showings.of(row)
    ages = np.maximum(history.position.ms / 1000 - seconds, 0.0)
    rows, places = np.unique(items.astype(np.int64), return_inverse=True)
    lowered = np.zeros(len(rows))
    np.add.at(lowered, places, rotate[1] * np.exp2(-ages / rotate[0]))
    return Shown(rows, 0.0 - lowered)
