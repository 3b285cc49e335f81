"""`learned`: whether what users had comes back, and how much of their own past belongs into scores.

A model of the older events makes lists for the users of the newest tenth whom it knows, with all items competing. Each
weight and half-life of `gpu.repeat.own` is tried; what users chose next counts, also if they had it before. Items come
back in lists if the best setting is better than lists without them beyond noise. As in `gpu.trend.learn`, each list has
the gain of the setting that is best for the others.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.base.errors import DeadFactors, InvalidRatings, NotEnoughMemory, TrainingDiverged
from gpu.data.decay import Times
from gpu.data.param_kinds import Params, with_changes
from gpu.data.ratings import Occasions, Ratings
from gpu.data.signals import Repeat
from gpu.ranking import topn
from gpu.ranking.weighted import rows_in_time
from gpu.repeat.own import parts_of
from gpu.training.list_quality import interval
from gpu.training.trials import is_clear

MULTIPLES = 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0  # of the spread of scores
HALF_LIVES_DAYS = 0.0, 7.0, 30.0, 90.0  # 0: age does not matter
NEWEST = 0.1  # share of the events that are held out
FEWEST_PAIRS = 1000  # held-out pairs; with fewer nothing is tested
LEAST_SHARE = 0.02  # of held-out pairs that came back
MOST_USERS, MOST_SCORES, MOST_FACTORS = 2000, 2**24, 128
K, N_FOLDS = 10, 10


def pairs_of(occasions: Occasions, shape: tuple[int, int]) -> tuple[Ratings, Times]:
    """(the sum of each pair, its newest time)."""
    keys = occasions.users.astype(np.int64) * shape[1] + occasions.items
    pairs, place = np.unique(keys, return_inverse=True)
    sums = np.bincount(place, weights=occasions.amounts).astype(np.float32)
    newest = np.full(len(pairs), -np.inf)
    np.maximum.at(newest, place, occasions.seconds)
    ratings = Ratings.from_coo(pairs // shape[1], pairs % shape[1], sums, shape)
    return ratings, Times(newest, float(newest.max()))


def learned(occasions: Occasions, shape: tuple[int, int], params: Params, backend: Backend = HOST) -> Repeat | None:
    """How items come back for a training with `params`; None for models that do not learn events.

    Args:
        shape: (U, I).
    """
    if not params.is_implicit or not params.is_calibrated or params.is_nonnegative or not len(occasions.users):
        return None
    order = np.argsort(occasions.seconds, kind="stable")
    n_older = len(order) - int(NEWEST * len(order))
    older, newer = occasions.at(order[:n_older]), occasions.at(order[n_older:])
    known = np.isin(newer.users, older.users)
    tested, _ = pairs_of(newer.at(known), shape) if known.any() else (None, None)
    if tested is None or len(tested) < FEWEST_PAIRS:
        what = f"{0 if tested is None else len(tested):,} pairs of the newest events are of users with older ones"
        return Repeat(remark=f"not tested: {what}, expected {FEWEST_PAIRS:,} or more")
    ratings, times = pairs_of(older, shape)
    users, items, _ = tested.coo()
    keys = users.astype(np.int64) * shape[1] + items
    had, had_items, _ = ratings.coo()
    came_back = np.isin(keys, had.astype(np.int64) * shape[1] + had_items)
    share = float(came_back.mean())
    if share < LEAST_SHARE:
        return Repeat(share=share, n_pairs=len(tested), remark="users hardly choose again what they had")
    settings = list(itertools.product(HALF_LIVES_DAYS, MULTIPLES))
    values, spread = _values(ratings, times, tested, params, settings, backend)
    if not values.shape[1]:
        return Repeat(share=share, n_pairs=len(tested), remark="not tested: a training of the older events failed")
    gains = values[1:] - values[0]
    folds, fair = np.arange(gains.shape[1]) % N_FOLDS, np.zeros(gains.shape[1])
    for fold in range(N_FOLDS):
        own = folds == fold
        fair[own] = gains[_best(gains[:, ~own]), own]
    low, high = interval(fair)
    half_life_days, multiple = settings[_best(gains)]
    is_better = low > 0
    return Repeat(
        weight=multiple * spread if is_better else 0.0,
        half_life_days=half_life_days,
        share=share,
        n_pairs=len(tested),
        gain=float(fair.mean()),
        interval=(low, high),
        remark="" if is_better else "the gain is within noise",
    )


def _best(gains: NDArray[np.float64]) -> int:
    """The setting to take, by the gains (settings, B) of lists.

    Age counts only if it is clearly better, and of the weights the largest that is not clearly worse than the best:
    with few lists the curve is flat, and a large weight has the order of the user's own counts.
    """
    curves = gains.reshape(len(HALF_LIVES_DAYS), len(MULTIPLES), -1)
    best = [int(np.argmax(curve.mean(axis=1))) for curve in curves]
    tops = [curve[place] for curve, place in zip(curves, best, strict=True)]
    aged = 1 + int(np.argmax([top.mean() for top in tops[1:]]))
    chosen = aged if is_clear(-tops[aged], -tops[0]) else 0
    larger = range(best[chosen], len(MULTIPLES))
    place = max(one for one in larger if not is_clear(-tops[chosen], -curves[chosen][one]))
    return chosen * len(MULTIPLES) + place


def _values(
    ratings: Ratings,
    times: Times,
    tested: Ratings,
    params: Params,
    settings: list[tuple[float, float]],
    backend: Backend,
) -> tuple[NDArray[np.float64], float]:
    """(NDCG@`K` of each list, float64 (1 + settings, users), without what users had and with each setting; the spread
    of scores). No users if the training failed.
    """
    from gpu import fit  # noqa: PLC0415 - the package itself, which is complete by now

    if params.width > MOST_FACTORS:
        params = with_changes(params, n_factors=MOST_FACTORS)
    try:
        model = fit(ratings, params, backend=backend, times=times)
    except (TrainingDiverged, DeadFactors, NotEnoughMemory, InvalidRatings):
        return np.zeros((1 + len(settings), 0)), 0.0
    users = np.flatnonzero(tested.by_user.lengths)
    some = users[np.argsort(ratings.user_keys[users], kind="stable")[:MOST_USERS]]
    discounts = 1 / np.log2(np.arange(2, K + 2))
    at_once, every = max(MOST_SCORES // ratings.n_items, 1), np.arange(ratings.n_items)
    rows, found, spreads = ratings.by_user, list[NDArray[np.float64]](), list[float]()
    heard = rows_in_time(model, rows, times)
    for first in range(0, len(some), at_once):
        part = some[first : first + at_once]
        every_pair = np.broadcast_to(every, (len(part), len(every)))
        scores = topn.scores(model, topn.users_of(model, part), topn.rows_of(heard, part), every_pair)
        for user, line in zip(part.tolist(), scores, strict=True):
            own = slice(rows.starts[user], rows.starts[user] + rows.lengths[user])
            start = tested.by_user.starts[user]
            relevant = tested.by_user.items[start : start + tested.by_user.lengths[user]]
            ideal, spread = discounts[: len(relevant)].sum(), float(line.std())
            spreads.append(spread)
            lists = [(0.0, -np.inf), *settings]
            for n, (half_life_days, multiple) in enumerate(lists):
                with_own = line.copy()
                if n == 0:
                    with_own[rows.items[own]] = -np.inf
                else:
                    repeat = Repeat(multiple * spread, half_life_days)
                    with_own[rows.items[own]] += parts_of(repeat, rows.values[own], times.seconds[own])
                best = np.argpartition(-with_own, K)[:K] if len(with_own) > K else np.arange(len(with_own))
                best = best[np.argsort(-with_own[best], kind="stable")]
                hits = np.isin(best, relevant) & (with_own[best] > -np.inf)
                found.append(np.array(hits @ discounts[: len(best)] / ideal))
    return np.array(found).reshape(-1, 1 + len(settings)).T, float(np.mean(spreads))
