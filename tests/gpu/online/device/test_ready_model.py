"""A model that learns on the device, mirrored on the host: against the model that learns on the host."""

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.base.backend import HOST, Backend
from gpu.data.model import ARRAYS, Model
from gpu.data.param_kinds import Params
from gpu.data.rating_table import RatingTable
from gpu.descent.params import CulshImplicitParams, CulshParams, SgdParams
from gpu.online import OnlineModel, prepare_online
from gpu.online import mirror as device_model
from gpu.online.drift import learns
from gpu.ranking import topn
from tests.gpu.models import SAMPLED_KINDS, random_model, random_params
from tests.gpu.online.device.live import assert_near
from tests.gpu.online_models import MEANS

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
TRAINED_USERS, TRAINED_ITEMS, MOST = 6, 9, 14  # rows at the end: 8 users and 5 items more
USER_KEYS = np.random.default_rng(0).integers(0, 2**63, MOST).astype(np.uint64)
ITEM_KEYS = np.random.default_rng(1).integers(0, 2**63, MOST).astype(np.uint64)
KINDS = pytest.mark.parametrize("kind", SAMPLED_KINDS)
LEARNING = pytest.mark.parametrize("kind", [kind for kind in SAMPLED_KINDS if learns(random_params(kind))])
OF_TRAINED_ITEMS = "item_factors", "item_bias", "explicit_weights", "implicit_weights", "item_counts"


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A history is copied, and batches are cut, in many slices."""
    for name in ("CHANGES_AT_ONCE", "SAMPLES_AT_ONCE", "USERS_AT_ONCE", "ITEMS_AT_ONCE"):
        monkeypatch.setattr(device_model, name, 3)
    monkeypatch.setattr(importlib.import_module("gpu.online.device.ready_model"), "RATINGS_AT_ONCE", 2)


class Scenario:
    """A rating table and online models that learn all its changes.

    Attributes:
        since: position from which on ratings are newer than the models, whose items learn from them.
        counts: ratings of each item that the models were trained on.
        gone: users who were forgotten.
        changed: users who have rated since.
    """

    def __init__(self, kind: type[Params], seed: int, backends: tuple[Backend, ...] = (HOST, DEVICE)) -> None:
        self.rng, self.position = np.random.default_rng(seed), 0
        self.table = RatingTable(TRAINED_USERS + 1, TRAINED_ITEMS + 1)
        self.online_models: list[OnlineModel] = []
        self.gone: set[int] = set()
        self.rate(12)
        self.since, self.changed = self.position, set[int]()
        raters = map(self.table.raters, range(TRAINED_ITEMS))
        self.counts = [np.count_nonzero(users < TRAINED_USERS) for users in raters]
        for backend in backends:
            self.follow(kind, backend)

    @property
    def keys(self) -> tuple[np.ndarray, np.ndarray]:
        return USER_KEYS[: self.table.n_users], ITEM_KEYS[: self.table.n_items]

    def follow(self, kind: type[Params], backend: Backend) -> OnlineModel:
        """Add an online model that starts as trained."""
        ready_model = prepare_online(self.model(kind), self.table, *self.keys, backend)
        self.online_models.append(ready_model.follow(*self.keys, self.since))
        return self.online_models[-1]

    def model(self, kind: type[Params]) -> Model:
        model = random_model(random_params(kind), TRAINED_USERS, TRAINED_ITEMS)
        model.mean, model.item_counts[:] = MEANS[kind], self.counts
        model.grow(self.table.n_users, self.table.n_items)
        return model

    def rate(self, n: int) -> None:
        users = self.rng.choice(sorted(set(range(self.table.n_users)) - self.gone), n)
        items, new = self.rng.integers(0, self.table.n_items, n), self.rng.integers(1, 6, n).astype(np.float32)
        new[self.rng.random(n) < 0.2] = np.nan
        self.give(users, items, new)

    def give(self, users: Any, items: Any, values: Any) -> None:
        """Rate; arguments are numbers or lists, and NaN deletes a rating."""
        users, items, values = np.broadcast_arrays(users, items, np.asarray(values, dtype=np.float32))
        n = len(users)
        positions = np.arange(self.position, self.position + n)
        self.position += n
        changes = self.table.apply(users, items, values, np.zeros(n), positions)
        if self.online_models:
            self.changed.update(users.tolist())
        for online_model in self.online_models:
            online_model.note(changes)

    def grow(self) -> None:
        sizes = (min(n + int(self.rng.integers(0, 4)), MOST) for n in (self.table.n_users, self.table.n_items))
        self.table.grow(*sizes)
        for online_model in self.online_models:
            online_model.grow(*self.keys)

    def forget(self) -> None:
        user = int(self.rng.integers(0, self.table.n_users))
        if user in self.gone or len(self.gone) > 3:
            return
        self.gone.add(user)
        items, values = self.table.drop_user(user)
        for online_model in self.online_models:
            online_model.forget(user, items, values)

    def touch(self) -> None:
        users = np.array(sorted(set(range(TRAINED_USERS)) - self.gone))[::2]
        for online_model in self.online_models:
            online_model.touch(users)

    def settle(self) -> None:
        for online_model in self.online_models:
            assert online_model.settle()

    def assert_alike(self) -> None:
        host, device = (online_model.model for online_model in self.online_models)
        for name in ("user_trained", "item_trained"):
            np.testing.assert_array_equal(getattr(host, name), getattr(device, name))
        names = set(ARRAYS) - {"projections", "user_trained", "item_trained", "item_weights"}  # the last are of EASE
        assert_near({name: getattr(device, name) for name in sorted(names)}, host, 1e-3)
        for name in OF_TRAINED_ITEMS:
            one, other = (getattr(model, name)[:TRAINED_ITEMS] for model in (host, device))
            np.testing.assert_array_equal(one, other, err_msg=name)  # both are solved on the host
        users = np.arange(self.table.n_users)
        answers = [
            topn.recommend(online_model.index, topn.users_of(online_model.model, users), self.table.rows, 5)
            for online_model in self.online_models
        ]
        np.testing.assert_allclose(answers[0][1], answers[1][1], rtol=2e-3, atol=2e-3)


def run(scenario: Scenario, steps: list[str]) -> None:
    for step in steps:
        if step == "slice":
            for online_model in scenario.online_models:
                online_model.settle(0.0)
        elif step == "late":
            for online_model in scenario.online_models:
                online_model.catch_up(0.0)
        elif step == "settle":
            scenario.settle()
        elif step.startswith("rate"):
            scenario.rate(int(step[4:]))
        else:
            getattr(scenario, step)()


STEPS = st.lists(
    st.sampled_from(
        ["rate1", "rate7", "rate20", "grow", "forget", "slice", "slice", "late", "late", "settle", "touch"]
    ),
    max_size=16,
)


@given(kind=st.sampled_from(SAMPLED_KINDS), seed=st.integers(0, 10_000), steps=STEPS)
@settings(max_examples=25)
def test_the_device_learns_the_same_as_the_host(kind: type[Params], seed: int, steps: list[str]) -> None:
    scenario = Scenario(kind, seed)
    run(scenario, steps)
    scenario.settle()
    scenario.assert_alike()


@pytest.mark.usefixtures("small_slices")
@KINDS
def test_a_history_that_changes_while_it_is_copied(kind: type[Params]) -> None:
    for seed in range(4):
        scenario = Scenario(kind, seed)
        scenario.touch()
        run(
            scenario,
            ["slice", "rate7", "slice", "forget", "grow", "slice", "rate20", "slice", "forget", "slice", "rate7"],
        )
        scenario.settle()
        scenario.assert_alike()


@KINDS
def test_waiting_changes_are_one_batch(kind: type[Params], monkeypatch: pytest.MonkeyPatch) -> None:
    live = importlib.import_module("gpu.online.device.learner")
    sizes: list[int] = []
    apply = live.DeviceLearner.apply

    def counting(self: Any, users: np.ndarray, *columns: np.ndarray) -> None:
        sizes.append(len(users))
        apply(self, users, *columns)

    scenario = Scenario(kind, 1)
    scenario.settle()
    monkeypatch.setattr(live.DeviceLearner, "apply", counting)
    run(scenario, ["rate1"] * 9 + ["settle", "rate1", "forget", "rate1", "rate1", "settle"])
    assert sizes == [9, 1, 2]


def test_batches_are_no_larger_than_lists_of_new_items_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    live, sizes = importlib.import_module("gpu.online.device.learner"), list[int]()
    scenario = Scenario(CulshParams, 8, (DEVICE,))
    apply = live.DeviceLearner.apply

    def counting(self: Any, users: np.ndarray, *rest: Any) -> None:
        sizes.append(len(users))
        apply(self, users, *rest)

    scenario.settle()
    monkeypatch.setattr(live.DeviceLearner, "apply", counting)
    monkeypatch.setattr(live.DeviceLearner, "most_changes", 4)
    run(scenario, ["rate7", "rate1", "rate7", "settle"])
    assert sizes == [4, 4, 4, 3]


@KINDS
def test_a_rehearsal_does_all_that_a_model_will_do(kind: type[Params], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step has at least one row, because CuPy compiles nothing for empty arrays."""
    ready_model, live = (importlib.import_module(f"gpu.online.device.{name}") for name in ("ready_model", "learner"))
    done: set[str] = set()

    def spy(name: str, real: Any) -> Any:
        def called(*given: Any) -> Any:
            if all(np.size(argument) for argument in given[1:]):
                done.add(name)
            return real(*given)

        return called

    names = {"apply", "touch", "forget", "agreement"} | ({"write_items"} if learns(random_params(kind)) else set())
    for name in names:
        monkeypatch.setattr(live.DeviceLearner, name, spy(name, getattr(live.DeviceLearner, name)))
    ready_model.rehearse(Scenario(kind, 0, ()).model(kind), DEVICE)
    assert done == names


