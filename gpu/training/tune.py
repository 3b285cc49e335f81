"""`tune`: searches settings of an algorithm that fit the data, step by step, judged by held-out pairs.

The first step, `weights`, is successive halving (Jamieson and Talwalkar 2016, arXiv:1502.07943) over α, λ and steps.
Each round trains the remaining settings for some epochs, keeps the best `KEPT` of them, and gives these `LONGER` times
as many epochs. Settings are multiples of the defaults, which are calibrated to the data (`gpu.data.calibration`), so
one grid covers any density and any scale. The last round trains with all epochs; its best setting wins.

The caller's own setting takes part in every round. After few epochs large steps and weak ridges look best: without it,
three of four algorithms on four sets ended up to 5 % behind the defaults. It also wins unless another setting is
clearly better (`gpu.training.trials`).

Each further step changes one parameter of the best setting so far, with all epochs, and keeps the change if it is
clearly better: F doubles, or halves, as long as that holds; then the confidence of counts, ν, and half-lives.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.base.errors import InvalidParams
from gpu.data.calibration import calibrate
from gpu.data.decay import DAY_S, Times
from gpu.data.param_kinds import Params, descending, with_changes
from gpu.data.param_ranges import range_of
from gpu.data.ratings import Ratings
from gpu.training.selection import CONFIDENCES, has_open_counts
from gpu.training.trials import NDCG, RMSE, Trial, changed, is_clear, tried

KEPT, LONGER = 1 / 3, 2  # share of the settings that a round keeps, and factor of epochs from round to round
N_ROUNDS = 3  # rounds; the first trains 1 / LONGER² of all epochs. Algorithms without epochs have one round
RIDGES_OF_EASE = 0.1, 0.2, 0.35, 0.6, 0.8, 1, 1.25, 1.7, 3, 6  # factors of the calibrated λ
LEAST_FACTORS = 4
EXPONENTS = 0.75, 0.5  # ν; a smaller one holds back popular rows less, in relation to others
AGES = 1.0, 0.25, 0.06  # half-lives, as shares of the time from the oldest rating to the newest
MOST_STEPS = 9  # trainings after the first step, about: the share that is done is computed with it


@dataclass(frozen=True)
class Step:
    """What one step gained.

    Attributes:
        name: `weights`, or the parameter that it changed.
        params: its best setting, complete.
        score: of that setting, as in `Trial`.
        gain: how much better that is than the setting before, in units of the score; NaN if no training succeeded.
        error: standard error of the mean difference that decided: of NDCG, or of squared errors.
        is_kept: whether the setting was clearly better, so that the search went on from it.
    """

    name: str
    params: Params
    score: float
    gain: float
    error: float
    is_kept: bool

    def record(self, requested: Params) -> dict[str, Any]:
        """Its figures, and the parameters that differ from `requested`."""
        figures = {"score": self.score, "gain": self.gain, "standard_error": self.error, "is_kept": self.is_kept}
        return {"step": self.name, **figures, **changed(self.params, requested)}


@dataclass(frozen=True)
class Outcome:
    """Result of a search.

    Attributes:
        best: the best setting, complete.
        metric: name of the metric that `Trial.score` has.
        score: of the best setting.
        trials: all trainings, in order.
        steps: what each step gained, in order.
    """

    best: Params
    metric: str
    score: float
    trials: tuple[Trial, ...]
    steps: tuple[Step, ...]


OnTrial = Callable[[Trial, int, int], None]  # the trial, trials done so far, trials in all, about


def tune(
    ratings: Ratings,
    held_out: Ratings,
    params: Params,
    *,
    backend: Backend = HOST,
    on_trial: OnTrial | None = None,
    times: Times | None = None,
) -> Outcome:
    """Search settings around `params` for the best on `held_out`.

    Args:
        ratings: training ratings, without `held_out`.
        params: the caller's setting; parameters that are not searched keep its values, and None means calibrated.
        on_trial: called after each training.
        times: of `ratings`, if `held_out` are newer, or the algorithm needs them; then half-lives are tried.

    Raises:
        InvalidParams: the algorithm has nothing to search (NMF), or every setting diverged, had dead factors or did not
            fit into memory.
    """
    if not len(held_out):
        raise InvalidParams("Invalid number of held-out pairs: expected at least one to tune on, got none")
    rules = calibrate(ratings, params) if params.has_values else None
    is_open = has_open_counts(ratings, params)
    if is_open and rules is not None:  # the rule of the calibration, so that no training decides it again
        params = with_changes(params, confidence="log" if rules.is_damped else "linear")
    search = Search(ratings, held_out, params.sized(), backend, on_trial, times)
    search.weights()
    if params.width > 1:
        search.factors()
    if is_open:
        search.step("confidence", [{"confidence": name} for name in CONFIDENCES])
    names = {field.name for field in dataclasses.fields(params)}
    if "regularization_exponent" in names and params.is_calibrated:
        search.step("regularization_exponent", [search.exponent(exponent) for exponent in EXPONENTS])
    if times is not None and "half_life_days" in names:
        days = float(np.ptp(times.seconds)) / DAY_S
        search.step("half_life_days", [{"half_life_days": days * share} for share in AGES if days * share >= 1])
    metric = NDCG if params.is_implicit else RMSE
    return Outcome(search.best, metric, search.score, tuple(search.trials), tuple(search.steps))


class Search:
    """The best setting so far, with its `losses` and `score`, and what was tried."""

    def __init__(
        self,
        ratings: Ratings,
        held_out: Ratings,
        params: Params,
        backend: Backend,
        on_trial: OnTrial | None,
        times: Times | None,
    ) -> None:
        self._ratings, self._held_out, self._backend = ratings, held_out, backend
        self._on_trial, self._times, self._n_planned = on_trial, times, 0
        self.trials: list[Trial] = []
        self.steps: list[Step] = []
        self.best, self.losses, self.score = params, np.zeros(0), math.nan

    def tried(self, params: Params, number: int = N_ROUNDS + 1) -> NDArray[np.float64]:
        """The losses of a training, see `gpu.training.trials.tried`."""
        trial, losses = tried(self._ratings, self._held_out, params, number, self._backend, times=self._times)
        self.trials.append(trial)
        if self._on_trial is not None:
            self._on_trial(trial, len(self.trials), max(self._n_planned, len(self.trials)))
        return losses

    def weights(self) -> None:
        """Successive halving over `grid`."""
        params, ratings = self.best, self._ratings
        settings = grid(ratings, params)
        asked = settings[0]
        sizes = [len(settings)] if params.has_item_weights else round_sizes(len(settings))
        self._n_planned = sum(sizes) + MOST_STEPS
        losses: dict[Params, NDArray[np.float64]] = {}  # of the settings of the present round
        for number, size in enumerate(sizes, start=1):
            losses = {
                setting: self.tried(setting.with_epochs(LONGER ** (number - len(sizes))), number)
                for setting in settings
            }
            scored = [trial for trial in self.trials[-size:] if not math.isnan(trial.score)]
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
        self.best, self.losses = asked, losses.get(asked, self.losses)
        self.score = self._score(self.losses)
        self._keep("weights", settings[0], losses[settings[0]])

    def factors(self) -> None:
        """Double F while that is clearly better; if it never is, halve it."""
        start, (_, most) = self.best.width, range_of(self.best, "n_factors") or (0, self.best.width)
        while 2 * self.best.width <= most and self.step("n_factors", [{"n_factors": 2 * self.best.width}]):
            pass
        while LEAST_FACTORS <= self.best.width // 2 < start:
            if not self.step("n_factors", [{"n_factors": self.best.width // 2}]):
                break

    def exponent(self, exponent: float) -> dict[str, Any]:
        """ν, and the λ with which the mean ridge of a row stays."""
        rows = self._ratings.by_user.lengths, self._ratings.by_item.lengths
        evidence = np.concatenate(
            [own[own > 0] + np.count_nonzero(others) / (self.best.alpha or 1.0) for own, others in (rows, rows[::-1])]
        )
        mean = (evidence**self.best.regularization_exponent).mean() / (evidence**exponent).mean()
        ridge = (self.best.regularization or 0.0) * float(mean)
        return {"regularization_exponent": exponent, "regularization": ridge}

    def step(self, name: str, changes: Sequence[dict[str, Any]]) -> bool:
        """Try `changes` of the best setting, and keep the best of them if it is clearly better."""
        settings = [with_changes(self.best, **change) for change in changes]
        losses = {setting: self.tried(setting) for setting in settings if setting != self.best}
        found = [setting for setting, values in losses.items() if len(values)]
        if not found:
            return False
        best = min(found, key=lambda setting: float(losses[setting].mean()))
        return self._keep(name, best, losses[best])

    def _keep(self, name: str, setting: Params, losses: NDArray[np.float64]) -> bool:
        """Go on from `setting` if it is clearly better, and note what it gained."""
        score, is_kept = self._score(losses), setting != self.best and is_clear(losses, self.losses)
        gain = error = math.nan
        if len(self.losses):
            gain = score - self.score if self.best.is_implicit else self.score - score
            error = float((self.losses - losses).std() / len(losses) ** 0.5)
        self.steps.append(Step(name, setting, score, gain, error, is_kept))
        if is_kept:
            self.best, self.losses, self.score = setting, losses, score
        return is_kept

    def _score(self, losses: NDArray[np.float64]) -> float:
        mean = float(losses.mean()) if len(losses) else math.nan
        return -mean if self.best.is_implicit else math.sqrt(mean)


def grid(ratings: Ratings, params: Params) -> list[Params]:
    """The settings of the first round: multiples of the values in `params` or of calibrated ones; `params` comes first.

    Raises:
        InvalidParams: there is nothing to search.
    """
    if params.is_nonnegative:
        raise InvalidParams(f"Invalid algorithm for tune: expected one with a ridge, got {params.algorithm!r}")
    asked = params
    if params.grid:
        settings = [with_changes(params, **setting) for setting in params.grid]
    elif params.has_item_weights:
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
            with_changes(params, alpha=alpha, regularization=ridge * alpha)
            for alpha, ridge in itertools.product(alphas, ridges)
        ]
    else:
        # Around λ and, with gradient descent, the step of the first epoch.
        ridge = params.regularization or 0.0
        choices = [[("regularization", ridge * factor) for factor in (0.35, 0.6, 0.8, 1, 1.25, 1.7, 3)]]
        if params.refits == "sampled":
            rates = (0.5, 1, 1.6) if params.n_absences else (0.4, 0.7, 1, 1.5)
            choices.append([("learning_rate", descending(params).learning_rate * rate) for rate in rates])
        settings = [with_changes(params, **dict(choice)) for choice in itertools.product(*choices)]
    return [asked, *(setting for setting in settings if setting != asked)]


def round_sizes(n_settings: int) -> list[int]:
    """Number of settings in each round: at least the best one so far and the caller's own."""
    return [max(2, round(n_settings * KEPT**number)) for number in range(N_ROUNDS)]
