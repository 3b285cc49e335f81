"""Grids are large enough, valid, and follow the data."""

import json

import pytest

import gpu
from benchmarks import grids
from benchmarks.peers.contract import ESTIMATES, FACTORS, LISTS, Facts
from gpu.params import params_for

FACTS = Facts(mean=3.5, std=1.1, density=0.04, n_factors=32)
ALL = [name for names in grids.ALGORITHMS.values() for name in names]


def test_every_algorithm_has_a_task():
    assert set(ALL) == set(gpu.ALGORITHMS)


@pytest.mark.parametrize("algorithm", ALL)
def test_settings_are_distinct_and_accepted_at_one_number_of_factors(algorithm):
    settings = grids.grid(algorithm, FACTS)
    assert len({json.dumps(one) for one in settings}) == len(settings)
    assert len(settings) >= (2 if algorithm == "nmf" else 40)
    assert {params_for(algorithm, one).width for one in settings} == {params_for(algorithm, {}).width}


@pytest.mark.parametrize("density", [0.0001, 0.04, 0.3])
def test_alpha_follows_the_density(density):
    alphas = {one["alpha"] for one in grids.grid("als-implicit", FACTS._replace(density=density))}
    assert len(alphas) == 6
    assert min(alphas) == pytest.approx(density**-0.5 / 4, rel=0.05)
    assert max(alphas) == pytest.approx(8 * density**-0.5, rel=0.05)


def test_alphas_that_are_known_to_be_good_lie_inside():
    for density, good in ((0.045, 4), (0.00066, 40)):  # MovieLens-1M and Gowalla, pairs as ones
        alphas = sorted(one["alpha"] for one in grids.grid("als-implicit", FACTS._replace(density=density)))
        assert alphas[0] < good / 2
        assert 2 * good < alphas[-1]


def test_values_are_divided_by_what_the_task_depends_on():
    assert [grids.unit(task, FACTS) for task in (ESTIMATES, LISTS, FACTORS)] == [1.1, 3.5, 1.0]


def test_geometric_steps_are_even():
    assert grids.geometric(1, 16, 5) == [1, 2, 4, 8, 16]
