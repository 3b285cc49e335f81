"""`tune`: searches settings of an algorithm that fit the data, by successive halving on held-out pairs.

Each round trains the remaining settings for some epochs, keeps the best `KEPT` of them, and gives these `LONGER` times
as many epochs (Jamieson and Talwalkar 2016, arXiv:1502.07943). Settings are multiples of the defaults, which are
calibrated to the data (`gpu.data.calibration`), so one grid covers any density and any scale. The last round trains
with all epochs; its best setting wins.

The caller's own setting takes part in every round. After few epochs large steps and weak ridges look best: without it,
three of four algorithms on four sets ended up to 5 % behind the defaults. It also wins unless another setting is
clearly better (`gpu.training.trials`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.base.errors import InvalidParams
from gpu.data.calibration import calibrate
from gpu.data.param_kinds import Params, descending, with_changes
from gpu.data.ratings import Ratings
from gpu.training.selection import selected
from gpu.training.trials import NDCG, RMSE, Trial, is_clear, tried

KEPT, LONGER = 1 / 3, 2  # share of the settings that a round keeps, and factor of epochs from round to round
N_ROUNDS = 3  # rounds; the first trains 1 / LONGER² of all epochs. Algorithms without epochs have one round
RIDGES_OF_EASE = 0.1, 0.2, 0.35, 0.6, 0.8, 1, 1.25, 1.7, 3, 6  # factors of the calibrated λ


@dataclass(frozen=True)
class Outcome:
    """Result of a search.

    Attributes:
        best: the best setting, complete.
        metric: name of the metric that `Trial.score` has.
        trials: all trainings, in order.
    """

    best: Params
    metric: str
    trials: tuple[Trial, ...]


OnTrial = Callable[[Trial, int, int], None]  # the trial, trials done so far, trials in all


def tune(
    ratings: Ratings,
    held_out: Ratings,
    params: Params,
    *,
    backend: Backend = HOST,
    on_trial: OnTrial | None = None,
) -> Outcome:
    """Search settings around `params` for the best on `held_out`.

    Args:
        ratings: training ratings, without `held_out`.
        params: the caller's setting; parameters that are not searched keep its values, and None means calibrated.
        on_trial: called after each training.

    Raises:
        InvalidParams: the algorithm has nothing to search (NMF), or every setting diverged, had dead factors or did not
            fit into memory.
    """
    if not len(held_out):
        raise InvalidParams("Invalid number of held-out pairs: expected at least one to tune on, got none")
    params = selected(ratings, params, backend).params
    settings = grid(ratings, params)
    asked = settings[0]
    sizes = [len(settings)] if params.has_item_weights else round_sizes(len(settings))
    trials: list[Trial] = []
    losses: dict[Params, NDArray[np.float64]] = {}  # of the settings of the present round
    for number, size in enumerate(sizes, start=1):
        losses.clear()
        for setting in settings:
            shortened = setting.with_epochs(LONGER ** (number - len(sizes)))
            trial, losses[setting] = tried(ratings, held_out, shortened, number, backend)
            trials.append(trial)
            if on_trial is not None:
                on_trial(trials[-1], len(trials), sum(sizes))
        scored = [trial for trial in trials[-size:] if not math.isnan(trial.score)]
        best = sorted(scored, key=lambda trial: -trial.score if params.is_implicit else trial.score)
        if not best:
            raise InvalidParams(
                f"Invalid parameters of {params.algorithm}: every setting diverged, died or had no room"
            )
        n_left = sizes[number] if number < len(sizes) else 1
        settings = [trial.params for trial in best[:n_left]]
        if not params.has_item_weights:
            settings = [with_changes(setting, n_epochs=params.n_epochs) for setting in settings]
        if number < len(sizes) and asked not in settings:
            settings = [*settings[: n_left - 1], asked]
        sizes[number:] = [min(size, len(settings)) for size in sizes[number:]]
    best_setting = settings[0] if is_clear(losses[settings[0]], losses.get(asked)) else asked
    return Outcome(best_setting, NDCG if params.is_implicit else RMSE, tuple(trials))


def grid(ratings: Ratings, params: Params) -> list[Params]:
    """The settings of the first round: multiples of the values in `params` or of calibrated ones; `params` comes first.

    Raises:
        InvalidParams: there is nothing to search.
    """
    if params.is_nonnegative:
        raise InvalidParams(f"Invalid algorithm for tune: expected one with a ridge, got {params.algorithm!r}")
    asked, sizes = params, sorted({params.width, max(4, params.width // 2)})
    if params.has_item_weights:
        ridge = calibrate(ratings, params).regularization
        asked = with_changes(params, regularization=ridge)
        settings = [with_changes(params, regularization=ridge * factor) for factor in RIDGES_OF_EASE]
    elif params.has_values and not params.is_logit:
        # Around α and λ of the data; λ moves with α, whose ridge it is.
        data = calibrate(ratings, params)
        share = data.regularization / data.alpha
        alphas = [data.alpha * factor for factor in (0.25, 0.5, 1, 2, 4)]
        ridges = [share * factor for factor in (0.25, 0.5, 1, 1.5, 2.5)]
        asked = with_changes(params, alpha=data.alpha, regularization=share * data.alpha)
        settings = [
            with_changes(params, alpha=alpha, regularization=ridge * alpha, n_factors=size)
            for alpha, ridge, size in itertools.product(alphas, ridges, sizes)
        ]
    else:
        # Around λ and, with gradient descent, the step of the first epoch.
        ridge = params.regularization or 0.0
        choices = [[("regularization", ridge * factor) for factor in (0.35, 0.6, 0.8, 1, 1.25, 1.7, 3)]]
        if params.refits == "sampled":
            rates = (0.5, 1, 1.6) if params.n_absences else (0.4, 0.7, 1, 1.5)
            choices.append([("learning_rate", descending(params).learning_rate * rate) for rate in rates])
        changes = itertools.product(itertools.product(*choices), sizes)
        settings = [with_changes(params, **dict(choice), n_factors=size) for choice, size in changes]
    return [asked, *(setting for setting in settings if setting != asked)]


def round_sizes(n_settings: int) -> list[int]:
    """Number of settings in each round: at least the best one so far and the caller's own."""
    return [max(2, round(n_settings * KEPT**number)) for number in range(N_ROUNDS)]
