"""`selected`: what held-out pairs of the training ratings decide before a training: the confidence of counts, λ and F.

Settings are tried with a part of the epochs on the ratings without a part of some users' pairs, and compared by NDCG@20
of these users' lists. A setting replaces the one before only if it is better by `GAIN` and by more than a standard
error (`gpu.training.trials.is_clear`). So little data keeps the rules of `gpu.data.calibration`, and `START_FACTORS`.

λ of implicit ALS doubles while that pays, then F. Where users have two or three clicks each, eight times the λ of the
calibration is right, and lists of most users are those of the most popular items: with less, noise puts other items
first. λ need not follow F, because it is in units of the noise of a random matrix, which does not depend on F: on dense
data more factors than there are tastes stay near zero. What stops F is the data, the memory, or `MOST_WORK`. The
ratings that judge the finished model are never used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.data.calibration import calibrate
from gpu.data.evidence import amounts
from gpu.data.param_kinds import Params, with_changes
from gpu.data.ratings import Ratings
from gpu.training.trials import is_clear, tried

MOST_FACTORS = 1024
GAIN = 0.015  # share; the three doublings to `MOST_FACTORS` that are not tried would gain less each than the one before
SHARE = 1 / 3  # of the epochs
USERS, PAIRS = 4000, 0.2  # users at most, at random, and the share of their pairs that is held out
ENOUGH = 1000  # held-out pairs; with fewer the noise decides
MOST_RIDGE = 16  # λ at most, in multiples of the calibrated one
LEAST_ROWS = 1000  # users and items with ratings; fewer have no more than `START_FACTORS` tastes
MOST_TERMS = 3e9  # pairs of items that a trial of `by_settings` adds up; some seconds on two cores
MOST_ITEMS = 1500  # of EASE, the most popular, while confidences are tried; all would take the cube of their number
# Operations of a whole training: six minutes of two idle cores, at the 85 · 10⁹ a second of MovieLens-1M (F = 512).
MOST_WORK = 3e13
CG_WORK = 4.5  # passes over the ratings of a half-iteration (`gpu.als.host_subspace`)
CONFIDENCES = "linear", "log", "ones"
K = 20  # items of a list

Judge = Callable[[Params], NDArray[np.float64]]  # trains, and returns the losses of held-out pairs; empty if it failed


class Selection(NamedTuple):
    """Complete parameters.

    Attributes:
        params: with what held-out pairs have decided.
        reasons: a sentence for each decision; none if all was given.
        n_factors: F, if it was decided here; else 0.
    """

    params: Params
    reasons: tuple[str, ...] = ()
    n_factors: int = 0


def selected(
    ratings: Ratings,
    params: Params,
    backend: Backend = HOST,
    *,
    most_factors: int = MOST_FACTORS,
    kept: Callable[[Params], int] = lambda _: 0,
) -> Selection:
    """`params` with what held-out pairs decide.

    Args:
        most_factors: F at most.
        kept: bytes that a training with these parameters leaves free on the backend; F is one with which it can.
    """
    if not params.is_calibrated:
        return Selection(params.sized())
    if params.open_settings:
        return by_settings(ratings, params, backend)
    has_counts = has_open_counts(ratings, params)
    if params.has_width and not has_counts:
        return Selection(params)
    rest, held_out = split(ratings)
    reasons: tuple[str, ...] = ()
    if len(held_out) < ENOUGH:
        reasons = (untested(held_out),)
    elif has_counts:
        params, reason = with_confidence(rest, held_out, params, backend)
        reasons = (reason,)
    if params.has_width:
        return Selection(params, reasons)
    if len(held_out) < ENOUGH:
        params = with_changes(params, n_factors=min(params.width, most_factors))
    else:

        def judge(params: Params) -> NDArray[np.float64]:
            return losses_of(rest, held_out, params, replace(backend, kept_bytes=kept(params)))

        params = with_changes(params, n_factors=min(params.width, most_factors))
        params, reason, least = with_ridge(rest, params, judge)
        reasons = (*reasons, reason)
        params, reason = with_width(rest, params, judge, least, most_factors)
        reasons = (*reasons, reason)
    return Selection(params, reasons, params.width)


def by_settings(ratings: Ratings, params: Params, backend: Backend) -> Selection:
    """`params` with the best of their `open_settings`, if the caller has given none of these parameters."""
    best, names = params.sized(), params.open_settings[0]
    if any(getattr(params, name) is not None for name in names):
        return Selection(best)
    rest, held_out = split(ratings)
    if len(held_out) < ENOUGH:
        return Selection(best, (untested(held_out),))
    n_terms = float(np.square(rest.by_user.lengths, dtype=np.float64).sum())
    if n_terms > MOST_TERMS:
        return Selection(best, (f"nothing was tested: each trial would add up {n_terms:.2g} pairs of items",))
    least, told = np.zeros(0), list[str]()
    for setting in params.open_settings:
        changed = with_changes(params, **setting)
        losses = losses_of(rest, held_out, changed, backend)
        told.append(f"{_score(losses)} with {', '.join(f'{name}={value:g}' for name, value in setting.items())}")
        if pays(losses, least):
            best, least = changed, losses
    return Selection(best, (f"NDCG@{K} of {len(least):,} users {'; '.join(told)}",))


def untested(held_out: Ratings) -> str:
    """Why rules and defaults stay."""
    needed = f"{ENOUGH:,} held-out pairs (about {ENOUGH / PAIRS:,.0f} ratings of users with several)"
    return f"nothing was tested: expected {needed}, got {len(held_out):,}"


def has_open_counts(ratings: Ratings, params: Params) -> bool:
    """Whether `ratings` are unequal counts whose confidence `params` leave to the data."""
    if not params.has_values or params.is_logit or params.confidence != "auto" or not params.is_calibrated:
        return False
    x = amounts(ratings.by_user.values)
    return float(x.max()) > float(x.min()) and calibrate(ratings, params).values == "counts"


def split(ratings: Ratings, seed: int = 0) -> tuple[Ratings, Ratings]:
    """(the other ratings, a share `PAIRS` of those of at most `USERS` users); a user keeps at least one."""
    generator, (users, _, _) = np.random.default_rng(seed), ratings.coo()
    several = np.flatnonzero(ratings.by_user.lengths > 1)
    some = np.zeros(ratings.n_users, dtype=np.bool_)
    some[generator.permutation(several)[:USERS]] = True
    order = generator.permutation(len(ratings))
    order = order[np.argsort(users[order], kind="stable")]  # by user, each user's pairs in random order
    place = np.arange(len(ratings)) - np.repeat(ratings.by_user.starts, ratings.by_user.lengths)
    n_out = np.maximum(np.rint(PAIRS * ratings.by_user.lengths), 1)
    is_out = np.zeros(len(ratings), dtype=np.bool_)
    is_out[order] = some[users] & (place < n_out[users])
    return ratings.where(~is_out), ratings.where(is_out)


def with_confidence(rest: Ratings, held_out: Ratings, params: Params, backend: Backend) -> tuple[Params, str]:
    """`params` with the confidence that is best for counts, and why; the rule of `calibrate` stays if none is clear."""
    rule = "log" if calibrate(rest, params).is_damped else "linear"
    if params.has_item_weights:
        popular = np.zeros(rest.n_items, dtype=np.bool_)
        popular[np.argsort(-rest.by_item.lengths, kind="stable")[:MOST_ITEMS]] = True
        rest, held_out = (part.where(popular[part.coo()[1]]) for part in (rest, held_out))
    best, least, scores = rule, np.zeros(0), {}
    for name in sorted(CONFIDENCES, key=lambda name: name != rule):
        losses = losses_of(rest, held_out, with_changes(params, confidence=name), backend)
        scores[name] = losses
        if pays(losses, least):
            best, least = name, losses
    told = ", ".join(f"{_score(losses)} as {name}" for name, losses in scores.items())
    return with_changes(params, confidence=best), f"confidence={best}: NDCG@{K} of {len(least):,} users {told}"


def with_ridge(rest: Ratings, params: Params, judge: Judge) -> tuple[Params, str, NDArray[np.float64]]:
    """(`params`, with λ if a multiple of the calibrated one pays; why; the losses): it doubles while lists improve."""
    calibrated, least = calibrate(rest, params).regularization, judge(params)
    told, best, factor = [_score(least)], params, 1
    while params.regularization is None and len(least) and factor < MOST_RIDGE:
        larger = with_changes(params, regularization=2 * factor * calibrated)
        losses = judge(larger)
        told.append(f"{_score(losses)} with {2 * factor} times as much")
        if not pays(losses, least):
            break
        best, least, factor = larger, losses, 2 * factor
    return best, f"regularization={factor * calibrated:.4g}: NDCG@{K} of {len(least):,} users {', '.join(told)}", least


def with_width(
    rest: Ratings, params: Params, judge: Judge, least: NDArray[np.float64], most_factors: int
) -> tuple[Params, str]:
    """`params`, whose losses are `least`, with F: it doubles while lists improve and the work stays in bounds; why."""
    n_rows = [int(np.count_nonzero(rows.lengths)) for rows in (rest.by_user, rest.by_item)]
    if min(n_rows) < LEAST_ROWS:
        few = f"{min(n_rows):,} {'users' if n_rows[0] < n_rows[1] else 'items'} have no more tastes"
        return params, f"n_factors={params.width}: {few}"
    told, end = [f"{_score(least)} with {params.width:,}"], f"of at most {most_factors:,}"
    while 2 * params.width <= most_factors:
        larger = with_changes(params, n_factors=2 * params.width)
        if params.n_epochs * work_of_epoch(larger.width, sum(n_rows), len(rest)) > MOST_WORK:
            end = f"{larger.width:,} would take more than {MOST_WORK:g} operations"
            break
        losses = judge(larger)
        told.append(f"{_score(losses)} with {larger.width:,}")
        if not pays(losses, least):
            end = f"each has to gain {GAIN:.1%} and a standard error" if len(losses) else "no memory for more"
            break
        params, least = larger, losses
    return params, f"n_factors={params.width}: NDCG@{K} of {len(least):,} users {', '.join(told)}; {end}"


def losses_of(rest: Ratings, held_out: Ratings, params: Params, backend: Backend) -> NDArray[np.float64]:
    """−NDCG@`K` of each user after a part of the epochs, (B,); empty if the training failed.

    Held-out pairs have all ages, so age does not count.
    """
    short = params.sized().with_epochs(SHARE)
    short = short if short.half_life_days is None else with_changes(short, half_life_days=None)
    return tried(rest, held_out, short, 1, backend, K)[1]


def pays(losses: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    """Whether `losses` are better than `others` by `GAIN` and clearly; any are better than none."""
    if not len(losses) or not len(others):
        return len(losses) > 0
    return bool(losses.mean() < (1 + GAIN) * others.mean()) and is_clear(losses, others)


def work_of_epoch(n_factors: int, n_rows: int, n_ratings: int) -> float:
    """Operations of an epoch of implicit ALS on the host, about (`gpu.als.host_subspace`)."""
    return 8 * n_factors * CG_WORK * n_ratings + 4.0 * n_factors**2 * n_rows


def _score(losses: NDArray[np.float64]) -> str:
    return f"{-losses.mean():.4f}" if len(losses) else "nothing (it failed)"
