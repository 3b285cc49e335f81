"""Descent on the device: the reproducible form step by step against the oracle, the fast one by what it learns."""

import copy
import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpu
from gpu.base.backend import HOST, Backend
from gpu.data.baselines import baselines, shrunk_biases
from gpu.data.model import Model
from gpu.data.param_kinds import Precision
from gpu.data.views import Rates
from gpu.descent.host import Descent
from gpu.descent.params import CulshImplicitParams, CulshParams, SgdParams
from gpu.descent.trainer import rates_at, start_model
from gpu.training.loop import State
from tests import reference
from tests.data import planted, split
from tests.gpu.fitted import assert_equal_models
from tests.gpu.models import params_as, ratings_of
from tests.gpu.strategies import as_reference, random_model

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
RATES = Rates(*(np.float32(x) for x in (0.05, 0.04, 0.03, 0.1, 0.2, 0.3)))
WORD = 1 << 32


@pytest.fixture(scope="module")
def descent() -> ModuleType:
    """The device's side."""
    return importlib.import_module("gpu.descent.device")


def sparse_matrix(n_users: int, n_items: int, share: float = 0.3, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    matrix = generator.integers(1, 6, (n_users, n_items)).astype(np.float64)
    matrix[generator.random(matrix.shape) > share] = np.nan
    matrix[:, 0] = 3.0  # one very long column,
    matrix[n_users // 2] = np.nan  # a user without ratings,
    matrix[:, n_items // 2] = np.nan  # and an item without any
    return matrix


def begun(descent: ModuleType, matrix: np.ndarray, model: Model, **given: Any) -> Any:
    params = type(model.params)(**{**vars(model.params), "precision": "float32", **given})
    started = descent.Descent(model, params, ratings_of(matrix), None)
    started.prepare()
    return started


def start_of(segment: np.ndarray, salt: int) -> int:
    mixed = ((int(segment[1]) ^ salt) * 0x9E3779B1) % WORD
    mixed ^= mixed >> 15
    return mixed * 0x85EBCA77 % WORD * int(segment[2]) >> 32


def visits_of(started: Any, seed: int, epoch: int) -> list[tuple[int, int, float]]:
    """(user, item, target) in the order of the reproducible form, read off its layout."""
    layout, at = started.visits.layout, started.tiles
    generator = np.random.default_rng((seed, epoch))
    salt = int(generator.integers(2**32, dtype=np.uint64))
    records, segments, cuts = (x.get() for x in (layout.records, layout.segments, layout.cuts))
    begins, users = layout.tile_begin.get(), at.users.get()
    found = []
    for shift in generator.permutation(at.n_tiles):
        for tile in range(at.n_tiles):
            cell = (tile + shift) % at.n_tiles
            for segment in segments[cuts[tile, cell] : cuts[tile, cell + 1]]:
                item, begin, length, _ = segment
                for step in range(length):
                    at_record = begins[tile] + begin + (start_of(segment, salt) + step) % length
                    local, bits = records[at_record]
                    target = float(np.uint32(bits).view(np.float32))
                    found.append((int(users[tile * at.tile_users + local]), int(item), target))
    return found


@pytest.mark.parametrize("kind", ["explicit", "implicit", "implicit with dislikes"])
@pytest.mark.parametrize(("k", "n_factors"), [(0, 3), (0, 32), (0, 256), (1, 8), (5, 20), (5, 128), (33, 96)])
def test_an_epoch_is_eq_5_in_its_order(descent: ModuleType, k: int, n_factors: int, kind: str) -> None:
    matrix, implicit = sparse_matrix(70, 40), kind != "explicit"
    model = random_model(matrix, k, implicit, 2 - (kind == "implicit with dislikes"), n_factors)
    model.user_factors /= np.float32(np.sqrt(n_factors))  # so that steps stay stable
    model.item_factors /= np.float32(np.sqrt(n_factors))
    expected = as_reference(model)
    started = begun(descent, matrix, model, deterministic=True)
    started.learn(3, RATES)
    params = params_as(CulshParams, model)
    visits = visits_of(started, params.seed, 3)
    n, n_likes = np.count_nonzero(~np.isnan(matrix)), np.count_nonzero(matrix >= model.middle)
    assert len(visits) == n + (n_likes * params_as(CulshImplicitParams, model).n_negatives if implicit else 0)
    assert sum(target == 1 for _, _, target in visits) == n_likes or not implicit
    reference.sgd_epoch(matrix, expected, visits, RATES)
    learned = started.fetch()
    tolerance = 2e-3 if k and not implicit else 2e-4  # residuals are float16
    for name in ("user_factors", "item_factors", "user_bias", "item_bias", "explicit_weights", "implicit_weights"):
        np.testing.assert_allclose(getattr(learned, name), expected[name], rtol=2e-3, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("kind", [SgdParams, CulshParams])
def test_errors_are_those_of_the_fetched_model(descent: ModuleType, kind: type[SgdParams], deterministic: bool) -> None:
    train, test = split(planted())
    params = kind(n_factors=8, n_epochs=2, deterministic=deterministic, precision="float32")
    reports: list[gpu.EpochReport] = []
    model = gpu.fit(train, params, backend=DEVICE, test=test, on_epoch=reports.append)
    found = dict(reports[-1].metrics)
    assert found["train_rmse"] == pytest.approx(gpu.evaluate.rmse(model, train.by_user, *train.coo()), rel=1e-5)
    assert found["test_rmse"] == pytest.approx(gpu.evaluate.rmse(model, train.by_user, *test.coo()), rel=1e-5)


@pytest.mark.parametrize("n_factors", [4, 24, 96, 128, 160])
def test_factors_in_half_precision_are_those_in_single_to_rounding(descent: ModuleType, n_factors: int) -> None:
    matrix = sparse_matrix(70, 40)
    model = random_model(matrix, 5, False, 1, n_factors)
    model.user_factors /= np.float32(np.sqrt(n_factors))
    model.item_factors /= np.float32(np.sqrt(n_factors))
    learned = []
    for precision in ("float32", "float16"):
        started = begun(descent, matrix, copy.deepcopy(model), deterministic=True, precision=precision)
        started.learn(3, RATES)
        learned.append(started.fetch())
    for name in ("user_factors", "item_factors", "user_bias", "item_bias", "explicit_weights", "implicit_weights"):
        exact, rounded = (getattr(found, name) for found in learned)
        np.testing.assert_allclose(rounded, exact, rtol=1e-2, atol=1e-2, err_msg=name)


@pytest.mark.parametrize("kind", [SgdParams, CulshParams, CulshImplicitParams])
def test_deterministic_means_equal_bits(descent: ModuleType, kind: type[SgdParams]) -> None:
    params = kind(n_factors=8, n_epochs=3, deterministic=True)
    assert_equal_models(gpu.fit(planted(), params, backend=DEVICE), gpu.fit(planted(), params, backend=DEVICE))


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("kind", [SgdParams, CulshParams])
def test_device_and_host_learn_the_same(kind: type[SgdParams], precision: Precision, deterministic: bool) -> None:
    train, test = split(planted(n_users=2000, n_items=400))
    params = kind(n_factors=6, n_epochs=30, learning_rate=0.03, precision=precision, deterministic=deterministic)
    errors = []
    for backend in (HOST, DEVICE):
        reports: list[gpu.EpochReport] = []
        gpu.fit(train, params, backend=backend, test=test, on_epoch=reports.append)
        errors.append(reports[-1].metrics["test_rmse"])
    assert errors[1] == pytest.approx(errors[0], rel=0.02)


@pytest.mark.parametrize("n_users", [1, 31, 5000])
@pytest.mark.parametrize("n_items", [1, 33, 70_000])
def test_every_rating_is_laid_out_once(descent: ModuleType, n_users: int, n_items: int) -> None:
    generator = np.random.default_rng(n_users + n_items)
    users, items = generator.integers(0, n_users, 20_000), generator.integers(0, n_items, 20_000)
    items[:5000] = n_items // 2
    ratings = gpu.Ratings.from_coo(users, items, generator.integers(1, 6, 20_000).astype(float), (n_users, n_items))
    model = Model.zeros(SgdParams(n_factors=8), 3.0, (1.0, 5.0), n_users, n_items)
    started = descent.Descent(model, SgdParams(n_factors=8), ratings, None)
    started.prepare()
    layout, at = started.visits.layout, started.tiles
    begins, lists, listed = (x.get() for x in (layout.tile_begin, layout.segment_begin, layout.n_segments))
    records, segments, owners = layout.records.get(), layout.segments.get(), at.users.get()
    found = []
    for tile in range(at.n_tiles):
        of_tile = segments[lists[tile] : lists[tile] + listed[tile]]
        assert (np.diff(of_tile[:, 2]) <= 0).all()
        for item, begin, length, _ in of_tile:
            for local, bits in records[begins[tile] + begin :][:length]:
                found.append((owners[tile * at.tile_users + local], item, np.uint32(bits).view(np.float32)))
    assert sorted(found) == sorted(zip(*ratings.coo(), strict=True))


@pytest.mark.parametrize(
    ("n_users", "few", "expected"),
    [
        (300, 1, (4, 75, 4)),  # there is room in one tile a block
        (1000, 0, (12, 84, 12)),  # three tiles a block, evenly
        (1000, 1, (12, 100, 8)),  # two full tiles a block, and one for users with few ratings
        (800, 1, (8, 100, 8)),
    ],
)
def test_tiles_are_full_if_few_ratings_are_left(
    descent: ModuleType, n_users: int, few: int, expected: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiles = importlib.import_module("gpu.descent.device_tiles")
    monkeypatch.setattr(tiles, "FEW", few)
    lengths = np.arange(n_users, dtype=np.int64)[::-1].copy()
    tiling = tiles.tiling_of(lengths, 10**7, 100, 4)
    assert tuple(tiling) == expected
    dealt = tiles.deal(descent.to_device(lengths), tiling)
    users, places = dealt.users.get(), dealt.places.get()
    np.testing.assert_array_equal(users[places], np.arange(n_users))
    assert sorted(users[users >= 0]) == list(range(n_users))
    sums = np.where(users >= 0, lengths[users], 0).reshape(tiling.n_tiles, -1).sum(axis=1)
    assert np.ptp(sums[: tiling.n_full]) <= n_users
    assert (sums[tiling.n_full :] < sums[: tiling.n_full].min()).all()


def test_full_tiles_learn_like_even_ones(descent: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    tiles, errors = importlib.import_module("gpu.descent.device_tiles"), []
    ratings, test = split(planted())
    params = SgdParams(n_factors=8, n_epochs=8)
    for few in (0, 1):
        monkeypatch.setattr(tiles, "FEW", few)
        monkeypatch.setattr(descent, "tiling_of", lambda lengths, n, *_: tiles.tiling_of(lengths, n, 80, 2))
        model = start_model(ratings, params, baselines(ratings), shrunk_biases(ratings))
        found = descent.Descent(model, params, ratings, test)
        found.prepare()
        assert found.tiles.n_tiles == 4
        for epoch in range(8):
            found.learn(epoch, rates_at(params, epoch))
        errors.append((found.train_error(), found.test_rmse()))
    assert errors[1] == pytest.approx(errors[0], rel=0.03)


def test_parts_of_an_epoch_learn_like_the_whole(descent: ModuleType) -> None:
    ratings, test = split(planted())
    params, errors = SgdParams(n_factors=8, n_epochs=8), []
    for n_parts in (1, 3):
        model = start_model(ratings, params, baselines(ratings), shrunk_biases(ratings))
        found = descent.Descent(model, params, ratings, test)
        found.prepare()
        for epoch in range(8):
            for part in range(n_parts):
                found.learn(epoch, rates_at(params, epoch), part, n_parts)
        errors.append((found.train_error(), found.test_rmse()))
    assert errors[1] == pytest.approx(errors[0], rel=0.03)


def test_a_training_is_resumed_with_equal_bits(descent: ModuleType) -> None:
    ratings, params = planted(), SgdParams(n_factors=8, n_epochs=4, deterministic=True)

    def trained(first: int, state: State | None) -> tuple[Descent, State]:
        model = start_model(ratings, params, baselines(ratings), shrunk_biases(ratings))
        found: Descent = descent.Descent(model, params, ratings, None)
        found.prepare()
        if state is not None:
            found.restore(state)
        for epoch in range(first, 4):
            found.learn(epoch, rates_at(params, epoch))
            if epoch == 1:
                middle = {name: array.copy() for name, array in found.state().items()}
        return found, middle if first < 2 else found.state()

    whole, middle = trained(0, None)
    resumed, _ = trained(2, middle)
    for name, array in whole.state().items():
        np.testing.assert_array_equal(resumed.state()[name], array, err_msg=name)
