"""Chooses what `gpu.next.params.NextParams` leaves open: by how well it predicts the last item of each user.

It is trained without these. One parameter is chosen at a time: τ, then c, then λ. The start is what served best on
other data. Another value replaces it only if its NDCG@10 over the users is better by more than `CLEAR` standard errors
of the mean difference: the best of several is partly the luckiest (Breiman et al., *Classification and Regression
Trees*, 1984).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import Backend
from gpu.data.param_kinds import Params, with_changes
from gpu.data.recency import curve
from gpu.next import host
from gpu.next.histories import Histories
from gpu.next.params import NextParams

START = NextParams.start
OTHERS = {
    "decay_items": (1.5, 3.0, 10.0),
    "old_weight": (0.0, 0.02, 0.12),
    "regularization": (0.7, 2.0, 12.0),
}
CLEAR = 1.0  # standard errors
FEWEST = 100  # users who predict; from fewer nothing is chosen
MOST = 2048  # users who predict, drawn by their keys
MOST_ITEMS = 8192  # with more, each of the trainings would take a minute on two cores
TOP = 10


def chosen(
    histories: Histories, user_keys: NDArray[np.uint64], params: Params, n_items: int, backend: Backend
) -> tuple[Params, tuple[str, ...]]:
    """(`params` with numbers, a sentence for what was chosen); `START` with too few users or too many items."""
    is_open = {name: getattr(params, name) is None for name in START}
    best = params.sized()
    users = np.flatnonzero(histories.lengths > 2)
    if not any(is_open.values()):
        return best, ()
    if len(users) < FEWEST:
        return best, (f"nothing was tested: expected {FEWEST} users with three items or more, got {len(users):,}",)
    if n_items > MOST_ITEMS:
        return best, (f"nothing was tested: expected at most {MOST_ITEMS:,} items, got {n_items:,}",)
    users = users[np.argsort(user_keys[users] * np.uint64(0x9E3779B97F4A7C15), kind="stable")[:MOST]]
    trial = _Trial(histories, users, n_items, backend)
    gains = trial.ndcgs(best)
    for name, values in OTHERS.items():
        around = best
        for value in values if is_open[name] else ():
            other = with_changes(around, **{name: value})
            differences = (found := trial.ndcgs(other)) - gains
            if differences.mean() > CLEAR * differences.std() / np.sqrt(len(differences)):
                best, gains = other, found
    told = ", ".join(f"{name}={getattr(best, name):g}" for name in START if is_open[name])
    return best, (f"{told}: NDCG@{TOP} {gains.mean():.4f} for the last items of {len(users):,} users",)


class _Trial:
    """Tries parameters on histories without their last items."""

    def __init__(self, histories: Histories, users: NDArray[np.int64], n_items: int, backend: Backend) -> None:
        self._before, self._users, self._n_items, self._twin = histories.without_last(), users, n_items, backend.twin
        self._last = histories.items[histories.starts[users] + histories.lengths[users] - 1]
        self._summed: tuple[tuple[Any, ...], Any] = ((), None)  # sums differ only with the curve

    def ndcgs(self, params: Params) -> NDArray[np.float64]:
        """NDCG@10 of the last item of each user among the items that the user has not met, float64 (B,)."""
        weights = curve(params)
        key = params.decay_items, params.old_weight, params.window
        if self._summed[0] != key:
            self._summed = (), None  # frees the old ones
            self._summed = key, self._twin(host.sums)(self._before, weights, self._n_items)
        gram, cross = self._summed[1]
        ridge = ridge_of(params, gram)
        found = np.zeros(len(self._users))
        for first in range(0, len(self._users), 1024):
            part = slice(first, first + 1024)
            users = self._users[part]
            x = self._before.inputs(users, weights, self._n_items)
            scores = self._twin(host.scores)(gram, cross, ridge, x)
            rows = np.repeat(np.arange(len(users)), self._before.lengths[users])
            at = np.arange(len(rows)) - np.repeat(np.cumsum(self._before.lengths[users]), self._before.lengths[users])
            ends = np.repeat(self._before.starts[users] + self._before.lengths[users], self._before.lengths[users])
            scores[rows, self._before.items[ends + at]] = -np.inf
            own = scores[np.arange(len(users)), self._last[part]]
            places = np.count_nonzero(scores > own[:, None], axis=1)
            found[part] = np.where(places < TOP, 1 / np.log2(places + 2), 0)
        return found


def ridge_of(params: Params, gram: Any) -> float:
    """λ, in the unit of XᵀX (T, T)."""
    assert params.regularization is not None  # noqa: S101 - `chosen` has set it; this narrows the type
    return params.regularization * float(gram.diagonal().mean())
