"""Newcomers are not trained before, and online learning is that of the service."""

import numpy as np
import pytest

import gpu
from benchmarks import newcomers
from benchmarks.newcomers import Newcomers, Trial
from gpu.params import CulshParams, params_for

PARAMS = CulshParams(n_factors=4, n_neighbors=4, n_epochs=3, n_bits=64)


@pytest.fixture(autouse=True)
def many_newcomers(monkeypatch):
    monkeypatch.setattr(newcomers, "SHARE", 0.1)


@pytest.fixture
def trial(train, held_out):
    return Trial(train, held_out, PARAMS, gpu.HOST)


def test_the_share_of_each_side_is_new(train, held_out):
    new = Newcomers.drawn(train, 0)
    assert (new.users.sum(), new.items.sum()) == (4, 2)
    assert not np.array_equal(new.users, Newcomers.drawn(train, 1).users)
    users, items, _ = train.coo()
    assert np.array_equal(new.rated(train), new.users[users] | new.items[items])
    parts = new.parts(held_out)
    assert parts["all"].all()
    assert np.array_equal(parts["others"], ~new.rated(held_out))


def test_newcomers_were_not_trained_and_then_are_learned(train, trial):
    new = Newcomers.drawn(train, PARAMS.seed)
    assert not trial._without_newcomers.user_trained[new.users].any()
    assert not trial._without_newcomers.item_trained[new.items].any()
    for is_kept in (True, False):
        errors = trial.learned(is_kept=is_kept).errors
        others = trial.parts["others"]
        assert (errors[~others] != trial.unseen[~others]).any()
        # without a new item among what a user has rated and without a refit, nothing about the pair is new
        assert np.array_equal(errors[others], trial.unseen[others]) == is_kept


@pytest.mark.parametrize("is_kept", [True, False])
def test_learning_ends_alike_wherever_it_runs(trial, is_kept, backend):
    known = trial.learned(is_kept=is_kept).errors
    trial._backend = backend
    np.testing.assert_allclose(trial.learned(is_kept=is_kept).errors, known, rtol=0, atol=5e-3)


def test_a_row_for_each_part_and_what_becomes_of_known_users(train, held_out, monkeypatch):
    monkeypatch.setattr(newcomers, "params_for", lambda name, given: params_for(name, vars(PARAMS) | given))
    rows = list(newcomers.run(train, held_out, ["culsh"], [4], [0, 1, 2], "host"))
    assert [row.known_users for row in rows] == ["learned"] * 4 + ["kept"] * 4
    assert [row.test_ratings_of for row in rows[:4]] == ["all", "new users", "new items", "others"]
    assert rows[0].n_ratings == len(held_out)
    for row in rows:
        assert row.difference == sorted(row.difference_by_seed)[1]
    trials = [Trial(train, held_out, CulshParams(**vars(PARAMS) | {"seed": seed}), gpu.HOST) for seed in range(3)]
    everything = [newcomers.rmse(trial.retrained, trial.parts["all"]) for trial in trials]
    assert rows[0].retrained == sorted(everything)[1]
