"""Refits of new items on the device against host and oracle."""

import importlib

import numpy as np
import pytest

from gpu.data import refit_rules
from gpu.data.param_kinds import GradientParams, Params
from gpu.descent.params import CulshImplicitParams, CulshParams, SgdParams
from tests import reference
from tests.gpu.models import SAMPLED_KINDS, dense, matrix_of, params_as
from tests.gpu.online.device.live import World, assert_near, fetched, world

pytestmark = pytest.mark.gpu
LENGTHS = [0, 1, 2, 40, 17, 80, 60, 99, 100, 33, 7, 90]
MANY = 6 * LENGTHS  # so that items have more raters than a warp has lanes, or fewer
N_ITEMS, N_NEW = 100, 30
KINDS = pytest.mark.parametrize("kind", SAMPLED_KINDS)


def refit_all(here: World) -> dict[str, np.ndarray]:
    """All new items of a world, refitted on the device and, in place, on the host."""
    table, parameters = here.on_device()
    newcomers = importlib.import_module("gpu.online.device.refit_items")
    items = np.flatnonzero(~here.model.item_trained)
    parameters.is_due.fill(1)
    found = newcomers.ItemRefits(parameters, refit_rules.item_rules(params_as(GradientParams, here.model))).refit(table)
    assert sorted(found.get().tolist()) == items.tolist()
    for _ in here.refits().refit_items(items):
        pass
    return fetched(parameters)


@pytest.mark.parametrize("sizes", [(1, 4), (5, 3), (8, 0), (31, 32), (64, 33), (128, 32)])
@KINDS
@pytest.mark.parametrize("lengths", [LENGTHS, MANY])
def test_items(kind: type[Params], sizes: tuple[int, int], lengths: list[int]) -> None:
    here = world(kind, sizes, lengths, N_ITEMS, N_NEW)
    found = refit_all(here)
    assert_near(found, here.model, 5e-4)
    assert found["item_factors"][N_ITEMS - N_NEW :].any(axis=1).sum() > N_NEW / 2


def test_more_tiles_than_threads() -> None:
    here = world(CulshParams, (128, 128), MANY, 100, 10)
    assert_near(refit_all(here), here.model, 5e-4)


@KINDS
def test_a_very_long_column_is_read_in_part(kind: type[Params]) -> None:
    here = world(kind, (8, 4), [1] * 3000 + [2] * 1100, 2, 1)
    assert here.table.item_counts[1] > refit_rules.MAX_RATERS
    assert_near(refit_all(here), here.model, 5e-4)


@pytest.mark.parametrize("kind", [CulshParams, CulshImplicitParams])
def test_items_are_refitted_in_parts(kind: type[Params], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("gpu.online.device.refit_items"), "AT_ONCE", 7)
    here = world(kind, (8, 4), MANY, N_ITEMS, N_NEW)
    assert_near(refit_all(here), here.model, 5e-4)


@pytest.mark.parametrize("kind", [SgdParams, CulshParams])
@pytest.mark.parametrize("lengths", [LENGTHS, MANY])
def test_items_solve_the_ridge_regression_of_their_raters(kind: type[Params], lengths: list[int]) -> None:
    here = world(kind, (6, 4), lengths, N_ITEMS, N_NEW)
    found, constants = refit_all(here), refit_rules.item_rules(params_as(GradientParams, here.model))
    ridge = (
        constants.factor, constants.factor_prior, constants.bias, constants.bias_prior,
        constants.weight, constants.weight_prior,
    )  # fmt: skip
    matrix, arrays = matrix_of(here.table), dense(here.model)
    for item in range(N_ITEMS - N_NEW, N_ITEMS):
        expected = reference.refit_item(matrix, arrays, item, ridge)
        names = "item_factors", "item_bias", "explicit_weights", "implicit_weights"
        solved = np.concatenate([np.atleast_1d(found[name][item]) for name in names])
        np.testing.assert_allclose(solved, expected, rtol=1e-3, atol=1e-5)
