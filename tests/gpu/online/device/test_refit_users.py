"""Online learning on the device: refits of users against host and oracle, and a model that lives there."""

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.data import refit_rules
from gpu.data.param_kinds import GradientParams, Params
from gpu.descent.params import CulshParams, SgdParams
from tests import reference
from tests.gpu.models import SAMPLED_KINDS, dense, matrix_of, params_as, random_matrix, random_model, random_params
from tests.gpu.online.device.live import ON_DEVICE, World, assert_near, copy_of, fetched, world
from tests.gpu.online_models import (
    ITEM_KEYS,
    MEANS,
    N_ITEMS,
    N_USERS,
    TRAINED_ITEMS,
    TRAINED_USERS,
    USER_KEYS,
    Event,
    History,
    OnlineModel,
    histories,
    history_of,
)  # fmt: skip

pytestmark = pytest.mark.gpu
LENGTHS = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 150, 0, 299, 40, 300]
N_COLUMNS = 300
KINDS = pytest.mark.parametrize("kind", SAMPLED_KINDS)


def refit_all(here: World) -> dict[str, np.ndarray]:
    """All users of a world, refitted on the device and, in place, on the host."""
    table, parameters = here.on_device()
    cupy, online = importlib.import_module("cupy"), importlib.import_module("gpu.online.device.refit_users")
    users = np.random.default_rng(0).permutation(here.table.n_users)
    refits = online.UserRefits(parameters, refit_rules.user_rules(params_as(GradientParams, here.model)))
    refits.refit(cupy.asarray(users.astype(np.int32)), here.table.n_ratings, table)
    for _ in here.refits().refit_users(users):
        pass
    return fetched(parameters)


@pytest.mark.parametrize("sizes", [(1, 4), (5, 3), (8, 0), (31, 32), (64, 33), (100, 16), (128, 64), (256, 32)])
@KINDS
def test_users(kind: type[Params], sizes: tuple[int, int]) -> None:
    here = world(kind, sizes, LENGTHS, N_COLUMNS, 20)
    before = copy_of(here.model)
    found = refit_all(here)
    assert_near(found, here.model)
    assert (found["user_factors"][12] != before.user_factors[12]).any()


def test_more_tiles_than_threads() -> None:
    here = world(SgdParams, (300, 0), [0, 1, 40, 200], N_COLUMNS, 0)
    assert_near(refit_all(here), here.model)


@KINDS
def test_a_very_long_row_is_cut_to_its_newest(kind: type[Params]) -> None:
    here = world(kind, (16, 8), [5000, 4096, 4097, 3], 6000, 100)
    assert_near(refit_all(here), here.model)


