"""Descent on several devices: each learns all items from its own users, and the changes of items are added up.

[004] §4.2 moves parameters between D GPUs in D sub-steps of an epoch, so that no two GPUs learn from one item at once
(`gpu.descent.host_rotation` does so). A device has far more ratings in flight than a sub-step has items. So here every
rank runs parts of epochs over its own users with a copy of all items ("delayed items"), and after each part

    v ← v + s Σ_d Δ_d,   s = (1 − (1 − p)^P) / (P p),   p = 1 − exp(−γ κ n / P).

Δ_d is what rank d has changed, n the item's ratings of a part, and γ κ the share of the way to its optimum that one
rating takes an item; p is the share that a rank's own ratings take it. If p is small the changes add up (s = 1); if all
ranks have come near their optimum, it is their mean (s = 1/P). In between, P changes of p count as the 1 − (1 − p)^P
that one rank would have reached with all ratings. κ is 1 for biases and 1/K for weights of neighbors. For factors it is
the norm of E[u uᵀ], which lies between the mean and the largest curvature of an item's error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import Backend
from gpu.data.model import ARRAYS, LEARNED, LEARNED_ITEMS, LEARNED_USERS, Model
from gpu.data.ratings import Ratings
from gpu.data.views import Rates, Shares, part_of, within_columns
from gpu.descent.host import Descent
from gpu.descent.host_item_changes import ItemChanges
from gpu.descent.params import SgdParams
from gpu.ranks.exchange import Exchange
from gpu.ranks.user_split import UserSplit
from gpu.training.loop import State

# Epoch, from 0 -> parts of each epoch before it. While steps are long, users of different ranks would learn from items
# that drift apart, and keep the errors that come from that. Later epochs have one part.
PARTS = {2: 4, 5: 2}
LOGISTIC = 0.25  # largest slope of the logistic function, by which implicit models follow an error


class DelayedItems:
    """One training on several ranks; see `gpu.descent.host.Descent`.

    The model differs from that of one rank, and between numbers of ranks.
    """

    def __init__(
        self, model: Model, params: SgdParams, ratings: Ratings, test: Ratings | None, exchange: Exchange,
        backend: Backend,
    ) -> None:  # fmt: skip
        """Load this rank's users and all items onto the backend."""
        self._model, self._params, self._exchange = model, params, exchange
        self._users, self._n = UserSplit.of(ratings, exchange), len(ratings)
        held = self._users.held
        part, test_part = part_of_users(ratings, held), None if test is None else part_of_users(test, held)
        n_test = 0 if test_part is None else len(test_part)
        self._n_own, self._n_test = (0, 0) if self._users.is_idle else (len(part), n_test)
        self._descent = backend.twin(Descent)(_of_users(model, held), params, part, test_part)
        arrays = self._descent.item_arrays()
        self._changes = backend.twin(ItemChanges)(arrays, ratings.by_item.lengths, exchange.size)
        self._is_complete = True

    def compile(self) -> None:
        """See `Descent`; all ranks must call it. Adding up nothing changes nothing."""
        self._descent.compile()
        self._add_up((0.0,) * len(LEARNED_ITEMS))

    def prepare(self) -> None:
        """See `Descent`."""
        self._descent.prepare()

    def learn(self, epoch: int, rates: Rates) -> None:
        """Run one epoch over this rank's users, and add up the changes of items of all ranks after each part."""
        n_parts = next((n for end, n in PARTS.items() if epoch < end), 1)
        for part in range(n_parts):
            if part:
                self._changes.remember(self._descent.item_arrays())
            if not self._users.is_idle:
                self._descent.learn(epoch, rates, part, n_parts)
            self._add_up(tuple(way / n_parts for way in self._ways(rates)))
        self._is_complete = False

    def _add_up(self, ways: tuple[float, ...]) -> None:
        arrays = self._descent.item_arrays()
        self._exchange.reduce(self._changes.collect(arrays, self._descent.some_users()))
        self._changes.apply(arrays, ways)

    def _ways(self, rates: Rates) -> tuple[float, ...]:
        """γ κ of each of `LEARNED_ITEMS`, of factors without κ."""
        slope = LOGISTIC if self._model.is_implicit else 1.0
        step, weight_step = slope * float(rates.step), slope * float(rates.weight_step)
        of_weights = weight_step / max(1, self._model.neighbors.shape[1])
        return step, step, of_weights, of_weights

    def shrink(self, shares: Shares) -> None:
        """See `Descent`; all ranks shrink all items alike."""
        self._descent.shrink(shares)

    def finish(self) -> None:
        """See `Descent`."""
        self._changes.remember(self._descent.item_arrays())
        self._descent.finish()

    def complete(self) -> None:
        """Get the users of other ranks."""
        if self._is_complete:
            return
        found = self._descent.fetch()
        for name in LEARNED_USERS:
            whole = getattr(self._model, name)
            if not self._users.is_idle:
                whole[self._users.own] = getattr(found, name)
            self._exchange.on_host.gather(whole, self._users.bounds)
        for name in LEARNED_ITEMS:
            getattr(self._model, name)[...] = getattr(found, name)
        self._is_complete = True

    def fetch(self) -> Model:
        """See `Descent`."""
        return self._model

    def state(self) -> State:
        """See `Descent`."""
        return {name: getattr(self._model, name) for name in LEARNED}

    def restore(self, state: State) -> None:
        """See `Descent`."""
        for name in LEARNED:
            getattr(self._model, name)[...] = state[name]
        self._descent.restore({name: _rows_of(name, state[name], self._users.held) for name in LEARNED})
        self._changes.remember(self._descent.item_arrays())
        self._is_complete = True

    def is_finite(self) -> bool:
        """See `Descent`."""
        return self._exchange.totals(not self._descent.is_finite()) == (0,)

    def train_error(self) -> float:
        """See `Descent`."""
        error = self._descent.train_error() if self._n_own else 0.0
        if self._model.is_implicit:
            return self._exchange.totals(error * self._n_own)[0] / self._n
        return float(np.sqrt(self._exchange.totals(error**2 * self._n_own)[0] / self._n))

    def test_rmse(self) -> float:
        """See `Descent`; all ranks must call it."""
        squares = self._descent.test_rmse() ** 2 * self._n_test if self._n_test else 0.0
        squares, n = self._exchange.totals(squares, self._n_test)
        return float(np.sqrt(squares / n))


def bytes_of_changes(ratings: Ratings, params: SgdParams) -> int:
    """Bytes of the changes of all items, and of a copy of the items."""
    columns = params.n_factors + 1 + 2 * params.n_neighbors
    return 8 * columns * ratings.n_items


def part_of_users(ratings: Ratings, own: slice) -> Ratings:
    """The ratings of consecutive users, counted from the first; all items."""
    by_user, _ = part_of(ratings.by_user, own)
    return Ratings(by_user, within_columns(ratings.by_item, own), ratings.user_keys[own], ratings.item_keys)


def _of_users(model: Model, own: slice) -> Model:
    """The model of consecutive users and all items; arrays are copies."""
    arrays = {name: _rows_of(name, array, own).copy() for name, array in model.arrays.items()}
    return Model(model.params, model.mean, model.scale, arrays, model.calibration)


def _rows_of(name: str, array: NDArray[Any], own: slice) -> NDArray[Any]:
    return array[own] if ARRAYS[name][0].startswith("U") else array
