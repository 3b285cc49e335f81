"""Why an item is recommended: the rated items that add most to its score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.model import Model
from gpu.rules import Rules, user_rules
from gpu.topn import residuals_of


def reasons(
    model: Model, items: NDArray[np.integer], values: NDArray[np.float32], target: int, n: int
) -> list[tuple[int, float]]:
    """Up to `n` rated items that speak for `target`, with what each adds to its score, largest first.

    Where the user has rated neighbours of the target: their terms |R|^-½ (r − b) w of [004] eq. 1. Where none of
    these speaks for it, or the model has no neighbours: the user's vector, taken apart. It is linear in the ratings,
    so each has its share in the product with the target's.

    Args:
        items, values: what the user has rated, item rows ascending, (B,).
        target: item row.

    Returns:
        (item row, contribution > 0); empty where nothing speaks for it.
    """
    baseline = _baseline(model, values, user_rules(model.params))
    residuals = residuals_of(model, items, values, baseline)
    near = _neighbour_shares(model, items, residuals, target)
    if not (near > 0).any():
        near = _factor_shares(model, items, values, target, user_rules(model.params))
    order = np.lexsort((items, -near))[:n]
    return [(int(items[place]), float(near[place])) for place in order if near[place] > 0]


def _baseline(model: Model, values: NDArray[np.float32], rules: Rules) -> float:
    """b̄_i, as a refit computes it."""
    if model.is_implicit:
        return 0.0
    return float(np.sum(values - model.mean) / (len(values) + rules.baseline_prior))


def _neighbour_shares(
    model: Model, items: NDArray[np.integer], residuals: NDArray[np.float32], target: int
) -> NDArray[np.float64]:
    """What each rated item adds through W; 0 for those that are no neighbour of the target, (B,)."""
    slots = dict(zip(model.neighbours[target].tolist(), model.explicit_weights[target].tolist(), strict=True))
    n_rated = sum(item in slots for item in items.tolist())
    weights: NDArray[np.float64] = np.array([slots.get(item, 0.0) for item in items.tolist()], dtype=np.float64)
    shares: NDArray[np.float64] = weights * residuals / np.sqrt(max(1, n_rated))
    return shares


def _factor_shares(
    model: Model, items: NDArray[np.integer], values: NDArray[np.float32], target: int, rules: Rules
) -> NDArray[np.float64]:
    """Rating x's share of z_t · [u; b] = Σ_x y_x z_tᵀ A⁻¹ z_x, with A and y of the closed form without neighbours.

    Implicit models: the first Newton step from zero, without negatives. Items that were not trained have no share.
    """
    known = model.item_trained[items]
    z = np.column_stack([model.item_factors[items[known]].astype(np.float64), np.ones(np.count_nonzero(known))])
    given = model.mean + model.item_bias[items[known]].astype(np.float64)
    expected = 1 / (1 + np.exp(-given)) if model.is_implicit else given
    errors = (1.0 if model.is_implicit else values[known]) - expected
    weights = expected * (1 - expected) if model.is_implicit else np.ones(len(errors))
    ridge = np.full(z.shape[1], rules.factor * len(z) + rules.factor_prior)
    ridge[-1] = rules.bias * len(z) + rules.bias_prior
    aim = np.append(model.item_factors[target].astype(np.float64), 0.0)  # a bias speaks for every item alike
    shares = np.zeros(len(items))
    shares[known] = errors * (z @ np.linalg.solve((z.T * weights) @ z + np.diag(ridge), aim))
    return shares
