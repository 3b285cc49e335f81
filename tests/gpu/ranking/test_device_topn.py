"""Ranking on the device against plain NumPy and its twin on the host: sizes, masks, ties, neighbors, bounds."""

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpu.als.params import AlsParams
from gpu.base.backend import HOST, Backend
from gpu.data.model import NO_NEIGHBOR, Model
from gpu.data.ratings import Rows
from gpu.data.signals import Calibration
from gpu.descent.params import CulshImplicitParams, CulshParams
from gpu.ranking import topn
from gpu.ranking.eligible import Eligible
from gpu.ranking.item_index import ItemIndex
from tests.gpu.models import OF_RATINGS

pytestmark = pytest.mark.gpu
DEVICE = Backend("device", "under test")
PLAIN, NEAR, NEAR_IMPLICIT = AlsParams, CulshParams, CulshImplicitParams
Lists = tuple[np.ndarray, np.ndarray]


@pytest.fixture(autouse=True)
def device() -> ModuleType:
    """The device's primitives."""
    return importlib.import_module("gpu.ranking.device_topn")


def model_of(
    kind: type[AlsParams | CulshParams], n_users: int, n_items: int, n_factors: int, spread: float = 1.0
) -> Model:
    """Parameters at random; a sixth of the slots has no neighbor, ratings below 3 are dislikes."""
    rng = np.random.default_rng(n_items + n_factors)
    given: dict[str, Any] = {} if kind is PLAIN else {"n_neighbors": 8, "n_bits": 64}
    model = Model.zeros(
        kind(n_factors=n_factors, **given), 3.5, (1, 5), n_users, n_items, given.get("n_bits", 0), OF_RATINGS
    )
    for name in ("user_factors", "item_factors", "user_bias", "item_bias", "user_baseline", "item_baseline"):
        array = getattr(model, name)
        array[:] = spread * rng.standard_normal(array.shape, dtype=np.float32) / 4
    slots = model.neighbors.shape
    model.neighbors[:] = rng.integers(0, n_items, slots)
    model.neighbors[rng.random(slots) < 1 / 6] = NO_NEIGHBOR
    model.explicit_weights[:], model.implicit_weights[:] = rng.standard_normal((2, *slots), dtype=np.float32) / 4
    return model


def rated(n_users: int, n_items: int, most: int) -> Rows:
    """Up to `most` ratings a user, none for some."""
    rng = np.random.default_rng(most)
    lists = [np.unique(rng.integers(0, n_items, rng.integers(0, most + 1))) for _ in range(n_users)]
    lengths = np.array([len(items) for items in lists], dtype=np.int64)
    items = np.concatenate(lists).astype(np.int32)
    return Rows(np.cumsum(lengths) - lengths, lengths, items, rng.integers(1, 6, len(items)).astype(np.float32))


def ask(index: ItemIndex, rows: Rows, n: int, users: np.ndarray | None = None, **options: Any) -> Lists:
    users = np.arange(index.model.n_users) if users is None else users
    return topn.recommend(index, topn.users_of(index.model, users), topn.rows_of(rows, users), n, **options)


def exact_scores(model: Model, rows: Rows, user: int) -> np.ndarray:
    """[004] eq. 1 for all items in float64; duplicates in a list are slots of their own."""
    own = slice(rows.starts[user], rows.starts[user] + rows.lengths[user])
    scores = model.mean + model.user_bias[user] + model.item_bias.astype(np.float64)
    scores += model.item_factors.astype(np.float64) @ model.user_factors[user]
    if not model.neighbors.shape[1]:
        return scores
    residuals = np.zeros(model.n_items + 1)
    residuals[rows.items[own]] = topn.residuals_of(
        model, rows.items[own], rows.values[own], float(model.user_baseline[user])
    )
    is_rated = np.zeros(model.n_items + 1, dtype=bool)
    is_rated[rows.items[own]] = True
    listed, is_slot = is_rated[model.neighbors], model.neighbors >= 0
    explicit = np.where(listed & is_slot, residuals[model.neighbors] * model.explicit_weights, 0).sum(axis=1)
    implicit = np.where(~listed & is_slot, model.implicit_weights, 0).sum(axis=1)
    n_rated, n_unrated = (listed & is_slot).sum(axis=1), (~listed & is_slot).sum(axis=1)
    return scores + explicit / np.sqrt(np.maximum(n_rated, 1)) + implicit / np.sqrt(np.maximum(n_unrated, 1))


