"""Rows of ALS and NMF models solved on the device: equal to the host, and independent of other rows bit for bit."""

import importlib
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.base.backend import HOST, Backend
from gpu.data import refit_rules
from gpu.data.model import ARRAYS, Model
from gpu.data.param_kinds import Params
from gpu.data.signals import Calibration
from gpu.nmf.params import NmfParams
from gpu.online import OnlineModel, device_bytes, prepare_online
from gpu.online.exact import solver_of
from gpu.online.exact_rows import RatedRows, Solved, Sums
from gpu.online.host.exact import Solver
from tests.gpu.models import random_model
from tests.gpu.online.device.test_ready_model import Scenario, run

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
N_ITEMS = 5000
LENGTHS = [0, 1, 2, 17, 300, 0, 5, 4096, 33]
DISLIKES = 6  # the row that has nothing else
SMALL = [AlsParams(n_factors=6), AlsImplicitParams(n_factors=6), NmfParams(n_factors=6)]
KINDS: list[Callable[[int], Params]] = [
    lambda f: AlsParams(n_factors=f),
    lambda f: AlsParams(n_factors=f, biases=False),
    lambda f: AlsImplicitParams(n_factors=f),
    lambda f: NmfParams(n_factors=f),
]
IDS = ["biases", "plain", "implicit", "nmf"]
LEARNED = "user_factors", "user_bias", "item_factors", "item_bias"
EXACT = pytest.mark.parametrize("kind", [AlsParams, AlsImplicitParams, NmfParams])


@pytest.fixture
def exact() -> ModuleType:
    """The device's primitives."""
    return importlib.import_module("gpu.online.device.exact")


