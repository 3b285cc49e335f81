"""Refits of single users on the host ([004] Alg. 4 in closed form; see `gpu.online.model`).

A refit reads only the items of a model and the ratings of one user. It keeps no sum from earlier refits, and runs over
the ratings in the order of the items. So the result depends on the present ratings, not on the order of their arrival.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.base.host.forms import serial_and_parallel
from gpu.data.host_arena import Int
from gpu.data.host_bounds import learned
from gpu.data.host_evidence import merit
from gpu.data.host_random import GOLDEN, mix
from gpu.data.host_rating_table import OrderedRows, find
from gpu.data.host_solve import BATCH, LinearSystem, add_observations, solve
from gpu.data.refit_rules import Rules
from gpu.data.views import NO_WEIGHTS, Arrays

UNRATED = np.float32(-1e30)
MAX_DRAWS = 64  # attempts at one negative; a user who has rated nearly all items gets fewer negatives
CHUNK = 8  # users that one thread refits one after the other


class ItemPool(NamedTuple):
    """Items that refits of users read and draw.

    Attributes:
        items: int64, rows of the trained items, sorted by key.
        is_trained: bool (I,).
        keys: uint64 (I,), keys of all items.
    """

    items: NDArray[np.int64]
    is_trained: NDArray[np.bool_]
    keys: NDArray[np.uint64]


class UserRow(NamedTuple):
    """Ratings of one user.

    Attributes:
        key: the user's key; draws depend on it.
        rated: int32, all items of the user, ascending; never drawn.
        items: int32 (n,), the items whose ratings the refit learns, a part of `rated`.
        values: float32 (n,), their ratings.
        weights: float32 (n,), what they weigh (`gpu.data.decay`); empty: all weigh 1.
    """

    key: np.uint64
    rated: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.float32]
    weights: NDArray[np.float32] = NO_WEIGHTS


class UserWeights(NamedTuple):
    """What the ratings of B users weigh (`gpu.data.decay`).

    Attributes:
        values: float32 (n,), weights of all their ratings, user by user, in the order of their rows.
        bounds: int64 (B + 1,), user b has `values[bounds[b] : bounds[b + 1]]`; all 0: all ratings weigh 1.
    """

    values: NDArray[np.float32]
    bounds: NDArray[np.int64]


class Samples(NamedTuple):
    """Observations of one refit; S samples.

    Attributes:
        items: int64 (S,), item rows.
        offsets: float64 (S,), the part of the score that the refit does not change.
        targets: float64 (S,), rating; for implicit models 1 for a like, 0 for a dislike or a drawn item.
        counts: float64 (S,), observations that each sample stands for: a drawn item may stand for several draws.
        weights: float64 (S,), what each of them weighs (`gpu.data.decay`); a drawn item weighs as much as its like.
    """

    items: NDArray[np.int64]
    offsets: NDArray[np.float64]
    targets: NDArray[np.float64]
    counts: NDArray[np.float64]
    weights: NDArray[np.float64]


@njit(cache=True, nogil=True)
def draw(seed: np.uint64, owner: np.uint64, other: np.uint64, number: Int) -> np.uint64:
    """Random word `number` of a pair of keys; it depends on the arguments alone."""
    return mix(mix(mix(owner ^ mix(seed)) ^ other) + np.uint64(number + 1) * GOLDEN)


@njit(cache=True, nogil=True)
def newest(
    items: NDArray[np.int32],
    values: NDArray[np.float32],
    positions: NDArray[np.int64],
    n: Int,
    weights: NDArray[np.float32] = NO_WEIGHTS,
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """(items, values, weights) of the `n` ratings with the highest positions, ascending by item."""
    if len(items) <= n:
        return items, values, weights
    first = np.partition(positions, len(positions) - n)[len(positions) - n]
    is_new = positions >= first
    return items[is_new], values[is_new], weights[is_new] if len(weights) else weights


@njit(cache=True, nogil=True)
def shrunk_mean(values: NDArray[np.float32], arrays: Arrays, rules: Rules) -> float:
    """b̄_i of a user with these ratings: their mean distance from μ, shrunk to 0; 0 for implicit models."""
    if arrays.is_implicit:
        return 0.0
    total = 0.0
    for value in values:
        total += learned(value, arrays) - arrays.mean
    return total / (len(values) + rules.baseline_prior)


@njit(cache=True, nogil=True)
def fill_line(
    line: NDArray[np.float32], items: NDArray[np.int32], values: NDArray[np.float32], baseline: float, arrays: Arrays
) -> None:
    """Write the residuals of a user's ratings into a `line` (I,) of `UNRATED`."""
    for n in range(len(items)):
        expected = arrays.mean + baseline + arrays.item_baseline[items[n]]
        if arrays.is_implicit:
            line[items[n]] = np.float32(1) if merit(values[n], arrays.lift) >= arrays.middle else np.float32(-1)
        else:
            line[items[n]] = np.float32(learned(values[n], arrays) - expected)


