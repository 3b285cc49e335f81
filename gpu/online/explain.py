"""Explains a recommendation by the rated items that add most to its score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.data.model import Model
from gpu.data.param_kinds import descending
from gpu.data.ratings import are_likes
from gpu.data.refit_rules import SMALLEST_RIDGE, TINY, learned_values, objective_of, user_rules
from gpu.online.host import exact
from gpu.ranking.topn import residuals_of
from gpu.ranking.weighted import weights_between, x_of

Reasons = list[tuple[int, float]]


def reasons(
    model: Model,
    items: NDArray[np.integer],
    values: NDArray[np.float32],
    targets: Sequence[int],
    n: int,
    gram: NDArray[np.float64] | None = None,
    weights: NDArray[np.float32] | None = None,
) -> list[Reasons]:
    """Up to `n` rated items with positive contributions to the score of each target, largest first.

    If the user has rated neighbors of a target, contributions are their terms |R|^-½ (r − b) w of [004] eq. 1. If no
    term is positive, or the model has no neighbors, the user's vector is decomposed: it is linear in the ratings, so
    each rating has a share in the product with the target's vector. For ALS and NMF models all shares add up to that
    product. In models with item weights contributions are x_i B_ij, and add up to the score.

    Args:
        items, values: ratings of the user, item rows ascending, (B,).
        targets: item rows.
        gram: `HostModel.gram`. Default: computed for this call.
        weights: of the ratings, float32 (B,), see `gpu.ranking.weighted.weights_by_time`. Default: 1.

    Returns:
        (item row, contribution > 0) pairs for each target; empty if no contribution is positive.
    """
    values = np.clip(values, *model.learned_scale).astype(np.float32, copy=False)
    contributions = _neighbor_shares(model, items, values, targets)
    has_none = ~(contributions > 0).any(axis=1)
    if has_none.any():
        contributions[has_none] = shares(model, items, values, np.asarray(targets)[has_none], gram, weights)
    result: list[Reasons] = []
    for line in contributions:
        best = np.lexsort((items, -line))[:n]
        result.append([(int(items[place]), float(line[place])) for place in best if line[place] > 0])
    return result


def shares(
    model: Model,
    items: NDArray[np.integer],
    values: NDArray[np.float32],
    targets: NDArray[np.integer],
    gram: NDArray[np.float64] | None = None,
    weights: NDArray[np.float32] | None = None,
) -> NDArray[np.float64]:
    """Share of each rating in v_t · u = Σ_x y_x v_tᵀ A⁻¹ z_x, for each of T targets, float64 (T, B).

    Arguments as in `reasons`. A, y and z are those of a refit without neighbors. Untrained items have no share, and
    models without refits no shares at all. The share of the bias is left out, since it is the same for every target.
    """
    result = np.zeros((len(targets), len(items)))
    if model.params.has_item_weights:
        result[:] = weights_between(model, items, np.asarray(targets)).T * x_of(model, values)
        return result * (1.0 if weights is None else weights)
    if model.params.refits == "none":
        return result
    places = np.arange(len(items))  # of the learned values
    values = np.clip(values, *model.learned_scale).astype(np.float32, copy=False)
    if model.params.refits == "exact":
        values, n_entries = learned_values(model, values, weights)
        places = np.repeat(places, n_entries)
    is_read = model.item_trained[items[places]]
    if is_read.any():
        places = places[is_read]
        read = items[places], values[is_read].astype(np.float64)
        if model.params.refits == "sampled":
            z, matrix, y = _sampled_system(model, *read, None if weights is None else weights[places])
        elif model.params.is_nonnegative:
            z, matrix, y = _nonnegative_system(model, *read, gram)
        else:
            z, matrix, y = _exact_system(model, *read, gram)
        aims = np.zeros((len(targets), z.shape[1]))
        aims[:, : model.params.width] = model.item_factors[targets]
        np.add.at(result.T, places, (z @ np.linalg.solve(matrix, aims.T)) * y[:, None])
    return result


def _neighbor_shares(
    model: Model, items: NDArray[np.integer], values: NDArray[np.float32], targets: Sequence[int]
) -> NDArray[np.float64]:
    """Term of each rated item through W, (T, B); 0 for items that are not a neighbor of the target."""
    terms = np.zeros((len(targets), len(items)))
    if not model.neighbors.shape[1]:
        return terms
    baseline = 0.0  # b̄_i, as a refit computes it
    if not model.is_implicit:
        rules = user_rules(descending(model.params), model.calibration.unit)
        baseline = float(np.sum(values - model.mean) / (len(values) + rules.baseline_prior))
    residuals = residuals_of(model, items, values, baseline)
    for position, target in enumerate(targets):
        slots = dict(zip(model.neighbors[target].tolist(), model.explicit_weights[target].tolist(), strict=True))
        n_rated = sum(item in slots for item in items.tolist())
        weights = np.array([slots.get(item, 0.0) for item in items.tolist()])
        terms[position] = weights * residuals / np.sqrt(max(1, n_rated))
    return terms


System = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]  # z (B, D), A (D, D), y (B,)


def _sampled_system(
    model: Model, items: NDArray[np.integer], values: NDArray[np.float64], by_age: NDArray[np.float32] | None
) -> System:
    """The closed form of `gpu.online.sampled`; implicit: the first Newton step from zero, without negatives."""
    rules = user_rules(descending(model.params), model.calibration.unit)
    z = np.column_stack([model.item_factors[items].astype(np.float64), np.ones(len(items))])
    given = model.mean + model.item_bias[items].astype(np.float64)
    expected = 1 / (1 + np.exp(-given)) if model.params.is_logit else given
    weights = expected * (1 - expected) if model.params.is_logit else np.ones(len(items))
    factors = np.ones(len(items)) if by_age is None else by_age.astype(np.float64)
    ridge = np.full(z.shape[1], rules.factor * len(items) + rules.factor_prior)
    ridge[-1] = rules.bias * len(items) + rules.bias_prior
    targets = are_likes(values, model.middle, model.lift) if model.params.is_logit else values
    return z, (z.T * (factors * weights)) @ z + np.diag(ridge), factors * (targets - expected)


def _exact_system(
    model: Model, items: NDArray[np.integer], values: NDArray[np.float64], gram: NDArray[np.float64] | None
) -> System:
    """The system of `gpu.online.exact`."""
    objective = objective_of(model)
    z = model.item_factors[items].astype(np.float64)
    (ridge,) = objective.ridges(np.array([len(items)]), int(model.item_trained.sum()) * model.params.is_calibrated)
    if objective.is_implicit:
        weights = objective.alpha * np.abs(values)
        matrix, y = _whole(model, gram) + (z.T * weights) @ z, np.where(values > 0, 1 + weights, 0)
    else:
        z = np.column_stack([z, np.ones(len(z))]) if objective.has_biases else z
        matrix, y = z.T @ z, values - model.mean - model.item_bias[items]
    ridges = np.full(len(matrix), max(ridge, SMALLEST_RIDGE * np.trace(matrix) / len(matrix), TINY))
    ridges[: model.params.width] *= objective.unit
    return z, matrix + np.diag(ridges), y


def _nonnegative_system(
    model: Model, items: NDArray[np.integer], values: NDArray[np.float64], gram: NDArray[np.float64] | None
) -> System:
    """The system of the factors above 0 in the refit: they alone solve a linear system; the others have no share."""
    z, matrix = model.item_factors[items].astype(np.float64), _whole(model, gram)
    ridge = max(SMALLEST_RIDGE * np.trace(matrix) / len(matrix), TINY)
    solved = exact.solved
    is_used = solved(matrix.copy(), values @ z, ridge, np.zeros(0), len(matrix), objective_of(model))[:-1] > 0
    system = np.where(np.outer(is_used, is_used), matrix, 0) + np.diag(np.where(is_used, ridge, 1))
    return z * is_used, system, values


def _whole(model: Model, gram: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """VᵀV over the trained items, (F, F)."""
    if gram is not None:
        return gram + np.triu(gram, 1).T
    trained = model.item_factors[model.item_trained].astype(np.float64)
    whole: NDArray[np.float64] = trained.T @ trained
    return whole