@pytest.mark.parametrize("kind", [SgdParams, CulshParams])
def test_users_solve_the_ridge_regression_of_their_ratings(kind: type[Params]) -> None:
    here = world(kind, (12, 6), [0, 1, 5, 30, 60], 60, 9)
    found, constants = refit_all(here), refit_rules.user_rules(params_as(GradientParams, here.model))
    for name in ("user_factors", "user_bias", "user_baseline"):
        getattr(here.model, name)[:] = found[name]
    matrix, arrays = matrix_of(here.table), dense(here.model)
    ridge = constants.factor, constants.factor_prior, constants.bias, constants.bias_prior
    for user in range(here.table.n_users):
        is_learned = ~np.isnan(matrix[user]) & here.model.item_trained
        expected = reference.refit_user(matrix, arrays, user, is_learned, ridge)
        np.testing.assert_allclose(found["user_factors"][user], expected[:-1], rtol=1e-4, atol=1e-5)
        assert found["user_bias"][user] == pytest.approx(expected[-1], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("n_factors", [1, 5, 32, 64, 128, 256, 300])
def test_users_are_expected_where_items_are(n_factors: int) -> None:
    here = world(CulshParams, (n_factors, 8), LENGTHS, N_COLUMNS, 20)
    table, parameters = here.on_device()
    cupy, online = importlib.import_module("cupy"), importlib.import_module("gpu.online.device.refit_users")
    params, known = here.model.params, here.model.item_factors[here.model.item_trained].astype(np.float64)
    assert isinstance(params, CulshParams)
    constants = refit_rules.beside_items(refit_rules.user_rules(params), params, known.T @ known, len(known))
    users, refits = np.arange(here.table.n_users), here.refits()
    rows = cupy.asarray(users.astype(np.int32))
    online.UserRefits(parameters, constants).refit(rows, here.table.n_ratings, table)
    for step in (*refits.prepare(), *refits.refit_users(users)):
        assert step is None
    assert_near(fetched(parameters), here.model)


@KINDS
def test_new_items_of_refitted_users_are_due(kind: type[Params]) -> None:
    here = world(kind, (4, 4), [0, 3, 50, 60], 60, 9)
    table, parameters = here.on_device()
    cupy, online = importlib.import_module("cupy"), importlib.import_module("gpu.online.device.refit_users")
    users = cupy.asarray(np.array([1, 2], dtype=np.int32))
    online.UserRefits(parameters, refit_rules.user_rules(params_as(GradientParams, here.model))).refit(users, 53, table)
    rated = np.concatenate([here.table.row(user)[0] for user in (1, 2)])
    assert np.flatnonzero(parameters.is_due.get()).tolist() == sorted(set(rated[rated >= 51].tolist()))
    assert parameters.is_touched.get().tolist() == [0, 1, 1, 0]


class Twins:
    """An online model on the host and a learner on the device."""

    def __init__(self, kind: type[Params], history: History) -> None:
        self.host = OnlineModel(kind, history)
        model = random_model(random_params(kind), TRAINED_USERS, TRAINED_ITEMS)
        model.mean = MEANS[kind]
        model.grow(N_USERS, N_ITEMS)
        table = self.host.table
        live = importlib.import_module("gpu.online.device.learner")
        self.device = live.DeviceLearner(model, table.rows, table.positions, USER_KEYS, ITEM_KEYS)
        self.host.online.settle()

    def learn(self, events: list[Event]) -> None:
        position = self.host.position
        self.host.learn(events)
        self.host.online.settle()
        learn(self.device, events, position)

    def touch(self, users: np.ndarray) -> None:
        self.host.online.touch(users)
        self.host.online.settle()
        self.device.touch(users)

    def forget(self, user: int) -> None:
        self.host.forget(user)
        self.host.online.settle()
        self.device.forget(user)

    def assert_alike(self) -> None:
        found = state(self.device)
        projections = found.pop("projections")
        assert_near(found, self.host.online.model, 1e-3)
        if (self.host.online.model.neighbors[TRAINED_ITEMS:] >= 0).any():  # else nothing is hashed on the host
            np.testing.assert_array_equal(projections, self.host.online.model.projections)


def learn(live: Any, events: list[Event], position: int) -> None:
    users, items = np.array([event.user for event in events]), np.array([event.item for event in events])
    values = np.array([np.nan if event.value is None else event.value for event in events], dtype=np.float32)
    live.apply(users, items, values, np.arange(position, position + len(events)))


def state(live: Any) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = live.fetch(np.arange(live.parameters.n_users), np.arange(live.parameters.n_items))
    return found


@given(kind=st.sampled_from(SAMPLED_KINDS), before=histories, noise=histories, after=histories, data=st.data())
@settings(max_examples=25)
def test_a_model_on_the_device_is_that_on_the_host(
    kind: type[Params], before: History, noise: History, after: History, data: st.DataObject
) -> None:
    twins = Twins(kind, before)
    twins.assert_alike()
    events = [Event(*pair, value) for pair, value in noise.items()]
    events += [Event(*pair, None) for pair in [*before, *noise] if pair not in after]
    events += [Event(*pair, value) for pair, value in data.draw(st.permutations(list(after.items())))]
    while events:
        n = data.draw(st.integers(1, len(events)))
        twins.learn(events[:n])
        events = events[n:]
    twins.assert_alike()
    twins.touch(np.arange(TRAINED_USERS))
    twins.forget(data.draw(st.integers(0, N_USERS - 1)))
    twins.assert_alike()


@KINDS
def test_the_way_to_a_history_leaves_no_trace(kind: type[Params]) -> None:
    history = history_of(random_matrix(N_USERS, N_ITEMS, 0.6))
    events = [Event(*pair, value) for pair, value in history.items()]
    noise = [Event(user, item, 5.0) for user in range(N_USERS) for item in range(0, N_ITEMS, 2)]
    gone = [Event(user, item, None) for user, item, _ in noise if (user, item) not in history]
    direct, winding = Twins(kind, {}), Twins(kind, {})
    direct.learn(events)
    direct.touch(np.arange(N_USERS))
    for n in range(0, len(noise), 5):
        winding.learn(noise[n : n + 5])
    for event in [*gone, *reversed(events)]:
        winding.learn([event])
    one, other = state(direct.device), state(winding.device)
    for name in ON_DEVICE:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@KINDS
def test_deleting_every_rating_leaves_nothing_learned(kind: type[Params]) -> None:
    twins = Twins(kind, {(7, 2): 5.0, (7, 11): 5.0})
    assert state(twins.device)["item_factors"][11].any()
    twins.learn([Event(7, 2, None), Event(7, 11, None)])
    found = state(twins.device)
    for array in (found["user_factors"][7], found["user_bias"][7], found["item_factors"][11]):
        assert not np.any(array)
    assert (found["neighbors"][11] == -1).all()
    twins.assert_alike()


@KINDS
def test_growing(kind: type[Params]) -> None:
    twins, n = Twins(kind, {(0, 1): 3.0, (6, 10): 4.0}), 40
    keys = np.arange(n, dtype=np.uint64)
    twins.host.table.grow(N_USERS + n, N_ITEMS + n)
    twins.host.online.grow(np.append(USER_KEYS, keys), np.append(ITEM_KEYS, keys))
    twins.device.grow(keys[:1], keys[:0])
    twins.device.grow(keys[1:], keys)
    twins.learn([Event(N_USERS + u, (u * j) % N_ITEMS, 1.0 + j) for u in range(n) for j in range(3)])
    twins.learn([Event(N_USERS + u, N_ITEMS + (u * j) % n, 1.0 + j) for u in range(n) for j in range(3)])
    twins.assert_alike()
    assert state(twins.device)["item_factors"][N_ITEMS:].any()
