"""Stochastic gradient descent with neighbor terms ([004] eq. 1 and 5) on the CPU.

A thread owns one block of users and one block of items at a time (the D × D scheme of MCULSH-MF). No two threads share
a row, so there are no locks, and the result does not depend on the number of threads. Within a block it goes user by
user. It scatters the user's residuals r − b̄ once into a dense line of length I + 1. The K neighbor residuals of each
rating are then K loads from this line.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.data.host_random import GOLDEN, mix
from gpu.data.host_terms import ONE, ZERO, clear, dot, fill, neighbor_terms
from gpu.data.ratings import Rows
from gpu.data.views import NO_WEIGHTS, Arrays, Rates, Samples

# Pairs are predicted in this many runs, whatever the number of threads.
_N_RUNS = 64


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")
def _step(user: int, item: int, error: np.float32, arrays: Arrays, rates: Rates) -> None:
    """Move both factor rows and both biases, every right-hand side from before the step."""
    u, v = arrays.user_factors, arrays.item_factors
    push, shrink = rates.step * error, ONE - rates.step * rates.regularization
    for f in range(u.shape[1]):
        old_u, old_v = u[user, f], v[item, f]
        u[user, f] = shrink * old_u + push * old_v
        v[item, f] = shrink * old_v + push * old_u
    push_bias, shrink_bias = rates.bias_step * error, ONE - rates.bias_step * rates.bias_regularization
    arrays.user_bias[user] = shrink_bias * arrays.user_bias[user] + push_bias
    arrays.item_bias[item] = shrink_bias * arrays.item_bias[item] + push_bias


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")
def _step_weights(
    item: int,
    push_rated: np.float32,
    push_unrated: np.float32,
    near: NDArray[np.float32],
    arrays: Arrays,
    rates: Rates,
) -> None:
    """Move w of the rated and c of the unrated neighbors of `item`, as `near` says."""
    w, c = arrays.explicit_weights, arrays.implicit_weights
    decay = rates.weight_step * rates.weight_regularization
    for k in range(w.shape[1]):
        w[item, k] += push_rated * near[0, k] - decay * near[1, k] * w[item, k]
    for k in range(w.shape[1]):
        c[item, k] += near[2, k] * (push_unrated - decay * c[item, k])


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _visit(
    user: int,
    group: int,
    samples: Samples,
    line: NDArray[np.float32],
    near: NDArray[np.float32],
    arrays: Arrays,
    rates: Rates,
) -> None:
    """Learn the samples of `user` in one item group."""
    for p in range(samples.cuts[user, group], samples.cuts[user, group + 1]):
        item = samples.items[p]
        terms, norm_rated, norm_unrated = neighbor_terms(item, line, arrays, near)
        score = arrays.mean + arrays.user_bias[user] + arrays.item_bias[item] + terms + dot(user, item, arrays)
        error = samples.targets[p] - (ONE / (ONE + np.exp(-score)) if arrays.is_implicit else score)
        if len(samples.weights):
            error *= samples.weights[p]
        _step(user, item, error, arrays, rates)
        push = rates.weight_step * error
        _step_weights(item, push * norm_rated, push * norm_unrated, near, arrays, rates)


@called_for(Use.TRAINING)
@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def learn_sub_step(
    rows: Rows,
    samples: Samples,
    order: NDArray[np.int32],
    bounds: NDArray[np.int64],
    shift: int,
    lines: Annotated[NDArray[np.float32], 2],
    arrays: Arrays,
    rates: Rates,
) -> None:
    """Learn one item group with each user group: a D-th of an epoch of eq. 5, in place.

    Args:
        rows: the training ratings, from which the neighbor residuals come.
        samples: what to learn, cut into D item groups.
        order: (U,) users in the order of visits; `order[bounds[d] : bounds[d + 1]]` is user group d.
        bounds: (n + 1,) for n ≤ D user groups.
        shift: user group d meets item group (d + shift) mod D.
        lines: (n, I + 1) from `lines()`; empty again on return.
        arrays: the parameters, updated in place.
        rates: step lengths and regularization.
    """
    n_groups = samples.cuts.shape[1] - 1
    n_neighbors = arrays.neighbors.shape[1]
    for d in prange(len(bounds) - 1):
        group = (d + shift) % n_groups
        near = np.empty((3, n_neighbors), np.float32)
        for x in range(bounds[d], bounds[d + 1]):
            user = order[x]
            if samples.cuts[user, group] == samples.cuts[user, group + 1]:
                continue
            if n_neighbors:
                fill(lines[d], rows, user, arrays)
            _visit(user, group, samples, lines[d], near, arrays, rates)
            if n_neighbors:
                clear(lines[d], rows, user)


@called_for(Use.TRAINING)
@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
def group_cuts(rows: Rows, bounds: NDArray[np.int32], out: Annotated[NDArray[np.int64], 2]) -> None:
    """Where each row enters item group g = [bounds[g], bounds[g + 1]): positions into `rows.items`, (U, D + 1)."""
    for user in prange(len(rows.starts)):
        start = rows.starts[user]
        row = rows.items[start : start + rows.lengths[user]]
        out[user] = start + np.searchsorted(row, bounds)


@called_for(Use.TRAINING)
@njit(parallel=True, nogil=True, cache=True)
def draw_negatives(
    rows: Rows,
    n_items: int,
    seed: int,
    epoch: int,
    middle: np.float32,
    out: Annotated[NDArray[np.int32], 2],
    first: int = 0,
) -> None:
    """Draw items that the user of each rating has not rated, uniformly, into `out` (N, s).

    The draws of the rating at position `first` + p depend only on (seed, epoch, `first` + p): they are the first s
    unrated items of its stream. With several ranks `first` is the position of a rank's first rating among all. Users
    who have rated all items get −1, and so do ratings below `middle`, since a dislike is a negative itself.
    """
    stream = mix(mix(np.uint64(seed) + GOLDEN) + np.uint64(epoch) * GOLDEN)
    n_users = len(rows.starts)
    for run in prange(_N_RUNS):
        is_rated = np.zeros(n_items, np.bool_)
        for user in range(n_users * run // _N_RUNS, n_users * (run + 1) // _N_RUNS):
            row = rows.items[rows.starts[user] : rows.starts[user] + rows.lengths[user]]
            is_rated[row] = True
            for p in range(rows.starts[user], rows.starts[user] + rows.lengths[user]):
                if rows.values[p] >= middle:
                    _draw(mix(stream + np.uint64(first + p) * GOLDEN), row, is_rated, out[p])
                else:
                    out[p] = -1
            is_rated[row] = False


@njit(nogil=True, cache=True)
def _draw(key: np.uint64, row: NDArray[np.int32], is_rated: NDArray[np.bool_], out: NDArray[np.int32]) -> None:
    """Unrated items of the stream of `key`. Drawing again is fast while the user has rated less than half of them."""
    n_items = len(is_rated)
    is_dense = 2 * len(row) > n_items
    n_choices = np.uint64(n_items - len(row) if is_dense else n_items)
    for d in range(len(out)):
        item = np.int64(-1)
        while n_choices and (item < 0 or is_rated[item]):
            key += GOLDEN
            choice = np.int64(((mix(key) >> np.uint64(32)) * n_choices) >> np.uint64(32))
            item = _nth_unrated(row, choice) if is_dense else choice
        out[d] = item


@njit(nogil=True, cache=True)
def _nth_unrated(row: NDArray[np.int32], n: np.int64) -> np.int64:
    """The n-th item, from 0, that an ascending row does not hold: n plus the number of held items before it."""
    low, high = np.int64(0), np.int64(len(row))
    while low < high:
        middle = (low + high) // 2
        if row[middle] - middle <= n:
            low = middle + 1
        else:
            high = middle
    return n + low


@called_for(Use.TRAINING)
@njit(parallel=True, nogil=True, cache=True)
def mix_samples(
    rows: Rows,
    negatives: Annotated[NDArray[np.int32], 2],
    item_group: NDArray[np.uint8],
    middle: np.float32,
    samples: Samples,
    weights: NDArray[np.float32] = NO_WEIGHTS,
) -> None:
    """Fill `samples` with each rating (target 1; 0 below `middle`) and its negatives (0), by user, then by item group.

    Args:
        rows: compact rows: user i's entries follow those of user i − 1.
        negatives: (N, s) from `draw_negatives`.
        item_group: (I,) group of each item.
        samples: output, with room for s + 1 entries a rating; also gets `cuts`. A −1 adds no entry.
        weights: of the ratings, (N,), and of the negatives of each; empty: `samples` gets none.
    """
    # The row is a function of its own: inside `prange` Numba drops writes to an array that it reaches through a tuple.
    for user in prange(len(rows.starts)):
        _mix_row(rows, user, negatives, item_group, middle, samples, weights)


@njit(nogil=True, cache=True)
def _mix_row(
    rows: Rows,
    user: int,
    negatives: NDArray[np.int32],
    item_group: NDArray[np.uint8],
    middle: np.float32,
    samples: Samples,
    weights: NDArray[np.float32],
) -> None:
    start, end = rows.starts[user], rows.starts[user] + rows.lengths[user]
    per_rating = negatives.shape[1] + 1
    cuts = samples.cuts[user]
    cuts[:] = 0
    for p in range(start, end):
        for d in range(per_rating):
            item = rows.items[p] if d == 0 else negatives[p, d - 1]
            if item >= 0:
                cuts[item_group[item] + 1] += 1
    cuts[0] = start * per_rating
    for g in range(1, len(cuts)):
        cuts[g] += cuts[g - 1]
    position = cuts[:-1].copy()
    for p in range(start, end):
        for d in range(per_rating):
            item = rows.items[p] if d == 0 else negatives[p, d - 1]
            if item >= 0:
                at = position[item_group[item]]
                samples.items[at] = item
                samples.targets[at] = ONE if d == 0 and rows.values[p] >= middle else ZERO
                if len(weights):
                    samples.weights[at] = weights[p]
                position[item_group[item]] = at + 1
