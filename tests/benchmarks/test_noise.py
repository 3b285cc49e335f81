"""Noise replaces the share it says, and models with and without it start alike."""

import numpy as np
import pytest

import gpu
from benchmarks import noise
from gpu.params import SgdParams


def test_a_share_of_the_ratings_is_drawn_anew(train):
    users, items, values = train.coo()
    noisy = noise.corrupted(train, 0.5, seed=1)
    assert np.array_equal(noisy.coo()[0], users)
    assert np.array_equal(noisy.coo()[1], items)
    assert set(noisy.coo()[2]) <= set(values)
    changed = np.mean(noisy.coo()[2] != values)
    assert changed == pytest.approx(0.5 * 0.8, abs=0.06)  # one of five draws repeats the rating
    assert not np.array_equal(noise.corrupted(train, 0.5, seed=2).coo()[2], noisy.coo()[2])
    assert np.array_equal(noise.corrupted(train, 0, seed=1).coo()[2], values)


def test_shifts_are_between_models_of_one_seed(train, held_out, monkeypatch):
    params = SgdParams(n_factors=4, n_epochs=2)
    monkeypatch.setattr(noise, "MODELS", (params,))
    rows = list(noise.run(train, held_out, [0, 1, 2], "host"))
    assert [row.noise for row in rows] == [0.01, 0.005, 0.001, 0.0005, 0.0001]
    assert [row.paper_movielens for row in rows] == [0.00157, 0.00092, 0.00040, 0.00028, 0.00016]
    seeds = [SgdParams(n_factors=4, n_epochs=2, seed=seed) for seed in range(3)]

    def rmse(ratings, setting):
        return gpu.evaluate.rmse(gpu.fit(ratings, setting), ratings.by_user, *held_out.coo())

    shifts = [rmse(noise.corrupted(train, 0.01, p.seed), p) - rmse(train, p) for p in seeds]
    assert rows[0].shift_by_seed == tuple(shifts)
    assert rows[0].shift == sorted(shifts)[1]


def test_each_model_has_the_papers_figures():
    assert {params.algorithm for params in noise.MODELS} == noise.PAPER.keys()
    assert all(len(figures) == len(noise.SHARES) for figures in noise.PAPER.values())