@njit(cache=True, nogil=True)
def neighbor_terms(item: Int, line: NDArray[np.float32], arrays: Arrays) -> float:
    """Both neighbor sums of [004] eq. 1 for `item`, from a user's `line` of residuals."""
    explicit, implicit = 0.0, 0.0
    n_rated, n_unrated = 0, 0
    for k in range(arrays.neighbors.shape[1]):
        other = arrays.neighbors[item, k]
        if other >= np.uint32(len(line)):
            continue
        if line[other] != UNRATED:
            explicit += line[other] * arrays.explicit_weights[item, k]
            n_rated += 1
        else:
            implicit += arrays.implicit_weights[item, k]
            n_unrated += 1
    terms: float = explicit / np.sqrt(max(n_rated, 1)) + implicit / np.sqrt(max(n_unrated, 1))
    return terms


@njit(cache=True, nogil=True)
def draw_unrated(
    key: np.uint64, item_key: np.uint64, number: Int, rated: NDArray[np.int32], pool: ItemPool, seed: np.uint64
) -> Int:
    """A uniformly drawn item of `pool` that is not in `rated` (ascending); −1 if no draw hits one."""
    for attempt in range(MAX_DRAWS):
        word = draw(seed, key, item_key, number * MAX_DRAWS + attempt)
        item: Int = pool.items[np.int64(((word >> np.uint64(32)) * np.uint64(len(pool.items))) >> np.uint64(32))]
        position = find(rated, 0, len(rated), item)
        if position == len(rated) or rated[position] != item:
            return item
    return -1


