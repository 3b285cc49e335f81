"""Successive halving finds what suits the data, and never ends behind the defaults of its last round."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import gpu
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.base.backend import Backend
from gpu.base.errors import InvalidParams
from gpu.data.calibration import calibrate
from gpu.data.decay import DAY_S, Times
from gpu.data.param_kinds import FactorParams, Params, with_changes
from gpu.descent.params import SgdParams
from gpu.ease.params import EaseParams
from gpu.nmf.params import NmfParams
from gpu.training import trials, tune
from tests.data import planted, split


def epochs(params: Params) -> int:
    assert isinstance(params, FactorParams)
    return params.n_epochs


def with_all_epochs(params: Params) -> Params:
    """The setting as the last round of eight epochs has it."""
    assert isinstance(params, FactorParams)
    return dataclasses.replace(params, n_epochs=8)


@pytest.mark.parametrize("params", [AlsParams(), SgdParams(), AlsImplicitParams()], ids=lambda p: p.algorithm)
def test_the_grid_lies_around_the_given_parameters(params: Params) -> None:
    settings = tune.grid(planted(), params)
    assert len(settings) == len(set(settings)) >= 7
    known = calibrate(planted(), params)
    center = {"regularization": known.regularization, "alpha": known.alpha} if params.is_implicit else {}
    assert with_changes(params, **center) == settings[0]
    assert all(epochs(setting) == epochs(params) for setting in settings)


def test_rounds_get_smaller_and_longer(backend: Backend) -> None:
    train, test = split(planted())
    params, seen = AlsParams(n_factors=6, n_epochs=8, precision="float32"), []
    outcome = tune.tune(train, test, params, backend=backend, on_trial=lambda *told: seen.append(told))
    sizes = tune.round_sizes(len(tune.grid(train, params)))
    rounds = [n for n, size in enumerate(sizes, 1) for _ in range(size)]
    assert [trial.round for trial in outcome.trials if trial.round <= 3] == rounds
    assert [done for _, done, _ in seen] == list(range(1, len(outcome.trials) + 1))
    assert all(done <= total for _, done, total in seen)
    assert {trial.round: epochs(trial.params) for trial in outcome.trials} == {1: 2, 2: 4, 3: 8, 4: 8}
    last = [trial for trial in outcome.trials if trial.round >= 3]
    assert outcome.metric == "rmse"
    assert outcome.best in {trial.params for trial in last}
    assert outcome.score == next(trial.score for trial in last if trial.params == outcome.best)


def test_the_given_parameters_are_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it looks worst after few epochs: with all of them it may be the best."""
    train, test = split(planted())
    params = SgdParams(n_factors=6, n_epochs=8)

    def losses(model: gpu.Model, *_: object, **__: object) -> np.ndarray:
        is_asked = with_all_epochs(model.params) == params
        return np.full(2, 9.0 if is_asked and epochs(model.params) < 8 else 1.0 - 0.1 * is_asked)

    monkeypatch.setattr("gpu.training.trials.evaluate.squared_errors", losses)
    found = tune.tune(train, test, params)
    assert found.best == params
    asked = [trial.params for trial in found.trials if with_all_epochs(trial.params) == params]
    assert [epochs(one) for one in asked] == [2, 4, 8]
    assert not any(step.is_kept for step in found.steps)


def test_only_a_clearly_better_setting_replaces_the_given_one() -> None:
    losses = np.random.default_rng(0).normal(0, 1, 400)
    luck = np.where(np.arange(400) % 2, 1.0, -1.0)  # a standard error of .05
    assert not trials.is_clear(losses, losses)
    assert not trials.is_clear(losses, losses + 0.04 + luck)
    assert trials.is_clear(losses, losses + 0.06 + luck)
    assert not trials.is_clear(losses, losses - 0.06 + luck)
    assert trials.is_clear(losses, None)
    assert trials.is_clear(losses, np.zeros(0))