@pytest.fixture
def small_launches(exact: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than 35 ratings go in pieces, and few rows together."""
    for name, value in {"RATINGS_AT_ONCE": 35, "USERS_AT_ONCE": 2, "NUMBERS_AT_ONCE": 7}.items():
        monkeypatch.setattr(exact, name, value)


def model_of(params: Params, n_items: int = N_ITEMS) -> Model:
    model = random_model(params, 30, n_items)
    for factors in (model.user_factors, model.item_factors):
        factors[:] = abs(factors) if isinstance(params, NmfParams) else factors
    return model


def rows_of(model: Model, lengths: list[int]) -> RatedRows:
    """Rows of these lengths, ratings of random items, some of them dislikes where the model learns them."""
    rng, objective = np.random.default_rng(0), refit_rules.objective_of(model)
    others = np.concatenate([np.sort(rng.permutation(model.n_items)[:n]) for n in lengths]).astype(np.int32)
    values, bounds = (0.5 + rng.random(len(others))).astype(np.float32), np.append(0, np.cumsum(lengths))
    if isinstance(model.params, AlsImplicitParams):
        values[rng.random(len(values)) < 0.2] *= -1
        values[bounds[min(DISLIKES, len(lengths) - 1)] : bounds[min(DISLIKES + 1, len(lengths))]] = -1.0
    return RatedRows(others, values, bounds, objective.ridges(np.array(lengths), model.n_items))


def beside_priors(rows: RatedRows, n_factors: int) -> RatedRows:
    """The same rows, each drawn toward a prior."""
    priors = np.random.default_rng(1).standard_normal((len(rows.ridges), n_factors + 1))
    return rows._replace(priors=priors)


def sums_of(model: Model) -> Sums:
    objective, factors = refit_rules.objective_of(model), model.item_factors.astype(np.float64)
    is_kept = objective.is_implicit and not objective.is_nonnegative
    gram = np.triu(factors.T @ factors) if objective.is_implicit else np.zeros((factors.shape[1],) * 2)
    return Sums(gram, factors.sum(axis=0) if is_kept else np.zeros(factors.shape[1]))


def placed(model: Model, backend: Backend) -> Solver:
    solver = solver_of(model, backend)
    assert solver is not None
    solver.take_sums(sums_of(model), sums_of(model))
    return solver


def whole(slices: Solved) -> np.ndarray:
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return np.array(end.value)


def assert_same_rows(found: np.ndarray, expected: np.ndarray, tolerance: float = 1e-7) -> None:
    bounds = tolerance * np.linalg.norm(expected, axis=1) + 1e-300
    assert (np.linalg.norm(found - expected, axis=1) <= bounds).all()


def oracle(model: Model, rows: RatedRows, b: int) -> np.ndarray:
    """The system of row `b` of ALS in plain NumPy, also for rows with dislikes only."""
    objective, sums = refit_rules.objective_of(model), sums_of(model)
    ratings = slice(rows.bounds[b], rows.bounds[b + 1])
    z, values = model.item_factors[rows.others[ratings]].astype(np.float64), rows.values[ratings].astype(np.float64)
    gram, ridge = sums.gram + np.triu(sums.gram, 1).T, rows.ridges[b]
    if objective.is_implicit:
        weights = objective.alpha * abs(values)
        matrix = gram + (z.T * weights) @ z + ridge * np.eye(len(gram))
        right = z.T @ np.where(values > 0, 1 + weights, 0)
        right = right if right.any() else (gram + ridge * np.eye(len(gram))) @ sums.usual
        right += ridge * rows.priors[b, :-1] if len(rows.priors) else 0
        return np.append(np.linalg.solve(matrix, right), 0)
    targets = values - model.mean - model.item_bias[rows.others[ratings]]
    ridges = np.full(z.shape[1] + objective.has_biases, ridge)
    ridges[: z.shape[1]] *= objective.unit
    z = np.column_stack([z, np.ones(len(z))]) if objective.has_biases else z
    right = z.T @ targets + (ridges * rows.priors[b, : len(ridges)] if len(rows.priors) else 0)
    found = np.linalg.solve(z.T @ z + np.diag(ridges), right)
    return found if objective.has_biases else np.append(found, 0)


@pytest.mark.parametrize("n_factors", [4, 16, 64, 65, 128, 200, 256])
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_rows_are_those_of_the_host(kind: Callable[[int], Params], n_factors: int) -> None:
    model = model_of(kind(n_factors))
    rows = rows_of(model, LENGTHS)
    host, device = (whole(placed(model, backend).users(rows)) for backend in (HOST, DEVICE))
    assert_same_rows(device, host)
    assert not device[[0, 5]].any()
    if not isinstance(model.params, NmfParams):
        assert_same_rows(device[[3, 6, 7]], np.array([oracle(model, rows, b) for b in (3, 6, 7)]), 1e-6)


@pytest.mark.parametrize("n_factors", [4, 65, 128, 256])
@pytest.mark.parametrize("kind", KINDS[:3], ids=IDS[:3])
def test_rows_with_priors_are_those_of_the_host(kind: Callable[[int], Params], n_factors: int) -> None:
    model = model_of(kind(n_factors))
    rows = beside_priors(rows_of(model, LENGTHS), n_factors)
    host, device = (whole(placed(model, backend).users(rows)) for backend in (HOST, DEVICE))
    assert_same_rows(device, host)
    assert_same_rows(device[[3, 6, 7]], np.array([oracle(model, rows, b) for b in (3, 6, 7)]), 1e-6)


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_rows_of_very_many_factors_are_those_of_the_host(kind: Callable[[int], Params]) -> None:
    model = model_of(kind(1024), 400)
    rows = rows_of(model, [3, 200, 0, 1, 0, 0, 4])
    host, device = (whole(placed(model, backend).users(rows)) for backend in (HOST, DEVICE))
    assert_same_rows(device, host)


def test_three_factors() -> None:
    model = model_of(NmfParams(n_factors=3))
    rows = rows_of(model, LENGTHS)
    host, device = (whole(placed(model, backend).users(rows)) for backend in (HOST, DEVICE))
    assert_same_rows(device, host)


@pytest.mark.parametrize("n_factors", [16, 65, 256])
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_bits_do_not_depend_on_other_rows_of_the_call(
    kind: Callable[[int], Params], n_factors: int, exact: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(kind(n_factors))
    rows, solver = rows_of(model, LENGTHS), placed(model, DEVICE)
    together = whole(solver.users(rows))
    alone = [whole(solver.users(rows.part(b, b + 1)))[0] for b in range(len(LENGTHS))]
    assert together.tobytes() == np.array(alone).tobytes()
    for name, value in {"RATINGS_AT_ONCE": 35, "USERS_AT_ONCE": 2}.items():
        monkeypatch.setattr(exact, name, value)
    n_launches = len(list(solver._launches(rows, 35)))  # type: ignore[attr-defined]
    assert n_launches > 4096 // 35
    assert whole(solver.users(rows)).tobytes() == together.tobytes()


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_items_are_solved_beside_what_is_read_of_users(
    kind: Callable[[int], Params], exact: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(kind(20))
    rows = rows_of(model, LENGTHS)
    n_read: list[int] = []

    def read(users: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n_read.append(len(users))
        return model.item_factors[users], model.item_bias[users]

    host, device = (whole(placed(model, backend).items(rows, read)) for backend in (HOST, DEVICE))
    assert_same_rows(device, host)
    n_read.clear()
    monkeypatch.setattr(exact, "NUMBERS_AT_ONCE", 20 * 100)
    assert whole(placed(model, DEVICE).items(rows, read)).tobytes() == device.tobytes()
    assert max(n_read) <= 100


@EXACT
def test_items_that_change_are_read_as_they_are_then(kind: type[Params]) -> None:
    model = model_of(kind(n_factors=20))  # type: ignore[call-arg]
    solver, rows = placed(model, DEVICE), rows_of(model, LENGTHS)
    changed = np.random.default_rng(1).permutation(N_ITEMS)[:700]
    model.item_factors[changed], model.item_bias[changed] = 0.5, 0.25
    model.grow(31, N_ITEMS + 2)  # newer rows are never read
    solver.refresh(np.append(changed, [N_ITEMS, N_ITEMS + 1]))
    fresh = placed(model, DEVICE)
    for one in (solver, fresh):
        one.take_sums(sums_of(model), sums_of(model))
    assert whole(solver.users(rows)).tobytes() == whole(fresh.users(rows)).tobytes()


def test_what_fits_into_a_launch(exact: ModuleType) -> None:
    solver = placed(model_of(AlsImplicitParams(n_factors=64), 400), DEVICE)
    assert solver.n_users(np.full(2000, 1)) > 500
    assert 300 < solver.n_users(np.full(2000, 100)) <= exact.RATINGS_AT_ONCE // 100
    assert solver.n_items(np.full(2000, 100)) <= exact.NUMBERS_AT_ONCE // 64 // 100
    assert solver.n_users(np.array([10**9])) == solver.n_items(np.array([10**9])) == 1


# --- a model that follows a table -------------------------------------------------------------------------------------


class Calm(Scenario):
    """Followers whose models could have come from a training: that of NMF has no numbers below 0."""

    def model(self, kind: type[Params]) -> Model:
        model = super().model(kind)
        for factors in (model.user_factors, model.item_factors):
            factors[:] = abs(factors) if kind is NmfParams else factors
        return model


def assert_alike(host: OnlineModel, device: OnlineModel) -> None:
    for name in LEARNED:
        one, other = getattr(device.model, name), getattr(host.model, name)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=name)
    assert device.model.item_counts.tolist() == host.model.item_counts.tolist()


STEPS = ["touch", "rate7", "grow", "rate20", "slice", "forget", "rate7", "late", "grow", "rate20", "forget", "rate7"]


@EXACT
@pytest.mark.parametrize("seed", range(4))
def test_the_device_learns_the_same_as_the_host(kind: type[Params], seed: int) -> None:
    scenario = Calm(kind, seed, (HOST, DEVICE))
    run(scenario, [*STEPS, "settle"])
    assert_alike(*scenario.online_models)


def assert_same_bits(one: OnlineModel, other: OnlineModel) -> None:
    for name in ARRAYS:
        if name != "projections":
            assert getattr(one.model, name).tobytes() == getattr(other.model, name).tobytes(), name


@EXACT
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("small_launches")
def test_batches_leave_no_trace(kind: type[Params], seed: int) -> None:
    steps = [step for step in STEPS if step not in ("slice", "late")]
    together, apart = (Calm(kind, seed, (DEVICE,)) for _ in range(2))
    run(together, [*steps, "settle"])
    run(apart, ["settle", *(part for step in steps for part in (step, "slice", "late"))])
    while not (apart.online_models[0].settle(0.0) and apart.online_models[0].catch_up(0.0)):
        pass
    assert_same_bits(together.online_models[0], apart.online_models[0])


@EXACT
def test_a_restart_gives_the_bits_that_streaming_gave(kind: type[Params]) -> None:
    scenario = Calm(kind, 6, (DEVICE,))
    run(scenario, ["rate7", "slice", "grow", "rate20", "settle", "rate7", "grow", "slice", "rate20", "late", "settle"])
    restarted = scenario.follow(kind, DEVICE)
    restarted.touch(np.array(sorted(scenario.changed)))
    scenario.settle()
    assert_same_bits(*scenario.online_models)
    assert not restarted.n_waiting


@EXACT
def test_trained_items_learn(kind: type[Params]) -> None:
    """Items that are refitted, and given back what they had, where users are refitted over them."""
    scenario = Calm(kind, 2, (HOST, DEVICE))
    trained = scenario.model(kind).item_factors[:9]
    run(scenario, ["touch", "rate20", "settle"])
    assert (scenario.online_models[1].model.item_factors[:9] != trained).any()
    run(scenario, ["rate20", "forget", "slice", "late", "rate7", "settle"])
    assert_alike(*scenario.online_models)


@pytest.mark.parametrize("params", [*SMALL, AlsParams(), AlsImplicitParams(n_factors=256), AlsParams(n_factors=1024)])
def test_no_more_memory_is_taken_than_is_counted(params: Params) -> None:
    memory = importlib.import_module("gpu.cuda.memory")
    n_users, n_items, values = 3000, 2000, Calibration(values="ratings", middle=3.0, scale=(1.0, 5.0))
    model = Model.zeros(params, 3.5, (1, 5), n_users, n_items, 0, values)
    model.user_trained[:], model.item_trained[:] = True, True
    model.item_factors[:], model.user_factors[:] = 0.1, 0.1
    scenario = Scenario(AlsParams, 0, ())
    scenario.table.grow(n_users, n_items)
    rng = np.random.default_rng(0)
    columns = rng.integers(0, n_users, 60_000), rng.integers(0, n_items, 60_000), rng.integers(1, 6, 60_000)
    scenario.table.apply(*columns[:2], columns[2].astype(np.float32), np.zeros(60_000), 100 + np.arange(60_000))
    keys = np.arange(n_users, dtype=np.uint64), np.arange(n_items, dtype=np.uint64)

    def learn() -> OnlineModel:
        online_model = prepare_online(model, scenario.table, *keys, DEVICE).follow(*keys)
        online_model.touch(np.arange(200))
        while not online_model.settle(0.0):
            pass
        return online_model

    assert memory.taken_by(learn) <= device_bytes(params, n_users, n_items, scenario.table.n_ratings, DEVICE)