@njit(cache=True, nogil=True)
def samples_of(user: UserRow, line: NDArray[np.float32], arrays: Arrays, pool: ItemPool, rules: Rules) -> Samples:
    """The samples of a user's refit: ratings of trained items and, for implicit models, draws for each like.

    Args:
        line: (I,), the residuals of the user, see `fill_line`.
    """
    items, values = user.items, user.values
    n_draws = min(rules.n_negatives, max(1, rules.max_negatives // max(1, len(items)))) if arrays.is_implicit else 0
    chosen = np.empty((1 + n_draws) * len(items), dtype=np.int64)
    targets, counts, weights = np.empty(len(chosen)), np.ones(len(chosen)), np.ones(len(chosen))
    n = 0
    for p in range(len(items)):
        if not pool.is_trained[items[p]]:
            continue
        is_like = merit(values[p], arrays.lift) >= arrays.middle
        weight = float(user.weights[p]) if len(user.weights) else 1.0
        weights[n] = weight
        chosen[n], targets[n] = items[p], is_like if arrays.is_implicit else learned(values[p], arrays)
        n += 1
        for number in range(n_draws if is_like else 0):
            item = draw_unrated(user.key, pool.keys[items[p]], number, user.rated, pool, rules.seed)
            if item >= 0:
                chosen[n], targets[n], counts[n], weights[n] = item, 0.0, rules.n_negatives / n_draws, weight
                n += 1
    offsets = np.empty(n)
    for s in range(n):
        offsets[s] = arrays.mean + arrays.item_bias[chosen[s]] + neighbor_terms(chosen[s], line, arrays)
    return Samples(chosen[:n], offsets, targets[:n], counts[:n], weights[:n])


@njit(cache=True, nogil=True)
def set_ridge(matrix: NDArray[np.float64], n: float, n_factors: Int, rules: Rules) -> None:
    """Set the matrix (F + 1, F + 1) of a user's system to its ridge."""
    matrix[:] = 0
    for a in range(len(rules.spread)):
        for c in range(a, len(rules.spread)):
            matrix[a, c] = rules.spread[a, c]
    for f in range(n_factors):
        matrix[f, f] += rules.factor * n + rules.factor_prior
    matrix[n_factors, n_factors] = rules.bias * n + rules.bias_prior


@njit(cache=True, nogil=True)
def sigmoid(score: float) -> float:
    """Probability of log-odds `score`."""
    probability: float = 1 / (1 + np.exp(-score))
    return probability


@njit(cache=True, nogil=True)
def curvature(score: float) -> float:
    """Weight of an observation in a Newton step of the cross-entropy: (σ(x) − ½) / x.

    This parabola bounds the loss from above. With σ(1 − σ), which vanishes for large scores, a step could diverge.
    """
    if abs(score) < 1e-3:
        return 0.25
    return (sigmoid(score) - 0.5) / score


@njit(cache=True, nogil=True)
def dot(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Inner product, summed in order."""
    total = 0.0
    for n in range(len(one)):
        total += one[n] * other[n]
    return total


@njit(cache=True, nogil=True)
def step(
    solution: NDArray[np.float64], system: LinearSystem, rows: NDArray[np.float64], samples: Samples, arrays: Arrays
) -> None:
    """Add all samples to the system for the step from `solution`: x = [v_j; 1], and the error of the score there.

    Args:
        rows: work space (BATCH, F + 1).
    """
    n_factors, (matrix, right) = arrays.item_factors.shape[1], system
    weights, targets = np.zeros(BATCH), np.zeros(BATCH)
    for first in range(0, len(samples.items), BATCH):
        weights[:], targets[:], rows[:] = 0, 0, 0
        for b in range(min(BATCH, len(samples.items) - first)):
            s = first + b
            for f in range(n_factors):
                rows[b, f] = arrays.item_factors[samples.items[s], f]
            rows[b, n_factors] = 1
            score = samples.offsets[s] + dot(solution, rows[b])
            expected = sigmoid(score) if arrays.is_implicit else score
            weight = samples.counts[s] * samples.weights[s]
            targets[b] = weight * (samples.targets[s] - expected)
            weights[b] = weight * (curvature(score) if arrays.is_implicit else 1.0)
        add_observations(matrix, right, rows, weights, targets)


@njit(cache=True, nogil=True)
def fit_user(samples: Samples, arrays: Arrays, rules: Rules) -> NDArray[np.float64]:
    """[u; b] (F + 1,) fitted to the samples: by ridge regression, or by `n_steps` Newton steps for implicit models."""
    n_factors = arrays.item_factors.shape[1]
    solution, rows = np.zeros(n_factors + 1), np.empty((BATCH, n_factors + 1))
    system = LinearSystem(np.empty((n_factors + 1, n_factors + 1)), np.empty(n_factors + 1))
    for _ in range(rules.n_steps if arrays.is_implicit else 1):
        set_ridge(system.matrix, samples.counts.sum(), n_factors, rules)
        for a in range(n_factors + 1):
            system.right[a] = -system.matrix[a, a] * solution[a]
        step(solution, system, rows, samples, arrays)
        solve(system.matrix, system.right)
        for a in range(n_factors + 1):
            solution[a] += system.right[a]
    return solution


@called_for(Use.SAMPLED)
@njit(cache=True, nogil=True)
def fold_in(
    user: UserRow, line: NDArray[np.float32], arrays: Arrays, pool: ItemPool, rules: Rules
) -> tuple[NDArray[np.float64], float]:
    """([u; b] (F + 1,), b̄_i) of a user; `line` (I,) must be all `UNRATED`, and is so again on return."""
    baseline = shrunk_mean(user.values, arrays, rules)
    fill_line(line, user.items, user.values, baseline, arrays)
    samples = samples_of(user, line, arrays, pool, rules)
    for item in user.items:
        line[item] = UNRATED
    return fit_user(samples, arrays, rules), baseline


def _refit_users(
    users: NDArray[np.int64],
    keys: NDArray[np.uint64],
    rows: OrderedRows,
    arrays: Arrays,
    pool: ItemPool,
    rules: Rules,
    weights: UserWeights,
) -> None:
    """Refit `users` (B,) with `keys` (B,) over their newest ratings, in place in `arrays`."""
    factors, biases, baselines = arrays.user_factors, arrays.user_bias, arrays.user_baseline
    for chunk in prange((len(users) + CHUNK - 1) // CHUNK):
        line = np.full(len(arrays.item_bias), UNRATED)
        for b in range(chunk * CHUNK, min((chunk + 1) * CHUNK, len(users))):
            own = slice(rows.starts[users[b]], rows.starts[users[b]] + rows.lengths[users[b]])
            rated = rows.items[own]
            of_all = weights.values[weights.bounds[b] : weights.bounds[b + 1]]
            items, values, own_weights = newest(rated, rows.values[own], rows.positions[own], rules.max_ratings, of_all)
            row = UserRow(keys[b], rated, items, values, own_weights)
            solution, baseline = fold_in(row, line, arrays, pool, rules)
            for f in range(factors.shape[1]):
                factors[users[b], f] = solution[f]
            biases[users[b]], baselines[users[b]] = solution[-1], baseline


refit_users, refit_users_parallel = serial_and_parallel(_refit_users)
called_for(Use.USERS)(refit_users)
