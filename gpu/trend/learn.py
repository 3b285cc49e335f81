"""`learned`: how much of what is popular now belongs into the scores of a model, from the newest pairs of a training.

The pairs are divided by time into `N_PARTS` parts of as many. For each of the newest parts a model is trained on all
older pairs, and lists of users whom it knows are judged by what they chose next. To each score it adds a multiple of
the spread of its scores times the item's share of the decayed counts (`gpu.trend.host_counts`). The multiple and the
half-life that are best over all parts are kept, unless their gain is within noise. For that, nine tenths of the lists
choose for the last one, in turn, and a bootstrap gives the interval of the gain.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.base.errors import DeadFactors, InvalidRatings, NotEnoughMemory, TrainingDiverged
from gpu.data.decay import DAY_S, Times
from gpu.data.param_kinds import Params, with_changes
from gpu.data.ratings import Ratings
from gpu.data.recency import in_order
from gpu.data.signals import Trend
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.weighted import rows_in_time
from gpu.training.list_quality import Lists, interval
from gpu.trend.host_counts import ENDS, LEAST_SPAN, DecayedCounts, Moves

HALF_LIVES_DAYS = 1.0, 7.0, 30.0
MULTIPLES = 0.5, 1.0, 2.0, 4.0, 8.0, 16.0  # of the spread of scores, for the item with the most pairs
N_PARTS, MOST_PARTS, LEAST_PARTS = 20, 5, 2  # parts of a training; newest ones that are held out in turn
PAIRS_AT_ONCE = 2**20  # as many trainings as take about these many pairs, between the bounds above
MOST_PAIRS = 2**21  # of more, some users stand for all
MOST_SCORES = 2**28  # of a part, with each setting; of more, some users stand for all
MOST_FACTORS = 128  # of the trainings here; the weight is in units of the spread of scores, which more hardly change
FEWEST_PAIRS = 1000  # held-out pairs; with fewer nothing is tested
K, N_FOLDS = 20, 10
# Of the interval of the gain, which must be above 0. Lower than usual, since nothing to gain costs nothing either: a
# trend that is taken by mistake adds about nothing on average.
CONFIDENCE = 0.8
N_SPREAD = 64, 4096  # users and items whose scores give the spread


def span_s(seconds: NDArray[np.float64]) -> float:
    """The time over which pairs with these times (B,), at least one, are spread, in seconds."""
    first, last = np.quantile(seconds, ENDS)
    return float(last - first)


def learned(
    ratings: Ratings,
    times: Times,
    params: Params,
    backend: Backend = HOST,
    half_lives_days: Sequence[float] = HALF_LIVES_DAYS,
) -> Trend | None:
    """The trend for a training with `params` on `ratings`; None for NMF and `calibration=none`, whose scores stay.

    Takes about the time of two trainings, at most five if there are few ratings.

    Args:
        times: of `ratings`.
        half_lives_days: those to choose from. Ratings must be spread over `LEAST_SPAN` of them.
    """
    if not params.is_calibrated or params.is_nonnegative or not len(ratings):
        return None
    if params.width > MOST_FACTORS:
        params = with_changes(params, n_factors=MOST_FACTORS)
    params = params.sized()
    ratings, seconds = _of_some_users(in_order(ratings, times, params), times.seconds)
    days = span_s(seconds) / DAY_S
    usable = [one for one in half_lives_days if LEAST_SPAN * one <= days]
    if not usable:
        least = LEAST_SPAN * min(half_lives_days)
        return Trend(remark=f"not tested: times are spread over {days:.2g} days, expected {least:g} or more")
    settings = list(itertools.product(usable, MULTIPLES))
    order = np.argsort(seconds, kind="stable")
    n_parts = max(min(PAIRS_AT_ONCE // len(ratings), MOST_PARTS), LEAST_PARTS)
    bounds = [len(order) * n // N_PARTS for n in range(N_PARTS - n_parts, N_PARTS + 1)]
    parts = [
        part
        for begin, end in itertools.pairwise(bounds)
        if (part := _tested(ratings, seconds, order[:begin], order[begin:end], params, settings, backend)) is not None
    ]
    n_pairs = sum(part.n_pairs for part in parts)
    if n_pairs < FEWEST_PAIRS:
        what = f"{n_pairs:,} of the newest pairs are of users with older ones, expected {FEWEST_PAIRS:,} or more"
        return Trend(n_pairs=n_pairs, remark=f"not tested: {what}")
    gains = np.concatenate([part.values[1:] - part.values[0] for part in parts], axis=1)
    # Settings are compared by the mean with their neighbors of the same half-life: the best of many is partly the
    # luckiest. Each list then has the gain of the setting that is best for the other tenths.
    curves = gains.reshape(len(usable), len(MULTIPLES), -1)
    curves = np.pad(curves, ((0, 0), (1, 1), (0, 0)), mode="edge")
    smooth = ((curves[:, :-2] + 2 * curves[:, 1:-1] + curves[:, 2:]) / 4).reshape(gains.shape)
    best = int(np.argmax(smooth.mean(axis=1)))
    tenths = np.arange(gains.shape[1]) % N_FOLDS
    fair = np.zeros(gains.shape[1])
    for tenth in range(N_FOLDS):
        own = tenths == tenth
        fair[own] = gains[np.argmax(smooth[:, ~own].sum(axis=1)), own]
    low, high = interval(fair, confidence=CONFIDENCE)
    (half_life_days, multiple), spread = settings[best], float(np.mean([part.spread for part in parts]))
    if not low > 0:
        remark = "the gain is within noise"
        return Trend(0.0, half_life_days, n_pairs, float(fair.mean()), (low, high), remark)
    return Trend(multiple * spread, half_life_days, n_pairs, float(fair.mean()), (low, high))


class _Part(NamedTuple):
    """What the settings are worth on one of the newest parts.

    Attributes:
        values: float64 (1 + settings, users), NDCG@`K` of each user, without a trend and with each setting.
        spread: the mean deviation of the scores of a user.
        n_pairs: held-out pairs.
    """

    values: NDArray[np.float64]
    spread: float
    n_pairs: int


def _tested(
    ratings: Ratings,
    seconds: NDArray[np.float64],
    older: NDArray[np.int64],
    newer: NDArray[np.int64],
    params: Params,
    settings: Sequence[tuple[float, float]],
    backend: Backend,
) -> _Part | None:
    """Train on the pairs at `older`, and test each of `settings` on those at `newer`; None if nothing can be tested.

    Only pairs of users who have older ones are tested.
    """
    from gpu import fit  # noqa: PLC0415 - the package itself, which is complete by now

    users, items, values = ratings.coo()
    older, is_tested = np.sort(older), np.zeros(len(ratings), dtype=np.bool_)  # in the order of `coo`
    is_tested[newer] = np.isin(users[newer], users[older])
    if not is_tested.any():
        return None
    test = ratings.where(is_tested).of_some(max(MOST_SCORES // ratings.n_items, 1))
    is_older = np.zeros(len(ratings), dtype=np.bool_)
    is_older[older] = True
    trained, ages = ratings.where(is_older), seconds[older]
    try:
        times = Times(ages, float(ages.max()), trained.order)
        model = fit(trained, params, backend=backend, times=times)
    except (TrainingDiverged, DeadFactors, NotEnoughMemory, InvalidRatings):
        return None
    rows = rows_in_time(model, trained.by_user, times)
    index, everything = ItemIndex(model, backend), np.arange(ratings.n_items)

    def of_users() -> NDArray[np.float64]:
        """NDCG of the lists with the present lifts."""
        return Lists.of(model, rows, test, None, K, backend, index).of_users("ndcg", K)

    some = np.unique(test.coo()[0])[: N_SPREAD[0]].astype(np.int64)
    rated = np.flatnonzero(model.item_trained)
    of_spread = rated[np.linspace(0, len(rated) - 1, min(len(rated), N_SPREAD[1])).astype(np.int64)]
    scores = topn.scores(
        model, topn.users_of(model, some), topn.rows_of(rows, some), np.tile(of_spread, (len(some), 1))
    )
    spread, found = float(scores.std(axis=1).mean()), [of_users()]
    for half_life_days in dict.fromkeys(days for days, _ in settings):
        counts = DecayedCounts(half_life_days * DAY_S)
        counts.note(Moves.of(items[older], values[older], ages, 1), ratings.n_items)
        shares = counts.shares(slice(None))
        for multiple in (multiple for days, multiple in settings if days == half_life_days):
            index.lift(everything, (multiple * spread * shares).astype(np.float32))
            found.append(of_users())
    return _Part(np.stack(found), spread, len(test)) if len(found[0]) else None


def _of_some_users(ratings: Ratings, seconds: NDArray[np.float64]) -> tuple[Ratings, NDArray[np.float64]]:
    """About `MOST_PAIRS` pairs, all those of some users; or all pairs."""
    if len(ratings) <= MOST_PAIRS:
        return ratings, seconds
    order = np.argsort(ratings.user_keys, kind="stable")  # by hashes of ids, so any users
    n_users = int(np.searchsorted(np.cumsum(ratings.by_user.lengths[order]), MOST_PAIRS)) + 1
    keep = np.isin(ratings.coo()[0], order[:n_users])
    return ratings.where(keep), seconds[keep]
