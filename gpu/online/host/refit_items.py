"""Refits of items newer than the snapshot, on the host ([004] Alg. 4 in closed form; see `gpu.online.model`).

An observation of item j is one of its raters, user i. Its regressors, of dimension D = F + 1 + 2K, are x_i = [u_i; 1;
|R|^-½ (r_ik − b̄_ik) for k ∈ R(i;j); |N|^-½ for k ∈ N(i;j)], and its target is r_ij − μ − b_i. Implicit models add
absences: for each rater who likes the item, users drawn from those who have not rated it.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.base.host.forms import serial_and_parallel
from gpu.data.host_arena import Int
from gpu.data.host_bounds import learned
from gpu.data.host_evidence import merit
from gpu.data.host_rating_table import find
from gpu.data.host_solve import BATCH, LinearSystem, add_observations, solve
from gpu.data.ratings import Rows
from gpu.data.refit_rules import Rules
from gpu.data.views import NO_WEIGHTS, Arrays
from gpu.online.host.refit_users import MAX_DRAWS, curvature, dot, draw, sigmoid


class UserPool(NamedTuple):
    """Users whose absence can be drawn.

    Attributes:
        users: int64 (n,), rows of the trained users, sorted by key.
        keys: uint64 (n,), their keys, ascending.
    """

    users: NDArray[np.int64]
    keys: NDArray[np.uint64]


class UserGroups(NamedTuple):
    """Users of each of B items.

    Attributes:
        users: int32 or int64, rows of users, item by item.
        bounds: int64 (B + 1,), item b has the users `bounds[b]` to `bounds[b + 1]`.
        weights: float32, what each of them weighs (`gpu.data.decay`); empty: all weigh 1.
    """

    users: NDArray[Any]
    bounds: NDArray[np.int64]
    weights: NDArray[np.float32] = NO_WEIGHTS


class Absences(NamedTuple):
    """Users who are counted as absent.

    Attributes:
        users: int64 (n,).
        likers: int64 (n,), positions of the likers for whom they were drawn.
    """

    users: NDArray[np.int64]
    likers: NDArray[np.int64]


class Observers(NamedTuple):
    """The users from whom one item learns.

    Attributes:
        item: row of the item.
        users: int64 (n,), its raters, then the users who are counted as absent.
        n_raters: number of its raters.
        weights: float32 (n,), what each of them weighs (`gpu.data.decay`); empty: all weigh 1.
    """

    item: Int
    users: NDArray[np.int64]
    n_raters: Int
    weights: NDArray[np.float32]


@called_for(Use.ITEMS)
@njit(cache=True, nogil=True)
def sampled(
    item_key: np.uint64, raters: NDArray[np.int32], user_keys: NDArray[np.uint64], rules: Rules
) -> NDArray[np.int32]:
    """The raters that a refit reads: all, or `max_ratings` drawn by key; ascending."""
    if len(raters) <= rules.max_ratings:
        return raters
    words = np.empty(len(raters), dtype=np.uint64)
    for n in range(len(raters)):
        words[n] = draw(rules.seed, item_key, user_keys[raters[n]], 0)
    read: NDArray[np.int32] = raters[words < np.sort(words)[rules.max_ratings]]
    return read


@njit(cache=True, nogil=True)
def rating_of(user: Int, item: Int, rows: Rows) -> np.float32:
    """The rating of `item` by `user`, who has rated it."""
    value: np.float32 = rows.values[find(rows.items, rows.starts[user], rows.lengths[user], item)]
    return value


@called_for(Use.ABSENCES)
@njit(cache=True, nogil=True)
def likers(item: Int, read: NDArray[np.int32], rows: Rows, middle: np.float32, lift: np.float32) -> NDArray[np.int32]:
    """The raters in `read` who like the item, in the same order; `middle` and `lift` as in `gpu.data.views.Arrays`."""
    users, n = np.empty_like(read), 0
    for user in read:
        if merit(rating_of(user, item, rows), lift) >= middle:
            users[n] = user
            n += 1
    return users[:n]


@njit(cache=True, nogil=True)
def observe(
    row: NDArray[np.float64], counts: NDArray[np.int64], item: Int, user: Int, rows: Rows, arrays: Arrays
) -> None:
    """Write x_i to `row` (D,), and add 1 to `counts` (D,) for each term that takes part."""
    n_factors, n_neighbors = arrays.user_factors.shape[1], arrays.neighbors.shape[1]
    for f in range(n_factors):
        row[f] = arrays.user_factors[user, f]
    row[n_factors] = 1
    explicit, implicit = n_factors + 1, n_factors + 1 + n_neighbors
    row[explicit:] = 0
    start, length = rows.starts[user], rows.lengths[user]
    n_rated, n_unrated = 0, 0
    for k in range(n_neighbors):
        other = arrays.neighbors[item, k]
        if other >= np.uint32(len(arrays.item_bias)):
            continue
        position = find(rows.items, start, length, np.int64(other))
        if position < start + length and rows.items[position] == other:
            if arrays.is_implicit:
                row[explicit + k] = 1.0 if merit(rows.values[position], arrays.lift) >= arrays.middle else -1.0
            else:
                baseline = arrays.mean + arrays.user_baseline[user] + arrays.item_baseline[other]
                row[explicit + k] = learned(rows.values[position], arrays) - baseline
            counts[explicit + k] += 1
            n_rated += 1
        else:
            row[implicit + k] = 1
            counts[implicit + k] += 1
            n_unrated += 1
    for k in range(n_neighbors):
        row[explicit + k] /= np.sqrt(max(n_rated, 1))
        row[implicit + k] /= np.sqrt(max(n_unrated, 1))
    counts[:explicit] += 1


@njit(cache=True, nogil=True)
def draw_absent(
    item_key: np.uint64, rater_key: np.uint64, number: Int, raters: NDArray[np.int32], pool: UserPool, seed: np.uint64
) -> Int:
    """A user of `pool` who is not in `raters` (ascending): the first at or after a random key; −1 if no draw hits one.

    Keys, not positions, are drawn, so that a user who leaves the pool changes only the draws that would hit them.
    """
    for attempt in range(MAX_DRAWS):
        word = draw(seed, item_key, rater_key, number * MAX_DRAWS + attempt)
        user: Int = pool.users[np.searchsorted(pool.keys, word) % len(pool.users)]
        position = find(raters, 0, len(raters), user)
        if position == len(raters) or raters[position] != user:
            return user
    return -1


@called_for(Use.ABSENCES)
@njit(cache=True, nogil=True)
def draw_absences(
    item_key: np.uint64,
    likers: NDArray[np.int32],
    raters: NDArray[np.int32],
    user_keys: NDArray[np.uint64],
    pool: UserPool,
    rules: Rules,
) -> Absences:
    """Users whose absence counts against the item: `n_negatives` for each of `likers`, none of them in `raters`."""
    absent = np.empty(len(likers) * rules.n_negatives, dtype=np.int64)
    drawn_for = np.empty_like(absent)
    n = 0
    for position in range(len(likers) if len(pool.users) else 0):
        for number in range(rules.n_negatives):
            user = draw_absent(item_key, user_keys[likers[position]], number, raters, pool, rules.seed)
            if user >= 0:
                absent[n], drawn_for[n] = user, position
                n += 1
    return Absences(absent[:n], drawn_for[:n])


@njit(cache=True, nogil=True)
def ridge_of(term: Int, n: Int, n_factors: Int, n_neighbors: Int, rules: Rules) -> float:
    """Ridge of a term that takes part in `n` observations."""
    if term < n_factors:
        return rules.factor * n + rules.factor_prior
    if term == n_factors:
        return rules.bias * n + rules.bias_prior
    unit = rules.weight_unit if term <= n_factors + n_neighbors else 1.0
    return unit * (rules.weight * n + rules.weight_prior)


@njit(cache=True, nogil=True)
def step(
    solution: NDArray[np.float64], system: LinearSystem, observers: Observers, rows: Rows, arrays: Arrays
) -> NDArray[np.int64]:
    """Add all observations to the system for the step from `solution`.

    Returns:
        int64 (D,), number of observations in which each term takes part.
    """
    (item, users, n_raters, of_observers), (matrix, right) = observers, system
    counts = np.zeros(len(solution), dtype=np.int64)
    observed, weights, targets = np.zeros((BATCH, len(solution))), np.zeros(BATCH), np.zeros(BATCH)
    for first in range(0, len(users), BATCH):
        weights[:], targets[:], observed[:] = 0, 0, 0
        for b in range(min(BATCH, len(users) - first)):
            user = users[first + b]
            observe(observed[b], counts, item, user, rows, arrays)
            score = arrays.mean + arrays.user_bias[user] + dot(solution, observed[b])
            if arrays.is_implicit:
                expected = sigmoid(score)
                is_like = first + b < n_raters and merit(rating_of(user, item, rows), arrays.lift) >= arrays.middle
                targets[b], weights[b] = (1.0 if is_like else 0.0) - expected, curvature(score)
            else:
                targets[b], weights[b] = learned(rating_of(user, item, rows), arrays) - score, 1.0
            if len(of_observers):
                targets[b] *= of_observers[first + b]
                weights[b] *= of_observers[first + b]
        add_observations(matrix, right, observed, weights, targets)
    return counts


@njit(cache=True, nogil=True)
def fit_item(
    item: Int,
    raters: NDArray[np.int32],
    absent: NDArray[np.int64],
    rows: Rows,
    arrays: Arrays,
    rules: Rules,
    weights: NDArray[np.float32] = NO_WEIGHTS,
) -> NDArray[np.float64]:
    """[v; b̂; w; c] (D,) of a new item: ridge regression, or `n_steps` Newton steps from zero for implicit models."""
    n_factors, n_neighbors = arrays.user_factors.shape[1], arrays.neighbors.shape[1]
    n_terms = n_factors + 1 + 2 * n_neighbors
    observers = Observers(item, np.concatenate((raters.astype(np.int64), absent)), len(raters), weights)
    solution, matrix, right = np.zeros(n_terms), np.empty((n_terms, n_terms)), np.empty(n_terms)
    for _ in range(rules.n_steps if arrays.is_implicit else 1):
        matrix[:], right[:] = 0, 0
        counts = step(solution, LinearSystem(matrix, right), observers, rows, arrays)
        for a in range(n_terms):
            ridge = ridge_of(a, counts[a], n_factors, n_neighbors, rules)
            matrix[a, a] += ridge
            right[a] -= ridge * solution[a]
        solve(matrix, right)
        for a in range(n_terms):
            solution[a] += right[a]
    return solution


@njit(cache=True, nogil=True)
def refit_item(
    item: Int,
    raters: NDArray[np.int32],
    absent: NDArray[np.int64],
    rows: Rows,
    arrays: Arrays,
    rules: Rules,
    weights: NDArray[np.float32],
) -> None:
    """Refit one item over its raters and drawn absences, in place in `arrays`; without raters it gets zeros.

    `weights` are those of the raters, then of the absences; empty: all weigh 1.
    """
    n_factors, n_neighbors = arrays.user_factors.shape[1], arrays.neighbors.shape[1]
    solution = np.zeros(n_factors + 1 + 2 * n_neighbors)
    if len(raters):
        solution = fit_item(item, raters, absent, rows, arrays, rules, weights)
    for f in range(n_factors):
        arrays.item_factors[item, f] = solution[f]
    arrays.item_bias[item] = solution[n_factors]
    for k in range(n_neighbors):
        arrays.explicit_weights[item, k] = solution[n_factors + 1 + k]
        arrays.implicit_weights[item, k] = solution[n_factors + 1 + n_neighbors + k]


def _refit_items(
    items: NDArray[np.int64],
    raters: Annotated[UserGroups, {"users": np.int32}],
    absent: Annotated[UserGroups, {"users": np.int64}],
    rows: Rows,
    arrays: Arrays,
    rules: Rules,
) -> None:
    """`refit_item` for `items` (B,), each with its `raters` and its drawn `absent` users."""
    for b in prange(len(items)):
        own = slice(raters.bounds[b], raters.bounds[b + 1])
        drawn = slice(absent.bounds[b], absent.bounds[b + 1])
        weights = np.concatenate((raters.weights[own], absent.weights[drawn]))  # slices of empty arrays are empty
        refit_item(items[b], raters.users[own], absent.users[drawn], rows, arrays, rules, weights)


refit_items, refit_items_parallel = serial_and_parallel(_refit_items)
called_for(Use.ITEMS)(refit_items)
