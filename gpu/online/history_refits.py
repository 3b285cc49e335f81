"""`HistoryRefits`: the refits of models with item weights, whose users are their ratings (`gpu.ranking.weighted`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.calibration import preferences
from gpu.model import NO_SLOT, Model
from gpu.online.drift import Column
from gpu.online.rating_table import RatingTable


class HistoryRefits:
    """Nothing to refit: the history is the user side, item weights wait for a training; see `gpu.online.refits`.

    Attributes:
        gram: None, explanations need none.
        most_users, most_items: rows that a slice takes at most.
    """

    gram: NDArray[np.float64] | None = None
    most_users = most_items = 1

    def __init__(self, model: Model, table: RatingTable) -> None:
        self._model, self._table = model, table

    def prepare(self) -> Iterator[None]:
        """Nothing."""
        return iter(())

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Nothing: rows that are added have no parameters."""

    def refit_users(self, users: NDArray[np.int64]) -> Iterator[None]:
        """See whether they still like nothing."""
        for user in users.tolist():
            self._model.user_factors[user] = self._wants_the_usual(*self._table.row(user)[:2])
        return iter(())

    def refit_items(self, items: NDArray[np.int64]) -> Iterator[None]:
        """Nothing."""
        del items
        return iter(())

    def fold_in(self, items: NDArray[np.int32], values: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
        """([u; 0] (2,), 0) of somebody with these ratings."""
        return np.array([float(self._wants_the_usual(items, values)), 0.0]), 0.0

    def refit_trained(self, columns: Sequence[Column]) -> Iterator[None]:
        """Nothing."""
        del columns
        return iter(())

    def first_users(self, users: NDArray[np.int64]) -> int:
        """All: a slice takes one."""
        return len(users)

    def first_items(self, items: NDArray[np.int64]) -> int:
        """All: a slice takes one."""
        return len(items)

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Nothing: the model itself is read."""

    def readers_of(self, users: NDArray[np.int64]) -> Collection[int]:
        """None."""
        del users
        return ()

    def forget(self, user: int) -> Collection[int]:
        """Nothing is kept of the user."""
        del user
        return ()

    def _wants_the_usual(self, items: NDArray[np.int32], values: NDArray[np.float32]) -> bool:
        """Whether somebody with these ratings has rated something, and likes nothing that has weights."""
        known = self._model.item_slots[items] != NO_SLOT
        return bool(len(items)) and not (preferences(values[known], self._model.calibration) > 0).any()
