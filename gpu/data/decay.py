"""Half-lives of taste: older ratings weigh less.

A pair of the time t has the weight w = 2^((t − t₀)/h), where h is the half-life and t₀ the time as of which a model was
trained. t₀ stays fixed until the next training. So a weight never changes by itself, and what is learned online is a
function of the snapshot and the present history. Pairs newer than t₀ weigh more than 1.

* Implicit ALS multiplies the confidence of a pair, before a training (`decayed`).
* EASE multiplies the x of a pair, also in the row that a list is computed from (`gpu.ranking.weighted`).
* Gradient descent multiplies the error of a pair, and so its steps, but no regularization. A like's negatives weigh as
  much as the like. The inputs of neighbor terms have no weights.

Weights are divided by their mean over the training, so that a step length, λ or α means the same with and without a
half-life.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.base.errors import InvalidInput, InvalidParams, InvalidRatings
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.data.ratings import Ratings
from gpu.data.signals import Calibration, entries_of, evidence

DAY_S = 86_400.0
# Largest weight in a training by gradient descent, in means: a step much longer than the usual one would diverge. If a
# half-life is short, so that the mean is low, weights are divided by more than their mean.
MOST_WEIGHT = 4.0
MOST_HALVES = 60.0  # a weight is at most 2 ** 60, if a model is not trained for that long


class Times(NamedTuple):
    """When ratings were made.

    Attributes:
        seconds: float64 (N,), Unix seconds of ratings in the order of `Ratings.coo`.
        as_of_s: t₀, Unix seconds.
        positions: int64 (N,), their places in the stream, which decide between equal times. None: none are equal, or
            their order does not matter.
    """

    seconds: NDArray[np.float64]
    as_of_s: float
    positions: NDArray[np.int64] | None = None

    @property
    def stream(self) -> NDArray[np.int64]:
        """`positions`, by default in the order of the ratings."""
        return np.arange(len(self.seconds)) if self.positions is None else self.positions

    @classmethod
    def of(cls, users: NDArray[np.integer], items: NDArray[np.integer], seconds: NDArray[np.float64]) -> Times:
        """Times of the pairs (N,), at least one, that `Ratings.from_coo` keeps, in their order; as of the newest."""
        order = np.lexsort((items, users))
        is_last = np.ones(len(order), dtype=np.bool_)
        is_last[:-1] = (np.diff(users[order]) != 0) | (np.diff(items[order]) != 0)
        return cls(seconds[order[is_last]], float(seconds.max()))


def weights_of(seconds: NDArray[np.float64], as_of_s: float, half_life_days: float) -> NDArray[np.float32]:
    """The w of pairs with these times, float32 (B,)."""
    halves = (seconds - as_of_s) / (half_life_days * DAY_S)
    return np.exp2(np.minimum(halves, MOST_HALVES)).astype(np.float32)


def weighing(params: Params, backend: Backend) -> Backend:
    """Where models with `params` are trained and learn: the host, if samples of gradient descent have weights.

    The kernels of a device have no weights.
    """
    if backend.name == HOST.name or params.refits != "sampled" or params.half_life_days is None:
        return backend
    return replace(HOST, reason="half_life_days of gradient descent is for the host alone")


def weights_in(model: Model, seconds: NDArray[np.float64]) -> NDArray[np.float32] | None:
    """What pairs with these times (B,) weigh in `model`, float32 (B,); None without a half-life."""
    half_life_days, calibration = model.params.half_life_days, model.calibration
    if half_life_days is None:
        return None
    return in_usual_ones(weights_of(seconds, calibration.as_of_s, half_life_days), calibration.usual_weight)


def in_usual_ones(weights: NDArray[np.float32], usual: float) -> NDArray[np.float32]:
    """`weights` (B,) divided by the usual one, float32 (B,)."""
    return (weights / usual).astype(np.float32)


def weighted(ratings: Ratings, times: Times | None, params: Params) -> tuple[Ratings, float]:
    """(ratings with their weights, the usual weight by which these are divided) for `params` with a half-life.

    Raises:
        InvalidParams, InvalidInput: as `decayed`.
        InvalidRatings: all ratings are too old to have a weight.
    """
    weights = _weights(ratings, times, params)
    usual = float(weights.mean(dtype=np.float64))
    if params.refits == "sampled":
        usual = max(usual, float(weights.max()) / MOST_WEIGHT)
    if not usual > 0:
        raise _too_old("ratings")
    return ratings.weighted(in_usual_ones(weights, usual)), usual


def decayed(
    ratings: Ratings, times: Times | None, calibration: Calibration, params: Params
) -> tuple[Ratings, Calibration]:
    """(signals times weights, to train on; the calibration that the model keeps) for `params` with a half-life.

    The typical signal becomes that of weighted likes, so that α stays the average weight of a like.

    Args:
        calibration: that of `ratings`.

    Raises:
        InvalidParams: `times` is None.
        InvalidInput: there are not as many times as ratings.
        InvalidRatings: all likes are too old to have a weight.
    """
    weights = _weights(ratings, times, params)
    users, items, values = ratings.coo()
    likes, dislikes = evidence(values, calibration)
    x, n_entries = entries_of(likes * weights, dislikes * weights)
    if not (x > 0).any():
        raise _too_old("likes")
    share, shape = x[x > 0].mean(dtype=np.float64), (ratings.n_users, ratings.n_items)
    columns = users, items, (x / share).astype(np.float32), n_entries
    typicals = {name: getattr(calibration, name) * float(share) for name in ("typical", "event_typical")}
    calibration = replace(calibration, **typicals)
    return Ratings.of_entries(*columns, shape, ratings.user_keys, ratings.item_keys), calibration


def _weights(ratings: Ratings, times: Times | None, params: Params) -> NDArray[np.float32]:
    """The w of `ratings`, float32 (N,), not divided by anything."""
    half_life_days = params.half_life_days
    if times is None or half_life_days is None:
        raise InvalidParams("Invalid half_life_days: expected ratings with times, as a service has them, got none")
    if len(times.seconds) != len(ratings):
        raise InvalidInput(f"Invalid length of times: expected {len(ratings):,}, got {len(times.seconds):,}")
    return weights_of(times.seconds, times.as_of_s, half_life_days)


def _too_old(what: str) -> InvalidRatings:
    return InvalidRatings(f"Invalid ratings: expected some {what} of an age near half_life_days, got none")