@KINDS
def test_batches_leave_no_trace(kind: type[Params]) -> None:
    """Bit for bit: cut in another way, and read at another time."""
    together, apart = Scenario(kind, 3, (DEVICE,)), Scenario(kind, 3, (DEVICE,))
    steps = ["touch", "rate7", "grow", "rate20", "forget", "rate7", "grow", "rate20"]
    run(together, [*steps, "settle"])
    run(apart, ["settle", *(part for step in steps for part in (step, "settle"))])
    one, other = together.online_models[0].model, apart.online_models[0].model
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def assert_mirrored(online_model: Any) -> None:
    """The device has what answers on the host, bit for bit; but for rows that it will get with their first rating."""
    live, model = online_model._live, online_model.model
    n_users, n_items = live.shape
    found = live.fetch(np.arange(n_users), np.arange(n_items))
    for name in set(found) - {"projections"}:
        held = getattr(model, name)[: n_users if ARRAYS[name][0][0] == "U" else n_items]
        np.testing.assert_array_equal(found[name], held, err_msg=name)


def learned_items(model: Model, trained: Model) -> list[int]:
    """Trained items that are not as they were trained."""
    has_changed = [
        any((getattr(model, name)[item] != getattr(trained, name)[item]).any() for name in OF_TRAINED_ITEMS)
        for item in range(TRAINED_ITEMS)
    ]
    return np.flatnonzero(has_changed).tolist()