@pytest.mark.parametrize(("lead", "is_kept"), [(0.1, True), (0.5, False)])
def test_a_search_does_not_follow_luck(lead: float, is_kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All others lead the asked setting by as much on average; a standard error of the difference is .2."""
    train, test = split(planted())
    params, losses = AlsParams(n_factors=4, n_epochs=4), np.tile([1.0, 3.0], 50)

    def squares(model: gpu.Model, *_: object, **__: object) -> np.ndarray:
        is_asked = dataclasses.replace(model.params, n_epochs=4) == params  # type: ignore[call-arg]
        return losses if is_asked else losses[::-1] - lead

    monkeypatch.setattr("gpu.training.trials.evaluate.squared_errors", squares)
    assert (tune.tune(train, test, params).best == params) == is_kept


def test_the_given_parameters_replace_no_better_setting() -> None:
    """The last round has only a few settings."""
    train, test = split(planted())
    found = tune.tune(train, test, AlsParams(n_factors=4, n_epochs=8, regularization=0.4))
    assert (found.best.regularization or 1) < 0.4


def test_a_bad_start_is_mended(backend: Backend) -> None:
    train, test = split(planted())
    bad = AlsParams(n_factors=6, n_epochs=9, regularization=0.2, precision="float32")
    found = tune.tune(train, test, bad, backend=backend)
    assert (found.best.regularization or 1) < 0.2
    errors = [
        gpu.evaluate.rmse(gpu.fit(train, params, backend=backend), train.by_user, *test.coo())
        for params in (bad, found.best)
    ]
    assert errors[1] < 0.95 * errors[0]


def test_implicit_settings_are_judged_by_their_lists(backend: Backend) -> None:
    train, test = split(planted())
    params = AlsImplicitParams(n_factors=8, n_epochs=4, precision="float32")
    found = tune.tune(train, test, params, backend=backend)
    assert found.metric == "ndcg@10"
    assert found.best.alpha is not None
    scores = [trial.score for trial in found.trials if trial.round == 3]
    assert max(scores) == pytest.approx(
        gpu.evaluate.ranking(gpu.fit(train, found.best, backend=backend), train.by_user, test)["ndcg@10"], abs=0.02
    )


def test_without_epochs_there_is_one_round(backend: Backend) -> None:
    train, test = split(planted())
    found = tune.tune(train, test, EaseParams(), backend=backend)
    ridge = calibrate(train, EaseParams()).regularization
    assert [trial.params.regularization for trial in found.trials] == [
        ridge,
        *(ridge * factor for factor in tune.RIDGES_OF_EASE if factor != 1),
    ]
    assert {trial.round for trial in found.trials} == {1}
    assert [step.name for step in found.steps] == ["weights"]
    assert found.best == max(found.trials, key=lambda trial: trial.score).params


def test_what_diverges_is_left_out_and_nothing_left_is_said() -> None:
    train, test = split(planted())
    wild = SgdParams(n_factors=6, n_epochs=9, learning_rate=6.0)
    with pytest.raises(InvalidParams, match="every setting diverged"):
        tune.tune(train, test, wild)
    with pytest.raises(InvalidParams, match="nmf"):
        tune.tune(train, test, NmfParams())
    with pytest.raises(InvalidParams, match="held-out"):
        tune.tune(train, test.where(np.zeros(len(test), np.bool_)), wild)


def losses_by(monkeypatch: pytest.MonkeyPatch, score: Callable[[Params], float]) -> list[Params]:
    """Trainings cost nothing: `score` says how good their lists are; collects the parameters of all with all epochs."""
    seen: list[Params] = []

    def tried(
        _: object, __: object, params: Params, number: int, ___: object, *, times: Times | None
    ) -> tuple[trials.Trial, np.ndarray]:
        if number > 3:
            seen.append(params)
            assert (params.half_life_days is None) or times is not None
        value = score(params)
        return trials.Trial(params, number, value, 0.0), -np.full(20, value) - np.linspace(0, 1e-3, 20)

    monkeypatch.setattr(tune, "tried", tried)
    return seen


def counts() -> gpu.Ratings:
    generator = np.random.default_rng(3)
    users, items = np.nonzero(generator.random((60, 40)) < 0.4)
    plays = np.ceil(generator.pareto(1.0, len(users)) + 0.1)
    return gpu.Ratings.from_coo(users, items, np.minimum(plays, 40), (60, 40))


def test_factors_double_while_they_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = split(planted())
    seen = losses_by(monkeypatch, lambda params: min(params.width, 512))
    found = tune.tune(train, test, AlsImplicitParams(regularization_exponent=0.5))
    assert [params.width for params in seen][:3] == [256, 512, 1024]
    assert found.best.width == 512
    steps = [step for step in found.steps if step.name == "n_factors"]
    assert [(step.params.width, step.is_kept) for step in steps] == [(256, True), (512, True), (1024, False)]
    assert [step.gain for step in steps] == pytest.approx([128, 256, 0])


def test_factors_halve_if_fewer_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = split(planted())
    seen = losses_by(monkeypatch, lambda params: -max(params.width, 32))
    found = tune.tune(train, test, SgdParams(n_factors=128))
    assert ([params.width for params in seen], found.best.width) == ([256, 64, 32, 16], 32)


def test_counts_exponents_and_half_lives_are_steps_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = split(counts())
    times = Times(np.linspace(0, 100 * DAY_S, len(train)), 100 * DAY_S)
    scores: dict[str, dict[object, float]] = {
        "confidence": {"ones": 1.0},
        "regularization_exponent": {0.75: 1.0},
        "half_life_days": {25.0: 1.0},
    }

    def score(params: Params) -> float:
        return sum(values.get(getattr(params, name), 0.0) for name, values in scores.items())

    losses_by(monkeypatch, score)
    found = tune.tune(train, test, AlsImplicitParams(n_factors=8), times=times)
    assert [step.name for step in found.steps if step.is_kept] == [
        "confidence",
        "regularization_exponent",
        "half_life_days",
    ]
    best = dataclasses.asdict(found.best)
    assert {name: best[name] for name in scores} == {
        "confidence": "ones",
        "regularization_exponent": 0.75,
        "half_life_days": pytest.approx(25),
    }
    assert found.score == pytest.approx(3.0, abs=1e-2)
    without = tune.tune(train, test, AlsImplicitParams(n_factors=8))
    assert "half_life_days" not in {step.name for step in without.steps}
    assert tune.tune(train, test, EaseParams()).best.confidence == "ones"


def test_another_exponent_keeps_the_mean_ridge() -> None:
    ratings = counts()
    search = tune.Search(ratings, ratings, AlsImplicitParams(alpha=2.0, regularization=0.1), gpu.HOST, None, None)
    changed = search.exponent(0.5)
    ridges = []
    for exponent, ridge in ((1.0, 0.1), (0.5, changed["regularization"])):
        sides = ((ratings.by_user.lengths, 40), (ratings.by_item.lengths, 60))
        ridges.append(np.concatenate([ridge * (n + others / 2.0) ** exponent for n, others in sides]).mean())
    assert ridges[0] == pytest.approx(ridges[1])
