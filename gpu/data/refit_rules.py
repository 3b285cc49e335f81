"""Constants of online learning: the regularization of refits of single users and items.

Refits of models trained by ALS or NMF minimize the objective of the training (`Objective`).

All other refits follow `Rules`: their ridge, in the units of training (`gpu.data.calibration`), is λ n + λ0. λ is
that of the model, and n counts the ratings that a term takes part in. λ0 keeps users with one rating near the average.
A row solved against a fixed other side needs only a share of the λ of training. All values were chosen on MovieLens-1M
by folding in users and items unseen in training (docs/decisions/0011).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.baselines import PRIOR
from gpu.data.evidence import amounts
from gpu.data.model import Model
from gpu.data.param_kinds import GradientParams
from gpu.data.signals import entries_of, evidence

PARALLEL_FROM = 64  # refits in one call without a budget; fewer are not worth waking threads

# Smallest ridge, as a share of the mean diagonal, and its absolute minimum. With λ = 0 a row with few ratings has many
# solutions; a tiny ridge picks the shortest one.
SMALLEST_RIDGE, TINY = 1e-10, 1e-300

# Non-negative rows are solved by sweeps over their columns: at most `N_SWEEPS`, or until the largest change in a sweep
# is `TOLERANCE` of the largest number.
N_SWEEPS, TOLERANCE = 1000, 1e-9

BIAS_PRIOR_OF_USERS, BIAS_PRIOR_OF_ITEMS = 5.0, 2.0
NO_BIAS = 1e12  # ratings; λ0 of a bias that stays 0, in a model without biases
FACTOR_PRIOR, WEIGHT_PRIOR = 4.0, 20.0
FACTOR_SHARE = 0.6
# λ0 of trained items. They are solved against users whose vectors were fitted to them, so they need a stronger prior
# than new items. Share of the gain of a retraining, after as many ratings again, that refits reach with 4 / 8 / 16:
# culsh 71 / 79 / 69 % on MovieLens-100K and 84 / 86 / 78 % on MovieLens-1M, sgd 59 / 72 / 59 % and 83 / 85 / 75 %.
FACTOR_PRIOR_OF_TRAINED_ITEMS = 8.0
# Trained items of ALS read users as SHRINKING λ would have left them, and their factors have a share κ of their ridge.
# Share of the gain of a retraining that is won back with 1 and 1, and with these, if a quarter of the users rate on:
# 36 and 57 % on MovieLens-100K, 29 and 75 % on MovieLens-1M, 58 and 85 % on Jester; Book-Crossing does not change.
SHRINKING, RIDGE_OF_TRAINED_ITEMS = 8.0, 0.65
# Descent makes the factors of users and items alike, so the trained items are the prior of users in models of ratings:
# P is SPREAD_PRIOR times the inverse of the mean of v vᵀ. It shrinks u most in directions in which items hardly differ.
SHARE_BESIDE_SPREAD, SPREAD_PRIOR = 0.4, 0.2
SPREAD_FLOOR = 0.01  # share of the mean over all directions, added to each direction, since items may be few

MAX_RATINGS_OF_USERS = 4096  # ratings; a refit reads the newest ones, and older ones only count as seen
MAX_NEGATIVES = 1024  # draws; bounds the refit of a busy user. NDCG@10 of refitted users: .215 with all, .213 with 512
MAX_RATERS = 1024  # raters, drawn by key; bounds the refit of a new item

# Newton steps of implicit models. The direction of a user's vector decides the list, and two steps find it. A new item
# is ranked against trained ones, so the length of its vector matters too: it takes more steps and less ridge.
STEPS_OF_USERS, STEPS_OF_ITEMS = 2, 5
ITEM_SHARE, ITEM_PRIOR = 0.1, 1.0
MAX_RATERS_IMPLICIT = 256


class Rules(NamedTuple):
    """Constants of the refits; `n` counts the observations that a term takes part in.

    Attributes:
        factor, factor_prior: the ridge of factors is factor · n + factor_prior.
        bias, bias_prior: the same for the bias.
        weight, weight_prior: the same for W and C of an item.
        weight_unit: factor of the ridge of W, since W multiplies residuals.
        baseline_prior: number of average ratings that a user's baseline is shrunk by.
        max_ratings: number of ratings that a refit reads, at most.
        n_negatives: draws for each like; implicit models.
        max_negatives: draws of a refit, about; beyond it fewer are drawn, and each counts for several.
        n_steps: Newton steps; implicit models.
        seed: seed of the draws.
        spread: P, float64 (F, F), added to the ridge of factors; only its upper triangle is read. (0, 0) for none.
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
    spread: Annotated[NDArray[np.float64], 2]