@LEARNING
def test_items_learn_after_events(kind: type[Params]) -> None:
    scenario = Scenario(kind, 2, (DEVICE,))
    (online_model,) = scenario.online_models
    scenario.settle()
    before = online_model.model.item_factors[4].copy()
    scenario.give([0, 1, 2, 3], 4, 1.0)
    while not online_model.settle(0.0):
        pass
    np.testing.assert_array_equal(online_model.model.item_factors[4], before)
    while not online_model.catch_up(0.0):
        pass
    assert (online_model.model.item_factors[4] != before).any()
    assert_mirrored(online_model)


@LEARNING
def test_an_item_is_restored_when_its_new_ratings_are_deleted(kind: type[Params]) -> None:
    scenario = Scenario(kind, 4, (DEVICE,))
    (online_model,), trained = scenario.online_models, scenario.model(kind)
    others = np.setdiff1d(np.arange(TRAINED_USERS), scenario.table.raters(4))
    scenario.give(others, 4, 1.0)
    scenario.settle()
    assert learned_items(online_model.model, trained) == [4]
    scenario.give(others, 4, np.nan)
    scenario.settle()
    assert learned_items(online_model.model, trained) == []
    assert_mirrored(online_model)


@KINDS
def test_a_restart_gives_the_bits_that_streaming_gave(kind: type[Params]) -> None:
    scenario = Scenario(kind, 6, (DEVICE,))
    run(scenario, ["rate7", "slice", "slice", "grow", "rate20", "settle", "rate7", "grow", "slice", "rate20", "settle"])
    restarted = scenario.follow(kind, DEVICE)
    restarted.touch(np.array(sorted(scenario.changed)))
    scenario.settle()
    for name in ARRAYS:
        one, other = (getattr(online_model.model, name) for online_model in scenario.online_models)
        np.testing.assert_array_equal(one, other, err_msg=name)
    for online_model in scenario.online_models:
        assert_mirrored(online_model)
        assert not online_model.n_waiting


