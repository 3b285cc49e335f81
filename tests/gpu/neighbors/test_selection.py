"""α, h and β come from held-out pairs, if the caller has given none and there are enough."""

import numpy as np
import pytest

import gpu
from gpu.neighbors.params import SETTINGS, NeighborsParams
from gpu.training import selection, tune
from tests.data import split
from tests.gpu.neighbors.test_trainer import sparse


def test_the_data_decides_what_the_caller_leaves_open() -> None:
    ratings = sparse(900, 120, 30)
    chosen = selection.selected(ratings, NeighborsParams())
    names = "popularity_exponent", "popularity_prior", "activity_exponent"
    assert tuple(getattr(chosen.params, name) for name in names) in SETTINGS
    (reason,) = chosen.reasons
    assert reason.count(" with popularity_exponent=") == len(SETTINGS)
    model = gpu.fit(ratings, NeighborsParams())
    assert (model.params, model.calibration.chosen) == (chosen.params, chosen.reasons)


def test_a_setting_that_is_better_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = {setting: -np.full(50, 0.1 + 0.01 * (n % 3)) for n, setting in enumerate(SETTINGS)}

    def tried(rest: object, held_out: object, params: NeighborsParams, backend: object) -> np.ndarray:
        found = params.popularity_exponent, params.popularity_prior, params.activity_exponent
        return losses[found]  # type: ignore[index]

    monkeypatch.setattr(selection, "losses_of", tried)
    params = selection.selected(sparse(900, 120, 30), NeighborsParams(n_neighbors=7)).params
    assert params == NeighborsParams(7, *SETTINGS[2])


def test_what_is_given_stays_and_little_data_decides_nothing() -> None:
    given = selection.selected(sparse(900, 120, 30), NeighborsParams(popularity_prior=7.0))
    assert (given.params, given.reasons) == (NeighborsParams(500, SETTINGS[0][0], 7.0, SETTINGS[0][2]), ())
    few = selection.selected(sparse(100, 60, 10), NeighborsParams())
    assert few.params == NeighborsParams(500, *SETTINGS[0])
    assert "nothing was tested: expected 1,000 held-out pairs" in few.reasons[0]


def test_rows_that_are_too_long_to_try_keep_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MOST_TERMS", 1e3)
    found = selection.selected(sparse(900, 120, 30), NeighborsParams())
    assert found.params == NeighborsParams(500, *SETTINGS[0])
    assert "pairs of items" in found.reasons[0]


def test_tune_tries_every_setting_of_the_grid() -> None:
    train, test = split(sparse(300, 80, 15))
    found = tune.tune(train, test, NeighborsParams(n_neighbors=20))
    settings = [trial.params for trial in found.trials]
    assert settings[0] == NeighborsParams(20, *SETTINGS[0])
    assert len(settings) == len(NeighborsParams.grid) == len(set(settings))
    assert found.best in settings
