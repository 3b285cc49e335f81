"""`calibrate`: figures of the data, computed before the first epoch, so that one set of defaults fits any data.

* Explicit models learn ratings in multiples of `unit`, the deviation that shrunk biases leave. So a step length or a λ
  means the same on 1 to 5, 0 to 100 and −10 to 10.
* Implicit models learn a preference and a confidence for each pair (`gpu.data.signals`).

With `calibration=none` (`Params.is_calibrated`) nothing is computed: models learn ratings as they are.

A model stores its calibration and uses it online until the next training.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import InvalidRatings
from gpu.data.baselines import residual_deviation, shrunk_biases
from gpu.data.evidence import amounts, unpacked
from gpu.data.param_kinds import Params
from gpu.data.ratings import Ratings
from gpu.data.signals import EVENT_WEIGHT, Calibration, Kind, counted, of_one_kind, preferences

FEW = 0.001  # share of values; so few may be wrong without deciding the kind of all others
ENDS = (0.01, 0.99)  # quantiles; the ends of a scale, which a few wrong values do not move
# Ratio of the 99th percentile to the median; larger values are counts, not ratings. MovieLens has 1.25, Book-Crossing
# 1.25, Last.fm's plays 34.
LONG_TAIL = 5.0
DAMPED_FROM = 10.0  # ratio of the largest count to the mean; beyond it confidence is logarithmic, to bound outliers
BELOW_SCALE = 0.25  # share of the width of the scale; Ψ = r² counts from so far below the lowest rating
# λ over α, in units of the largest singular value of a random matrix of the same shape and density: a smaller one
# learns noise, a larger one loses signal. Chosen on held-out training data of five sets (docs/decisions/0027).
NOISE_SHARE = 0.45
MOST_RIDGE = 0.05  # λ / α, at most; with few rows the noise rule would give more, which shrinks all factors to zero
# EASE: λ over the largest eigenvalue of a random XᵀX. It and `gpu.data.signals.DISLIKED` were chosen on held-out
# training data of four sets (docs/decisions/0044-ease.md).
NOISE_RIDGE = 1.5
# Ratings; λ0 in training, which keeps rows with one rating near their mean. Refits have their own
# (`gpu.data.refit_rules`).
FACTOR_PRIOR, BIAS_PRIOR, WEIGHT_PRIOR = 1.0, 3.0, 5.0
# Factor of `unit`, and λ0, in ALS, which has one ridge for factors and biases. A longer unit shrinks factors more, and
# biases as before.
ALS_UNIT, ALS_PRIOR = 1.5, 4.0


def calibrate(ratings: Ratings, params: Params) -> Calibration:
    """The calibration of a training with `params` on `ratings`, at least one."""
    if not params.is_calibrated:
        return _of_paper(ratings, params)
    if params.has_values:
        return _of_preferences(ratings, params)
    if params.is_nonnegative:
        return Calibration(density=_density(ratings))
    # The deviation of ratings from shrunk biases; if it is 0, the largest rating.
    unit = residual_deviation(ratings, shrunk_biases(ratings)) or max(map(abs, ratings.scale)) or 1.0
    is_als = params.refits == "exact"
    return Calibration(
        unit=unit * ALS_UNIT if is_als else unit,
        origin=origin_of(ratings.scale, params),
        values="ratings",
        prior=ALS_PRIOR if is_als else FACTOR_PRIOR,
        density=_density(ratings),
    )


def _of_paper(ratings: Ratings, params: Params) -> Calibration:
    """That of `calibration=none`: ratings as they are, with the α and λ of `params`; every pair is a like.

    Raises:
        InvalidRatings: the algorithm learns likes, and a value is below 0.
    """
    if not params.has_values:
        return Calibration(values="counts" if params.is_implicit else "ratings", density=_density(ratings))
    lowest = float(amounts(ratings.by_user.values).min())
    if lowest < 0:
        raise InvalidRatings(
            f"Invalid ratings for {params.algorithm}: expected 0 or more beside calibration=none, got {lowest:g}; "
            "use calibration=data, which takes them as dislikes"
        )
    if params.is_logit or params.has_item_weights:
        return Calibration(density=_density(ratings))
    # both are given: `Params.together`
    return Calibration(
        alpha=params.alpha or 0.0, regularization=params.regularization or 0.0, density=_density(ratings)
    )


def origin_of(scale: tuple[float, float], params: Params) -> float:
    """The origin of Ψ = `power` for ratings of this scale: 0 for one to five stars, and with `calibration=none`."""
    return scale[0] - BELOW_SCALE * (scale[1] - scale[0]) if params.is_calibrated else 0.0


def in_units(ratings: Ratings, unit: float) -> Ratings:
    """`ratings` with their values in multiples of `unit`."""
    scale = np.float32(unit)
    return ratings.with_values(ratings.by_user.values / scale, ratings.by_item.values / scale)


def _of_preferences(ratings: Ratings, params: Params) -> Calibration:
    values = ratings.by_user.values
    rated, summed = unpacked(values)
    rated, summed = (rated, summed[:0]) if rated is values else (rated[~np.isnan(rated)], summed[summed != 0])
    kind = params.values
    if kind == "auto":  # events alone are counts; beside ratings, these decide
        kind = kind_of(rated) if len(rated) else "counts"
    if kind == "ratings":
        calibration = _with_events(_of_ratings(rated, has_events=len(summed) > 0), summed, params)
    else:
        rated = amounts(values)
        calibration = _of_counts(rated, params)
    liked = of_one_kind(rated, calibration)
    if (liked > 0).any():
        calibration = dataclasses.replace(calibration, typical=float(liked[liked > 0].mean(dtype=np.float64)))
    if params.is_logit or params.has_item_lists:
        return dataclasses.replace(calibration, density=_density(ratings))
    if params.is_ordered:  # a rated item is one that the user has met; events alone may be dislikes
        lowest = float(rated.min(initial=calibration.middle))
        middle = lowest if kind == "ratings" else calibration.middle
        return dataclasses.replace(calibration, middle=middle, density=_density(ratings))
    if params.has_item_weights:
        return _with_ridge(calibration, ratings, params)
    says_nothing = kind == "counts" and not liked.all()
    return _with_weights(calibration, ratings.where(liked != 0) if says_nothing else ratings, params)


def _of_ratings(values: NDArray[np.float32], *, has_events: bool) -> Calibration:
    if not len(values):
        return Calibration(values="ratings", middle=0.0, scale=(0.0, 1.0))
    if values.min() == values.max() < 0 and not has_events:
        raise InvalidRatings(f"Invalid ratings: expected some likes, got {values.max():g} everywhere; add some")
    low, high = ends_of(values)
    mean = float(np.clip(values, low, high).mean(dtype=np.float64))
    middle = min((low + high) / 2, mean)
    return Calibration(values="ratings", middle=middle, scale=(low, high if high > low else low + 1.0))


def _with_events(calibration: Calibration, sums: NDArray[np.float32], params: Params) -> Calibration:
    """Add the scale of the sums of events (B,) beside ratings, and α_e."""
    weight = EVENT_WEIGHT if params.event_weight is None else params.event_weight
    calibration = dataclasses.replace(calibration, event_weight=weight)
    if not (sums > 0).any():
        return calibration
    counts = _of_counts(sums, params)
    typical = counted(sums[sums > 0].astype(np.float64), counts.scale, counts.is_damped).mean()
    return dataclasses.replace(
        calibration, event_scale=counts.scale, event_damped=counts.is_damped, event_typical=float(typical)
    )


def _of_counts(values: NDArray[np.float32], params: Params) -> Calibration:
    if values.max() <= 0:
        raise InvalidRatings("Invalid ratings: expected some above 0, got none; add some, or use values=ratings")
    positive = values[values > 0]
    if params.confidence == "ones":  # every count is bounded by the least
        least = float(positive.min())
        return Calibration(values="counts", middle=0.0, scale=(least, least))
    is_long = float(positive.max()) > DAMPED_FROM * float(positive.mean(dtype=np.float64))
    low, high = ends_of(positive)
    is_damped = is_long if params.confidence == "auto" else params.confidence == "log"
    return Calibration(values="counts", middle=0.0, scale=(low, math.inf if is_damped else high), is_damped=is_damped)


def _with_weights(calibration: Calibration, rated: Ratings, params: Params) -> Calibration:
    """Add α and λ, those of `params` or computed from the trained ratings.

    By default α = √(1 / density). A random matrix of U × I with this density has no singular value far beyond
    √(density) (√U + √I). With λ / α = c (1/√U + 1/√I), factors below c times that strength stay at zero.
    """
    n_users, n_items = (int(np.count_nonzero(rows.lengths)) for rows in (rated.by_user, rated.by_item))
    density = _density(rated)
    alpha = density**-0.5 if params.alpha is None else params.alpha
    ridge = alpha * min(NOISE_SHARE * (n_users**-0.5 + n_items**-0.5), MOST_RIDGE)
    ridge = ridge if params.regularization is None else params.regularization
    return dataclasses.replace(calibration, alpha=alpha, regularization=ridge, density=density)


def _with_ridge(calibration: Calibration, ratings: Ratings, params: Params) -> Calibration:
    """Add λ of EASE, that of `params` or computed from the likes.

    If X is random, of U × I with Σ x² spread evenly, no eigenvalue of XᵀX goes far beyond Σ x² (1/√U + 1/√I)². So
    eigenvalues below that may be noise.
    """
    x = preferences(ratings.by_user.values, calibration)
    x = x if ratings.weights is None else x * ratings.weights
    liked = ratings.where(x > 0)
    n_users, n_items = (max(int(np.count_nonzero(rows.lengths)), 1) for rows in (liked.by_user, liked.by_item))
    squares = float(np.square(x[x > 0], dtype=np.float64).sum())
    ridge = NOISE_RIDGE * squares * (n_users**-0.5 + n_items**-0.5) ** 2
    ridge = ridge if params.regularization is None else params.regularization
    return dataclasses.replace(calibration, regularization=ridge, density=_density(liked))


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