def assert_best(found: Lists, exact: np.ndarray, allowed: np.ndarray, n: int) -> None:
    """Distinct allowed items with the oracle's scores, in order, and none better left out."""
    items, scores = found[0][found[0] >= 0], found[1][found[0] >= 0]
    assert len(items) == len(np.unique(items)) == min(n, allowed.sum())
    assert allowed[items].all()
    tolerance = 1e-5 * (1 + np.abs(exact).max())
    np.testing.assert_allclose(scores, exact[items], atol=tolerance)
    assert ((np.diff(scores) < 0) | ((np.diff(scores) == 0) & (np.diff(items) > 0))).all()
    np.testing.assert_allclose(scores, -np.sort(-exact[allowed])[: len(items)], atol=tolerance)
    assert (found[0][len(items) :] == -1).all()
    assert (found[1][len(items) :] == -np.inf).all()


def assert_right(model: Model, rows: Rows, n: int, backend: Backend = DEVICE, *, include_seen: bool = False) -> Lists:
    items, scores = ask(ItemIndex(model, backend), rows, n, include_seen=include_seen)
    for user in range(model.n_users):
        allowed = np.ones(model.n_items, dtype=bool)
        if not include_seen:
            allowed[rows.items[rows.starts[user] : rows.starts[user] + rows.lengths[user]]] = False
        assert_best((items[user], scores[user]), exact_scores(model, rows, user), allowed, n)
    return items, scores


@pytest.mark.parametrize("kind", [PLAIN, NEAR, NEAR_IMPLICIT])
@pytest.mark.parametrize("n_items", [1, 31, 33, 4096, 4097, 30_011])
@pytest.mark.parametrize(("n_users", "n_factors", "n"), [(1, 8, 1), (16, 50, 10), (17, 64, 3), (70, 128, 100)])
def test_sizes(n_users, n_factors, n, n_items, kind):
    model, rows = model_of(kind, n_users, n_items, n_factors), rated(n_users, n_items, min(60, n_items))
    found, expected = assert_right(model, rows, n), ask(ItemIndex(model), rows, n)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [NEAR, NEAR_IMPLICIT])
def test_users_with_thousands_of_ratings_beside_others(kind):
    """They touch nearly all items, and their marks are nearly all set."""
    model, (few, many) = model_of(kind, 24, 100_003, 64), (rated(20, 100_003, 5), rated(4, 100_003, 60_000))
    starts, lengths = np.append(few.starts, len(few.items) + many.starts), np.append(few.lengths, many.lengths)
    rows = Rows(starts, lengths, np.append(few.items, many.items), np.append(few.values, many.values))
    found, expected = assert_right(model, rows, 10), ask(ItemIndex(model), rows, 10)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-5)


def test_values_are_not_needed_where_nothing_is_a_dislike():
    model, rows = model_of(NEAR_IMPLICIT, 16, 4097, 50), rated(16, 4097, 60)
    model.calibration = Calibration()
    assert_right(model, rows, 10)


@pytest.mark.parametrize("n_factors", [16, 100, 200, 256])
def test_many_users_and_long_lists(n_factors):
    model, rows = model_of(PLAIN, 300, 150_001, n_factors), rated(300, 150_001, 200)
    some = np.array([0, 7, 299])
    items, scores = ask(ItemIndex(model, DEVICE), rows, 1000)
    for user in some.tolist():
        allowed = np.ones(model.n_items, dtype=bool)
        allowed[rows.items[rows.starts[user] : rows.starts[user] + rows.lengths[user]]] = False
        assert_best((items[user], scores[user]), exact_scores(model, rows, user), allowed, 1000)


@pytest.mark.parametrize("kind", [PLAIN, NEAR])
def test_bits_do_not_depend_on_the_form_of_the_request(device, kind):
    """The scan, few users, many users, long pages and the sort of all scores: one order."""
    model, rows = model_of(kind, 90, 20_000, 40), rated(90, 20_000, 300)
    index = ItemIndex(model, DEVICE)
    items, scores = ask(index, rows, 400)
    pages = [ask(index, rows, 100, offset=offset) for offset in (0, 100, 200, 300)]
    np.testing.assert_array_equal(np.concatenate([page[0] for page in pages], axis=1), items)
    for user in (0, 33, 89):
        alone = ask(index, rows, 1000, np.array([user]), offset=100)  # beyond 1,024: all scores are sorted
        np.testing.assert_array_equal(alone[0][0, :300], items[user, 100:])
        np.testing.assert_array_equal(alone[1][0, :300], scores[user, 100:])
        candidates = [np.arange(20_000)]
        among = ask(index, rows, 400, np.array([user]), candidates=candidates)
        np.testing.assert_array_equal(among[0][0], items[user])
        np.testing.assert_array_equal(among[1][0], scores[user])


