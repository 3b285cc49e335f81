"""Models with item weights (`gpu.training.ease`): a user is what was rated, and a score is a sum over these ratings.

The score of item j is Σ_i x_i B_ij over the rated items i, B the weights of the model. x is 1 for a like, below 0 for a
dislike, and for a count how sure it is (`gpu.training.calibration.preferences`). So a new rating counts in the next
list without any learning, and each rating's share of a score is exact.

Somebody who likes nothing that has weights would get a list of items in no order. Such a user has the factor 1, all
others 0, and the one factor of an item is the share of users who like it: popular items come first, and what is like
the disliked goes down.

An item newer than the snapshot has no weights: it can be listed, with the score 0, and says nothing of its raters until
the next training.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.backend import HOST
from gpu.model import NO_SLOT, Model
from gpu.online.drift import Column
from gpu.online.rating_table import RatingTable
from gpu.ratings import Rows, are_likes
from gpu.training.calibration import DISLIKED, preferences


def heard(model: Model, rows: Rows) -> Rows:
    """`rows` with x in place of the ratings, packed, where `model` has item weights; else as they are."""
    if not model.params.has_item_weights:
        return rows
    starts = np.cumsum(rows.lengths) - rows.lengths
    places = np.repeat(rows.starts - starts, rows.lengths) + np.arange(rows.lengths.sum())
    return Rows(starts, rows.lengths, rows.items[places], preferences(rows.values[places], model.calibration))


def partial_correlations(model: Model, item: int) -> NDArray[np.float32]:
    """How alike `item` and each item are beside all others, −1 to 1, float32 (I,); −inf where that is not known.

    −P_ij / √(P_ii P_jj), P the inverse of the regularized XᵀX, which is the geometric mean of B_ij and B_ji: so it is
    the same in both directions, and a popular item is not everybody's neighbor.
    """
    found, slot = np.full(model.n_items, -np.inf, dtype=np.float32), model.item_slots[item]
    if slot == NO_SLOT:
        return found
    forth, back = model.item_weights[slot], model.item_weights[:, slot]
    means = np.sign(forth) * np.sqrt(np.maximum(forth * back, 0))
    has_slot = model.item_slots != NO_SLOT
    found[has_slot] = means[model.item_slots[has_slot]]
    return found


def user_cosines(model: Model, rows: Rows, user: int) -> NDArray[np.float32]:
    """The cosine of what `user` and each user likes and dislikes, float32 (U,); −inf for those without ratings."""
    start, line = rows.starts[user], np.zeros(model.n_items, dtype=np.float32)
    own = slice(start, start + rows.lengths[user])
    line[rows.items[own]] = np.where(are_likes(rows.values[own], model.middle), 1, DISLIKED)
    length, found = np.float32(np.sqrt(np.sum(line**2))), np.empty(len(rows.starts), dtype=np.float32)
    HOST.primitives("online.weighted").cosines_of_rows(rows, line, length, np.float32(model.middle), DISLIKED, found)
    return found


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
