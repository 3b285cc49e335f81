"""Successive halving finds what suits the data, and never ends behind the defaults of its last round."""

import dataclasses

import numpy as np
import pytest

import gpu
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.base.backend import Backend
from gpu.base.errors import InvalidParams
from gpu.data.calibration import calibrate
from gpu.data.param_kinds import FactorParams, Params
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
    assert len(settings) == len(set(settings)) >= 14
    known = calibrate(planted(), params)
    center = {"regularization": known.regularization, "alpha": known.alpha} if params.is_implicit else {}
    assert dataclasses.replace(params, **center) == settings[0]
    assert all(epochs(setting) == epochs(params) for setting in settings)


def test_rounds_get_smaller_and_longer(backend: Backend) -> None:
    train, test = split(planted())
    params, seen = AlsParams(n_factors=6, n_epochs=8, precision="float32"), []
    outcome = tune.tune(train, test, params, backend=backend, on_trial=lambda *told: seen.append(told))
    sizes = tune.round_sizes(len(tune.grid(train, params)))
    assert [trial.round for trial in outcome.trials] == [n for n, size in enumerate(sizes, 1) for _ in range(size)]
    assert [(done, total) for _, done, total in seen] == [(n + 1, sum(sizes)) for n in range(sum(sizes))]
    assert {trial.round: epochs(trial.params) for trial in outcome.trials} == {1: 2, 2: 4, 3: 8}
    last = [trial for trial in outcome.trials if trial.round == 3]
    assert outcome.metric == "rmse"
    assert outcome.best in {min(last, key=lambda trial: trial.score).params, tune.grid(train, params)[0]}


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
    """With four factors a grid has one size, and the last round only a few settings."""
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
