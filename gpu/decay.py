"""Half-lives of taste: older ratings have less confidence in implicit ALS.

A pair of the time t has the weight w = 2^((t − t₀)/h), where h is the half-life and t₀ the time as of which a model was
trained. t₀ stays fixed until the next training. So a weight never changes by itself, and what is learned online is a
function of the snapshot and the present history. Pairs newer than t₀ weigh more than 1.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.calibration import Calibration, signals
from gpu.errors import InvalidInput, InvalidParams, InvalidRatings
from gpu.param_kinds import Params
from gpu.ratings import Ratings

DAY_S = 86_400.0
MOST_HALVES = 60.0  # a weight is at most 2 ** 60, if a model is not trained for that long


class Times(NamedTuple):
    """When ratings were made.

    Attributes:
        seconds: float64 (N,), Unix seconds of ratings in the order of `Ratings.coo`.
        as_of_s: t₀, Unix seconds.
    """

    seconds: NDArray[np.float64]
    as_of_s: float


def half_life_of(params: Params) -> float | None:
    """H in days; None for algorithms without one."""
    days: float | None = getattr(params, "half_life_days", None)
    return days


def weights_of(seconds: NDArray[np.float64], as_of_s: float, half_life_days: float) -> NDArray[np.float32]:
    """W of pairs with these times, float32 (B,)."""
    halves = (seconds - as_of_s) / (half_life_days * DAY_S)
    return np.exp2(np.minimum(halves, MOST_HALVES)).astype(np.float32)


def decayed(ratings: Ratings, times: Times | None, known: Calibration, params: Params) -> tuple[Ratings, Calibration]:
    """(signals times weights, to train on; the calibration that the model keeps) for `params` with a half-life.

    The typical signal becomes that of weighted likes, so that α stays the average weight of a like.

    Args:
        known: the calibration of `ratings`.

    Raises:
        InvalidParams: `times` is None.
        InvalidInput: there are not as many times as ratings.
        InvalidRatings: all likes are too old to have a weight.
    """
    half_life_days = half_life_of(params)
    if times is None or half_life_days is None:
        raise InvalidParams("Invalid half_life_days: expected ratings with times, as a service has them, got none")
    if len(times.seconds) != len(ratings):
        raise InvalidInput(f"Invalid length of times: expected {len(ratings):,}, got {len(times.seconds):,}")
    users, items, values = ratings.coo()
    x = signals(values, known) * weights_of(times.seconds, times.as_of_s, half_life_days)
    if not (x > 0).any():
        raise InvalidRatings("Invalid ratings: expected some likes of an age near half_life_days, got none")
    share = x[x > 0].mean(dtype=np.float64)
    counts, shape = x != 0, (ratings.n_users, ratings.n_items)
    columns = users[counts], items[counts], x[counts] / share
    typical = known.typical * float(share)
    known = dataclasses.replace(known, typical=typical, as_of_s=times.as_of_s)
    return Ratings.from_coo(*columns, shape, ratings.user_keys, ratings.item_keys), known