@pytest.mark.parametrize("kind", [PLAIN, NEAR])
@pytest.mark.parametrize("spread", [0.0, 1e-9, 1e-20, 1e6])
def test_ties_and_any_magnitude(spread, kind):
    """Where all scores are equal, or within the bound, rows do not fit, and are sorted."""
    assert_right(model_of(kind, 5, 9_000, 24, spread), rated(5, 9_000, 50), 20)


@pytest.mark.parametrize("n_factors", [20, 64, 300])
def test_bounds_hold_for_uneven_factors(n_factors):
    """Single factors dominate rows, and rows differ in length by many orders."""
    model, rows, rng = model_of(PLAIN, 20, 60_000, n_factors), rated(20, 60_000, 100), np.random.default_rng(7)
    for factors in (model.item_factors, model.user_factors):
        factors[:] *= np.abs(rng.standard_cauchy(factors.shape)).astype(np.float32)
        factors[:] *= (10.0 ** rng.uniform(-9, 1, (len(factors), 1))).astype(np.float32)
    model.item_factors[::7] = 0
    assert_right(model, rows, 20)


def test_scores_of_few_values_go_by_row():
    model, rows = model_of(PLAIN, 20, 50_000, 32), rated(20, 50_000, 100)
    rng = np.random.default_rng(1)
    model.item_factors[:], model.user_factors[:] = rng.integers(-1, 2, (50_000, 32)), rng.integers(-1, 2, (20, 32))
    model.item_bias[:], model.user_bias[:], model.mean = 0, 0, 0.0
    items, scores = assert_right(model, rows, 500)
    expected = ask(ItemIndex(model), rows, 500)
    np.testing.assert_array_equal(items, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


@pytest.mark.parametrize("kind", [PLAIN, NEAR])
def test_masks_of_the_best_items(kind):
    """A mask of thousands that lies over the top of the list."""
    model = model_of(kind, 3, 60_000, 64)
    empty = Rows(np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    seen = [np.sort(np.argsort(-exact_scores(model, empty, user))[: 4000 * user]) for user in range(3)]
    lengths = np.array([len(items) for items in seen])
    items = np.concatenate(seen).astype(np.int32)
    rows = Rows(np.cumsum(lengths) - lengths, lengths, items, np.full(len(items), 3, np.float32))
    assert_right(model, rows, 100)


@pytest.mark.parametrize("kind", [PLAIN, NEAR])
@pytest.mark.parametrize("n_items", [50, 40_000])
def test_candidates_and_exclusions(n_items, kind):
    model, rows = model_of(kind, 6, n_items, 20), rated(6, n_items, 40)
    index, rng = ItemIndex(model, DEVICE), np.random.default_rng(3)
    hidden = rng.random(n_items) < 0.3
    index.hide(hidden)
    given = np.arange(n_items), rng.integers(0, n_items, 30), np.zeros(0, int), np.arange(20_000)
    candidates = [None, *given, None]
    exclude = [rng.integers(0, n_items, 3000) for _ in range(6)]
    items, scores = ask(index, rows, 15, include_seen=True, candidates=candidates, exclude=exclude)
    for user in range(6):
        allowed = ~hidden
        if (among := candidates[user]) is not None:
            allowed &= np.isin(np.arange(n_items), among)
        allowed[exclude[user]] = False
        assert_best((items[user], scores[user]), exact_scores(model, rows, user), allowed, 15)


def best_items(model: Model, n: int) -> np.ndarray:
    """A mask of the `n` items with the highest scores for user 0, without ratings."""
    one = np.zeros(1, np.int64)
    scores = exact_scores(model, Rows(one, one, np.zeros(0, np.int32), np.zeros(0, np.float32)), 0)
    return np.argsort(np.argsort(-scores)) < n


@pytest.mark.parametrize("kind", [PLAIN, NEAR, NEAR_IMPLICIT])
@pytest.mark.parametrize("n_items", [50, 40_000, 150_000])
def test_filters(n_items, kind):
    """One for all users, and one for each: none, few and many items, long runs, and all but the best."""
    model, rows = model_of(kind, 12, n_items, 20), rated(12, n_items, 40)
    index, rng, every = ItemIndex(model, DEVICE), np.random.default_rng(4), np.arange(n_items)
    masks = [rng.permutation(n_items) < n for n in (0, 1, n_items // 1000, n_items // 5, n_items - 1, n_items)]
    masks += [every < n_items // 2, ~best_items(model, n_items // 8), every % 64 < 32, best_items(model, 5)]
    each: list[Eligible | None] = [*map(Eligible.of, masks), None, None]
    hidden = rng.random(n_items) < 0.1
    index.hide(hidden)
    exclude, candidates = [rng.integers(0, n_items, 300)] * 12, [None] * 11 + [rng.integers(0, n_items, 300)]
    for eligible in (each, [each[3]] * 12, [each[2]] * 12):
        items, scores = ask(index, rows, 15, eligible=eligible, exclude=exclude, candidates=candidates)
        for user, one in enumerate(eligible):
            allowed = ~hidden if one is None else ~hidden & one.mask(n_items)
            allowed[exclude[user]] = False
            allowed[rows.items[rows.starts[user] : rows.starts[user] + rows.lengths[user]]] = False
            if (among := candidates[user]) is not None:
                allowed &= np.isin(every, among)
            assert_best((items[user], scores[user]), exact_scores(model, rows, user), allowed, 15)


def test_a_filter_may_be_shorter_or_longer_than_the_catalog():
    model, rng = model_of(PLAIN, 2, 30_000, 16), np.random.default_rng(5)
    rows, index = rated(2, 30_000, 10), ItemIndex(model, DEVICE)
    masks = [rng.random(n) < share for n in (17_000, 45_000) for share in (0.01, 0.6)]
    for mask in masks:
        items, scores = ask(index, rows, 10, include_seen=True, eligible=[Eligible.of(mask)] * 2)
        allowed = Eligible.of(mask).mask(30_000)
        for user in range(2):
            assert_best((items[user], scores[user]), exact_scores(model, rows, user), allowed, 10)


def test_filters_neither_copy_again_nor_sort(device, monkeypatch):
    """A filter is uploaded once, and its sample sets a floor that few rows reach."""
    filters = importlib.import_module("gpu.ranking.device_filters")
    model, rows = model_of(PLAIN, 64, 400_000, 32), rated(64, 400_000, 50)
    index, rng = ItemIndex(model, DEVICE), np.random.default_rng(6)
    sets = [Eligible.of(rng.random(400_000) < share) for share in (0.0001, 0.03, 0.5)]
    batches = [[one] * 64 for one in sets] + [[*sets, None] * 16]
    monkeypatch.setattr(device, "_sorted", None)
    for eligible in batches:
        assert (ask(index, rows, 10, eligible=eligible)[0] >= 0).all()
    monkeypatch.setattr(filters, "to_device", None)
    for eligible in batches:
        assert (ask(index, rows, 10, eligible=eligible)[0] >= 0).all()


def test_everything_masked():
    model, rows = model_of(PLAIN, 2, 10_000, 16), rated(2, 10_000, 10)
    index = ItemIndex(model, DEVICE)
    index.hide(np.ones(10_000, dtype=np.bool_))
    items, scores = ask(index, rows, 10)
    assert (items == -1).all()
    assert (scores == -np.inf).all()
    index.hide(np.arange(10_000) != 77)
    assert ask(index, rows, 10)[0][:, 0].tolist() == [77, 77]


def test_few_rows_are_scored_exactly(device, monkeypatch):
    """The bounds are tight enough that no user is sorted, and a few times the expected rows is room enough."""
    monkeypatch.setattr(device, "_sorted", None)
    model, rows = model_of(PLAIN, 256, 400_000, 64), rated(256, 400_000, 500)
    for n in (1, 10, 300):
        assert (ask(ItemIndex(model, DEVICE), rows, n)[0] >= 0).all()


def test_devices_without_tensor_cores_sort(device, monkeypatch):
    monkeypatch.setattr(device, "compute_capability", lambda: 75)
    assert_right(model_of(NEAR, 3, 9000, 24), rated(3, 9000, 50), 10)


def test_the_host_agrees_with_the_oracle_too():
    assert_right(model_of(NEAR, 9, 9000, 24), rated(9, 9000, 50), 10, HOST)
