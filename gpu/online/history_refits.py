"""`HistoryRefits`: of models that refit no rows, such as those with item weights (`gpu.ranking.weighted`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.data.model import NO_SLOT, Model
from gpu.data.rating_table import RatingTable, times_of
from gpu.online.drift import Column
from gpu.online.reading import ANONYMOUS, Reading
from gpu.ranking.weighted import weights_by_time, x_of


class HistoryRefits:
    """Refits of models without any; see `gpu.online.refits`. Only the one factor of a user ever changes.

    Scores read the history directly, and items change only in a training.

    Attributes:
        gram: None, since explanations do not need it.
        most_users, most_items: largest number of rows in a slice.
    """

    gram: NDArray[np.float64] | None = None
    most_users = most_items = 1

    def __init__(self, model: Model, table: RatingTable) -> None:
        self._model, self._table = model, table

    def prepare(self) -> Iterator[None]:
        """Do nothing."""
        return iter(())

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Do nothing: added rows have no parameters."""

    def refit_users(self, users: NDArray[np.int64]) -> Iterator[None]:
        """Set the factor of `users` (B,): 1 for a user with ratings who likes no item with weights, else 0."""
        for user in users.tolist():
            items, values, timestamps, positions = self._table.row(user)
            row = np.array([len(items)]), values, times_of(timestamps, positions), positions
            weights = weights_by_time(self._model, *row)
            self._model.user_factors[user] = self._needs_popular(items, values, weights)
        return iter(())

    def refit_items(self, items: NDArray[np.int64]) -> Iterator[None]:
        """Do nothing."""
        del items
        return iter(())

    def fold_in(
        self, items: NDArray[np.int32], values: NDArray[np.float32], reading: Reading = ANONYMOUS
    ) -> tuple[NDArray[np.float64], float]:
        """([u; 0] (2,), 0) of a user with these ratings, all of which are read."""
        return np.array([float(self._needs_popular(items, values, reading.weights)), 0.0]), 0.0

    def refit_trained(self, columns: Sequence[Column]) -> Iterator[None]:
        """Do nothing."""
        del columns
        return iter(())

    def first_users(self, users: NDArray[np.int64]) -> int:
        """All, since `most_users` is 1."""
        return len(users)

    def first_items(self, items: NDArray[np.int64]) -> int:
        """All, since `most_items` is 1."""
        return len(items)

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Do nothing: scores read the model itself."""

    def readers_of(self, users: NDArray[np.int64]) -> Collection[int]:
        """No items: item weights do not read users."""
        del users
        return ()

    def forget(self, user: int) -> Collection[int]:
        """No items: nothing is stored of the user."""
        del user
        return ()

    def _needs_popular(
        self, items: NDArray[np.int32], values: NDArray[np.float32], weights: NDArray[np.float32] | None
    ) -> bool:
        """Whether a user with these ratings has rated at least one item, and likes none that has weights.

        A like that is so old that it weighs 0 does not count.
        """
        x = x_of(self._model, values)
        x = x if weights is None else x * weights
        return bool(len(items)) and not (x[self._model.item_slots[items] != NO_SLOT] > 0).any()