def test_two_models_side_by_side() -> None:
    table_of_both = Scenario(CulshParams, 5, (DEVICE,))
    second = table_of_both.follow(CulshImplicitParams, DEVICE).model
    run(table_of_both, ["slice", "rate20", "grow", "settle", "rate7", "forget", "settle"])
    alone = Scenario(CulshImplicitParams, 5, (DEVICE,))
    run(alone, ["slice", "rate20", "grow", "settle", "rate7", "forget", "settle"])
    for name in ("user_factors", "item_factors", "neighbors"):
        one, other = getattr(second, name), getattr(alone.online_models[0].model, name)
        np.testing.assert_array_equal(one, other, err_msg=name)


def test_agreement_is_that_of_the_host() -> None:
    scenario = Scenario(CulshParams, 7)
    run(scenario, ["rate20", "rate20", "settle"])
    host, device = scenario.online_models
    item = int(np.flatnonzero((host.model.neighbors >= 0).any(axis=1) & ~host.model.item_trained)[0])
    others = host.model.neighbors[item][host.model.neighbors[item] >= 0]
    np.testing.assert_array_equal(host.agreement(item, others), device.agreement(item, others))
    sgd = Scenario(SgdParams, 7, (DEVICE,))
    assert not sgd.online_models[0].agreement(0, np.array([1, 2])).any()


def test_somebody_passing_through() -> None:
    scenario = Scenario(CulshParams, 9)
    run(scenario, ["rate20", "grow", "settle"])
    items, values = np.array([0, 3, 8], dtype=np.int32), np.array([5.0, 1.0, 4.0], dtype=np.float32)
    one, other = (online_model.fold_in(items, values) for online_model in scenario.online_models)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_shape_is_rehearsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror, made = importlib.import_module("gpu.online.device.ready_model"), []
    monkeypatch.setattr(mirror, "_rehearsed", set())
    monkeypatch.setattr(mirror, "rehearse", lambda model, backend: made.append(model.params))
    for kind in (SgdParams, CulshParams, CulshParams, SgdParams):
        Scenario(kind, 0, (DEVICE,))
    assert made == [random_params(SgdParams), random_params(CulshParams)]
