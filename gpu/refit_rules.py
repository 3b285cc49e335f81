"""Constants of online learning: how strongly refits of single users and items are held back.

Models trained by ALS are refitted exactly, by what they were trained to minimize (`Objective`).

For all others (`Rules`) a ridge, in the units of training (`gpu.calibration`), is λ n + λ0, with the model's
own λ and n the ratings that a term takes part in. λ0 keeps users with one rating near the average. A row fitted in one
go to a fixed other side needs a smaller share of λ than training. All values were chosen on MovieLens-1M by folding in
users and items that a model had not seen (docs/decisions, note 11).
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gpu.baselines import PRIOR
from gpu.calibration import signals
from gpu.model import Model
from gpu.param_kinds import GradientParams
from gpu.params import AlsImplicitParams, AlsParams

PARALLEL_FROM = 64  # refits waiting, without a budget, from which threads are worth waking

# With λ = 0 a row with few ratings has no single solution; it gets the shortest one by so small a ridge: a share of the
# mean diagonal, and not nothing where that is 0.
SMALLEST_RIDGE, TINY = 1e-10, 1e-300

# A row without a number below 0 is solved by sweeps over its columns: at most `N_SWEEPS`, or until the largest change
# in one is `TOLERANCE` of the largest number.
N_SWEEPS, TOLERANCE = 1000, 1e-9

BIAS_PRIOR_OF_USERS, BIAS_PRIOR_OF_ITEMS = 5.0, 2.0
FACTOR_PRIOR, WEIGHT_PRIOR = 4.0, 20.0
FACTOR_SHARE = 0.6
# Trained items are solved beside users whose vectors were fitted to them, and need a stronger prior than new ones. Of
# what a retraining wins after as many ratings again, refits win back with 4 / 8 / 16: culsh 71 / 79 / 69 % on
# MovieLens-100K and 84 / 86 / 78 % on MovieLens-1M, sgd 59 / 72 / 59 % and 83 / 85 / 75 %.
FACTOR_PRIOR_OF_TRAINED_ITEMS = 8.0
# Descent leaves both sides of a product alike, so users of models of ratings are expected to lie where trained items
# do: P is SPREAD_PRIOR over the mean of v vᵀ, and holds u back most in directions in which items hardly differ.
SHARE_BESIDE_SPREAD, SPREAD_PRIOR = 0.4, 0.2
SPREAD_FLOOR = 0.01  # of the mean over all directions, added to each: items may be few

MAX_RATINGS_OF_USERS = 4096  # the newest; older ones only count as seen
MAX_NEGATIVES = 1024  # bounds what a refit of a busy user costs; NDCG@10 of refitted users .215 with all, .213 with 512
MAX_RATERS = 1024  # drawn by key; what a refit of a new item costs is bounded by it

# Implicit models. The direction of a user's vector decides what is recommended and is there after two steps. A new
# item is ranked against trained ones, so the length of its vector counts as well: more steps, less ridge.
STEPS_OF_USERS, STEPS_OF_ITEMS = 2, 5
ITEM_SHARE, ITEM_PRIOR = 0.1, 1.0
MAX_RATERS_IMPLICIT = 256


class Rules(NamedTuple):
    """Constants of the refits; `n` counts the observations that a term takes part in.

    Attributes:
        factor, factor_prior: the ridge of factors is factor · n + factor_prior,
        bias, bias_prior: and so for the bias,
        weight, weight_prior: and for W and C of an item,
        weight_unit: times this for W, which multiplies residuals.
        baseline_prior: ratings of average value that a user's baseline is shrunk by.
        max_ratings: that a refit reads.
        n_negatives: draws beside each, implicit models,
        max_negatives: and how many there are about in all: beyond it fewer are drawn and each counts for several.
        n_steps: Newton steps, implicit models.
        seed: of the draws.
        spread: P (F, F), float64, which the ridge of factors has beside; of its upper triangle. (0, 0) for none.
    """

    factor: float
    factor_prior: float
    bias: float
    bias_prior: float
    weight: float
    weight_prior: float
    weight_unit: float
    baseline_prior: float
    max_ratings: int
    n_negatives: int
    max_negatives: int
    n_steps: int
    seed: np.uint64
    spread: NDArray[np.float64]


class Objective(NamedTuple):
    """What ALS or NMF minimizes, row by row, beside a fixed other side: see `gpu.training.als` and `gpu.training.nmf`.

    Attributes:
        is_implicit: whether every pair counts.
        is_nonnegative: whether a row has no number below 0, and a pair without a rating counts as a 0 (NMF).
        has_biases: whether a row has one.
        alpha: α; 0 for explicit models and NMF.
        mean: μ.
        regularization: λ.
        exponent: ν; 1 for explicit models.
        prior: λ0.
        unit: factors of models of ratings have the ridge ρ · `unit` and biases ρ: training solved multiples of it.
    """

    is_implicit: bool
    is_nonnegative: bool
    has_biases: bool
    alpha: float
    mean: float
    regularization: float
    exponent: float
    prior: float
    unit: float

    def ridges(self, counts: NDArray[np.integer], n_others: int) -> NDArray[np.float64]:
        """ρ of rows with `counts` ratings where `n_others` rows of the other side have some."""
        return ridges(counts, n_others, self.alpha, self.regularization, self.exponent, self.prior)


def ridges(
    counts: NDArray[np.integer], n_others: int, alpha: float, regularization: float, exponent: float, prior: float
) -> NDArray[np.float64]:
    """ρ = λ (n + N/α)^ν + λ0 of rows with `counts` ratings.

    N, `n_others`, is how many rows of the other side have ratings; N/α is 0 for α = 0.
    """
    unrated = n_others / alpha if alpha else 0.0
    return np.asarray(regularization * (counts + unrated) ** exponent + prior, dtype=np.float64)


def objective_of(model: Model) -> Objective:
    """What a model of ALS or NMF was trained to minimize."""
    params, known = model.params, model.calibration
    if params.is_nonnegative:
        return Objective(True, True, False, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0)
    if params.is_implicit:
        exponent = cast("AlsImplicitParams", params).regularization_exponent
        return Objective(True, False, False, known.alpha, 0.0, known.regularization, exponent, known.prior, 1.0)
    explicit = cast("AlsParams", params)
    ridge = explicit.regularization
    return Objective(False, False, explicit.biases, 0.0, model.mean, ridge, 1.0, known.prior, known.unit)


def learned_values(model: Model, values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """What a model of ALS or NMF learns of ratings (B,): (what stands for each, whether it says anything)."""
    if model.params.has_values:
        values = signals(values, model.calibration)
        return values, values != 0
    values = np.clip(values, *model.learned_scale).astype(np.float32, copy=False)
    if model.params.is_nonnegative:
        return np.minimum(values, np.float32(model.scale[1])), values > 0
    return values, np.ones(len(values), dtype=np.bool_)


def user_rules(params: GradientParams, unit: float = 1.0) -> Rules:
    """Rules for users of models trained with `params` on ratings in multiples of `unit`.

    Refits read the ratings themselves, beside which factors are √`unit` times as long: so their ridge is `unit` times
    that of training, and that of W, which stays while residuals grow, `unit`² times.
    """
    return Rules(
        factor=unit * FACTOR_SHARE * params.regularization,
        factor_prior=unit * FACTOR_PRIOR,
        bias=params.ridge_of_biases,
        bias_prior=BIAS_PRIOR_OF_USERS,
        weight=params.ridge_of_weights,
        weight_prior=WEIGHT_PRIOR,
        weight_unit=unit**2,
        baseline_prior=PRIOR,
        max_ratings=MAX_RATINGS_OF_USERS,
        n_negatives=params.n_absences,
        max_negatives=MAX_NEGATIVES,
        n_steps=STEPS_OF_USERS,
        seed=np.uint64(params.seed),
        spread=np.zeros((0, 0)),
    )


def beside_items(
    rules: Rules, params: GradientParams, gram: NDArray[np.float64], n_items: int, unit: float = 1.0
) -> Rules:
    """Rules for users, with P for `n_items` trained items whose Σ v vᵀ has the upper triangle of `gram` (F, F)."""
    spread = (np.triu(gram) + np.triu(gram, 1).T) / max(n_items, 1)
    mean = float(np.trace(spread)) / len(gram)
    if not mean:
        return rules
    inverse = np.linalg.inv(spread + SPREAD_FLOOR * mean * np.eye(len(gram))).astype(np.float64)
    share = unit * SHARE_BESIDE_SPREAD * params.regularization
    return rules._replace(factor=share, factor_prior=0.0, spread=unit**2 * SPREAD_PRIOR * inverse)


def trained_item_rules(params: GradientParams, unit: float = 1.0) -> Rules:
    """Rules for trained items whose ratings have changed; see `user_rules`."""
    return item_rules(params, unit)._replace(factor_prior=unit * FACTOR_PRIOR_OF_TRAINED_ITEMS)


def item_rules(params: GradientParams, unit: float = 1.0) -> Rules:
    """Rules for items newer than a model trained with `params`; see `user_rules`."""
    rules = user_rules(params, unit)._replace(bias_prior=BIAS_PRIOR_OF_ITEMS, max_ratings=MAX_RATERS)
    if not params.n_absences:
        return rules
    return rules._replace(
        factor=ITEM_SHARE * params.regularization,
        factor_prior=ITEM_PRIOR,
        weight=ITEM_SHARE * params.ridge_of_weights,
        weight_prior=ITEM_PRIOR,
        max_ratings=MAX_RATERS_IMPLICIT,
        n_steps=STEPS_OF_ITEMS,
    )
