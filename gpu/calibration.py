"""`Calibration`: figures of the data, computed before the first epoch, so that one set of defaults fits any data.

* Explicit models learn ratings in multiples of `unit`, the deviation that shrunk biases leave. So a step length or a λ
  means the same on 1 to 5, 0 to 100 and −10 to 10.
* Implicit models learn a preference and a confidence for each pair (`signals`). A count or a click is a preference of
  1, with a confidence that grows with the count. A rating below `middle` and a count below 0 are dislikes: a preference
  of 0, with a confidence that grows with the distance.

A model stores its calibration and uses it online until the next training.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpu.baselines import residual_deviation, shrunk_biases
from gpu.errors import InvalidRatings
from gpu.param_kinds import Params
from gpu.params import AlsImplicitParams, EaseParams
from gpu.ratings import NO_MIDDLE, Ratings, are_likes

Kind = Literal["ratings", "counts"]

PIECE = 2**20  # values
FEW = 0.001  # share of values; so few may be wrong without deciding the kind of all others
ENDS = (0.01, 0.99)  # quantiles; the ends of a scale, which a few wrong values do not move
# Ratio of the 99th percentile to the median; larger values are counts, not ratings. MovieLens has 1.25, Book-Crossing
# 1.25, Last.fm's plays 34.
LONG_TAIL = 5.0
DAMPED_FROM = 10.0  # ratio of the largest count to the mean; beyond it confidence is logarithmic, to bound outliers
LEAST_SIGNAL = 1 / 16  # share of the width of the scale; confidence of a rating at the middle
BELOW_SCALE = 0.25  # share of the width of the scale; Ψ = r² counts from so far below the lowest rating
# λ over α, in units of the largest singular value of a random matrix of the same shape and density: a smaller one
# learns noise, a larger one loses signal. Chosen on held-out training data of five sets (docs/decisions, note 27).
NOISE_SHARE = 0.45
MOST_RIDGE = 0.05  # λ / α, at most; with few rows the noise rule would give more, which shrinks all factors to zero
# EASE: λ over the largest eigenvalue of a random XᵀX, and x of a dislike in lists; in training x of a dislike is 0.
# Chosen on held-out training data of four sets (docs/decisions/0044-ease.md).
NOISE_RIDGE, DISLIKED = 1.5, np.float32(-0.25)
# Ratings; λ0 in training, which keeps rows with one rating near their mean. Refits have their own (`gpu.refit_rules`).
FACTOR_PRIOR, BIAS_PRIOR, WEIGHT_PRIOR = 1.0, 3.0, 5.0
# Factor of `unit`, and λ0, in ALS, which has one ridge for factors and biases. A longer unit shrinks factors more, and
# biases as before.
ALS_UNIT, ALS_PRIOR = 1.5, 4.0


@dataclass(frozen=True)
class Calibration:
    """Figures of the data that a model was trained on. The defaults leave values unchanged.

    Attributes:
        unit: deviation of ratings from shrunk biases (`als`: `ALS_UNIT` times it); explicit models learn multiples.
        origin: the rating from which Ψ = `power` of `gpu.training.simlsh` counts.
        values: `ratings` on a scale, or `counts`.
        middle: values below it are dislikes; 0 for counts. −inf, of older models of counts: nothing is a dislike.
        scale: (lowest, highest); implicit models clip values to it.
        is_damped: whether the confidence of a count c is 1 + ln(c / lowest).
        typical: mean signal of likes; signals are divided by it, so that α is the average weight of a like.
        alpha, regularization: α and λ of implicit ALS; λ of EASE.
        prior: λ0 of the ridge λ n + λ0 in ALS.
        density: share of rated pairs among all pairs of a user and an item with ratings.
        as_of_s: t₀ of `gpu.decay`, Unix seconds; 0 without a half-life.
        usual_weight: weights by age are divided by it (`gpu.decay`). 1 without a half-life, and in implicit ALS, where
            `typical` has it.
    """

    unit: float = 1.0
    origin: float = 0.0
    values: Kind = "counts"
    middle: float = NO_MIDDLE
    scale: tuple[float, float] = (0.0, math.inf)
    is_damped: bool = False
    typical: float = 1.0
    alpha: float = 1.0
    regularization: float = 0.0
    prior: float = 0.0
    density: float = 0.0
    as_of_s: float = 0.0
    usual_weight: float = 1.0


NEUTRAL = Calibration()


def calibrate(ratings: Ratings, params: Params) -> Calibration:
    """The calibration of a training with `params` on `ratings`, at least one."""
    if params.has_values:
        return _of_preferences(ratings, params)
    if params.is_nonnegative:
        return Calibration(density=_density(ratings))
    unit = _unit_of(ratings)
    is_als = params.refits == "exact"
    return Calibration(
        unit=unit * ALS_UNIT if is_als else unit,
        origin=origin_of(ratings.scale),
        values="ratings",
        prior=ALS_PRIOR if is_als else FACTOR_PRIOR,
        density=_density(ratings),
    )


def _unit_of(ratings: Ratings) -> float:
    """Deviation of ratings from shrunk biases; if it is 0, the largest rating."""
    return residual_deviation(ratings, shrunk_biases(ratings)) or max(map(abs, ratings.scale)) or 1.0


def origin_of(scale: tuple[float, float]) -> float:
    """The origin of Ψ = `power` for ratings of this scale: 0 for one to five stars."""
    return scale[0] - BELOW_SCALE * (scale[1] - scale[0])


def before_calibration(parameters: dict[str, Any]) -> Calibration:
    """The calibration of a model with these parameters from a version without any: values stay unchanged."""
    figures = {name: parameters[name] for name in ("alpha", "regularization") if name in parameters}
    return Calibration(**figures)


def signals(values: NDArray[np.floating], calibration: Calibration) -> NDArray[np.float32]:
    """Preference and confidence of values (B,) in one number x, float32 (B,).

    x > 0 is a preference of 1 with confidence 1 + α·x. x < 0 is a preference of 0 with confidence 1 + α·|x|. x = 0
    counts as no rating.
    """
    low, high = calibration.scale
    found = np.asarray(values, dtype=np.float64)
    if calibration.values == "ratings":
        share = (np.clip(found, low, high) - calibration.middle) / (high - low)
        found = np.where(share < 0, share - LEAST_SIGNAL, share + LEAST_SIGNAL)
    else:
        found = np.maximum(found, 0.0 if calibration.middle == NO_MIDDLE else -math.inf)
        sizes = np.abs(found)
        if calibration.is_damped:
            sizes = np.where(sizes > 0, 1 + np.log(np.maximum(sizes, low) / low), 0.0)
        found = np.copysign(np.minimum(sizes, high), found)
    return (found / calibration.typical).astype(np.float32)


def signals_of(ratings: Ratings, calibration: Calibration) -> Ratings:
    """`ratings` with signals in place of their values, without pairs whose signal is 0."""
    by_user, by_item = ratings.by_user, ratings.by_item
    found = Ratings(
        by_user._replace(values=_in_pieces(by_user.values, calibration)),
        by_item._replace(values=_in_pieces(by_item.values, calibration)),
        ratings.user_keys,
        ratings.item_keys,
    )
    counts = found.by_user.values != 0
    return found if counts.all() else found.where(counts)


def of_signals(calibration: Calibration) -> Calibration:
    """`calibration` for a training whose values are signals already: they stay as they are."""
    return dataclasses.replace(calibration, values="counts", scale=(0.0, math.inf), is_damped=False, typical=1.0)


def _in_pieces(values: NDArray[np.float32], calibration: Calibration) -> NDArray[np.float32]:
    """`signals`, which needs several float64 numbers for each value, of `PIECE` values at a time."""
    found = np.empty(len(values), dtype=np.float32)
    for first in range(0, len(values), PIECE):
        found[first : first + PIECE] = signals(values[first : first + PIECE], calibration)
    return found


def in_units(ratings: Ratings, unit: float) -> Ratings:
    """`ratings` with their values in multiples of `unit`."""
    by_user, by_item = ratings.by_user, ratings.by_item
    scale = np.float32(unit)
    return Ratings(
        by_user._replace(values=by_user.values / scale),
        by_item._replace(values=by_item.values / scale),
        ratings.user_keys,
        ratings.item_keys,
        ratings.weights,
    )


def _of_preferences(ratings: Ratings, params: Any) -> Calibration:
    values = ratings.by_user.values
    kind = kind_of(values) if params.values == "auto" else params.values
    found = _of_ratings(values) if kind == "ratings" else _of_counts(values, params)
    liked = signals(values, found)
    found = dataclasses.replace(found, typical=float(liked[liked > 0].mean(dtype=np.float64)))
    if params.is_logit:
        return dataclasses.replace(found, density=_density(ratings))
    if params.has_item_weights:
        return _with_ridge(found, ratings, params)
    return _with_weights(found, ratings if (liked != 0).all() else ratings.where(liked != 0), params)


def _of_ratings(values: NDArray[np.float32]) -> Calibration:
    if values.min() == values.max() < 0:
        raise InvalidRatings(f"Invalid ratings: expected some likes, got {values.max():g} everywhere; add some")
    low, high = ends_of(values)
    mean = float(np.clip(values, low, high).mean(dtype=np.float64))
    middle = min((low + high) / 2, mean)
    return Calibration(values="ratings", middle=middle, scale=(low, high if high > low else low + 1.0))


def _of_counts(values: NDArray[np.float32], params: Any) -> Calibration:
    if values.max() <= 0:
        raise InvalidRatings("Invalid ratings: expected some above 0, got none; add some, or use values=ratings")
    positive = values[values > 0]
    confidence = getattr(params, "confidence", "linear")
    is_long = float(positive.max()) > DAMPED_FROM * float(positive.mean(dtype=np.float64))
    low, high = ends_of(positive)
    is_damped = is_long if confidence == "auto" else confidence == "log"
    return Calibration(values="counts", middle=0.0, scale=(low, math.inf if is_damped else high), is_damped=is_damped)


def _with_weights(found: Calibration, rated: Ratings, params: AlsImplicitParams) -> Calibration:
    """Add α and λ, those of `params` or computed from the trained ratings.

    By default α = √(1 / density). A random matrix of U × I with this density has no singular value far beyond
    √(density) (√U + √I). With λ / α = c (1/√U + 1/√I), factors below c times that strength stay at zero.
    """
    n_users, n_items = (int(np.count_nonzero(rows.lengths)) for rows in (rated.by_user, rated.by_item))
    density = _density(rated)
    alpha = density**-0.5 if params.alpha is None else params.alpha
    ridge = alpha * min(NOISE_SHARE * (n_users**-0.5 + n_items**-0.5), MOST_RIDGE)
    ridge = ridge if params.regularization is None else params.regularization
    return dataclasses.replace(found, alpha=alpha, regularization=ridge, density=density)


def preferences(values: NDArray[np.floating], calibration: Calibration) -> NDArray[np.float32]:
    """The x of ratings (B,) in EASE, float32 (B,): 1 for a like, `DISLIKED` for a dislike, the signal of a count.

    That of a dislike among counts is multiplied by −`DISLIKED`.
    """
    if calibration.values == "counts":
        x = signals(values, calibration)
        return np.where(x < 0, -DISLIKED * x, x)
    return np.where(are_likes(values, calibration.middle), np.float32(1), DISLIKED)


def _with_ridge(found: Calibration, ratings: Ratings, params: EaseParams) -> Calibration:
    """Add λ of EASE, that of `params` or computed from the likes.

    If X is random, of U × I with Σ x² spread evenly, no eigenvalue of XᵀX goes far beyond Σ x² (1/√U + 1/√I)². So
    eigenvalues below that may be noise.
    """
    x = preferences(ratings.by_user.values, found)
    x = x if ratings.weights is None else x * ratings.weights
    liked = ratings.where(x > 0)
    n_users, n_items = (max(int(np.count_nonzero(rows.lengths)), 1) for rows in (liked.by_user, liked.by_item))
    squares = float(np.square(x[x > 0], dtype=np.float64).sum())
    ridge = NOISE_RIDGE * squares * (n_users**-0.5 + n_items**-0.5) ** 2
    ridge = ridge if params.regularization is None else params.regularization
    return dataclasses.replace(found, regularization=ridge, density=_density(liked))


def kind_of(values: NDArray[np.float32]) -> Kind:
    """Whether values are ratings on a scale or counts; clicks are counts.

    Counts are not negative. They have a long tail, or most of them have the lowest value and the next value is at most
    twice as large. Clicks are all equal. Thumbs as 1 and 5 are ratings. One value in a thousand decides nothing, so
    that a single client cannot turn the likes of all others into dislikes.
    """
    lowest, median, high = np.quantile(values, [FEW, 0.5, ENDS[1]], method="inverted_cdf")
    above = values[values > lowest]
    if lowest < 0 or not len(above):
        return "counts" if lowest >= 0 else "ratings"
    following = np.quantile(above, min(FEW * len(values) / len(above), 1.0), method="inverted_cdf")
    is_piled = median == lowest and following <= 2 * lowest
    return "counts" if is_piled or high > LONG_TAIL * median else "ratings"


def ends_of(values: NDArray[np.float32]) -> tuple[float, float]:
    """(lowest, highest) of a scale: the quantiles `ENDS`, or the extremes if both quantiles are equal."""
    low, high = np.quantile(values, ENDS, method="inverted_cdf")
    if low == high:
        low, high = values.min(), values.max()
    return float(low), float(high)


def _density(ratings: Ratings) -> float:
    n_pairs = math.prod(int(np.count_nonzero(rows.lengths)) for rows in (ratings.by_user, ratings.by_item))
    return len(ratings) / max(n_pairs, 1)