class Objective(NamedTuple):
    """Objective of one row in ALS or NMF, with the other side fixed: see `gpu.als.trainer` and `gpu.nmf.trainer`.

    Attributes:
        is_implicit: whether pairs without a rating count too.
        is_nonnegative: whether rows are non-negative, and a pair without a rating counts as a 0 (NMF).
        has_biases: whether a row has a bias.
        alpha: α; 0 for explicit models and NMF.
        mean: μ.
        regularization: λ.
        exponent: ν; 1 for explicit models.
        prior: λ0.
        unit: the ridge is ρ · `unit` for factors and ρ for biases, since training learned multiples of `unit`.
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
        """ρ of rows with `counts` (B,) ratings, if `n_others` rows of the other side have ratings."""
        return ridges(counts, n_others, self.alpha, self.regularization, self.exponent, self.prior)


def ridges(
    counts: NDArray[np.integer], n_others: int, alpha: float, regularization: float, exponent: float, prior: float
) -> NDArray[np.float64]:
    """ρ = λ (n + N/α)^ν + λ0 of rows with `counts` (B,) ratings.

    N is `n_others`, the number of rows of the other side that have ratings; N/α is 0 for α = 0.
    """
    unrated = n_others / alpha if alpha else 0.0
    return np.asarray(regularization * (counts + unrated) ** exponent + prior, dtype=np.float64)


def objective_of(model: Model) -> Objective:
    """What a model of ALS or NMF was trained to minimize."""
    params, data = model.params, model.calibration
    if params.is_nonnegative:
        return Objective(True, True, False, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0)
    if params.is_implicit:
        exponent = params.regularization_exponent
        return Objective(True, False, False, data.alpha, 0.0, data.regularization, exponent, data.prior, 1.0)
    ridge = params.regularization or 0.0
    return Objective(False, False, params.biases, 0.0, model.mean, ridge, 1.0, data.prior, data.unit)


def learned_values(
    model: Model, values: NDArray[np.float32], weights: NDArray[np.float32] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """(values that ALS or NMF learns, float32 (M,); how many of them each rating has, int64 (B,)).

    A rating has one, two where it has evidence for and against (`gpu.data.calibration.entries_of`), or none.

    Args:
        values: ratings and events of B pairs, float32 (B,), see `gpu.data.evidence`.
        weights: of the ratings, float32 (B,), see `gpu.data.decay`. Default: 1.
    """
    if model.params.has_values:
        likes, dislikes = evidence(values, model.calibration)
        return entries_of(*((likes, dislikes) if weights is None else (likes * weights, dislikes * weights)))
    if model.params.is_nonnegative:
        values = np.minimum(amounts(values), np.float32(model.scale[1])).astype(np.float32, copy=False)
        counts = values > 0
        return values[counts], counts.astype(np.int64)
    values = np.clip(values, *model.learned_scale).astype(np.float32, copy=False)
    return values, np.ones(len(values), dtype=np.int64)


def user_rules(params: GradientParams, unit: float = 1.0) -> Rules:
    """Rules for users of models trained with `params` on ratings in multiples of `unit`.

    Refits read the ratings themselves, for which factors are √`unit` times as long. So the ridge of factors is `unit`
    times that of training. The ridge of W is `unit`² times as large, since W stays the same while residuals grow.
    """
    return Rules(
        factor=unit * FACTOR_SHARE * params.regularization,
        factor_prior=unit * FACTOR_PRIOR,
        bias=params.ridge_of_biases,
        bias_prior=BIAS_PRIOR_OF_USERS if params.biases else NO_BIAS,
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
    """Rules for users with P of `n_items` trained items; `gram` (F, F) has the upper triangle of their Σ v vᵀ."""
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
    rules = user_rules(params, unit)._replace(
        factor=unit * FACTOR_SHARE * params.ridge_of_items,
        bias_prior=BIAS_PRIOR_OF_ITEMS if params.biases else NO_BIAS,
        max_ratings=MAX_RATERS,
    )
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
