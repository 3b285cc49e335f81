"""The item side on the device: after growth, new lists and hidden items it ranks like a new index."""

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpu.base.backend import HOST
from gpu.data.model import NO_NEIGHBOR, Model
from gpu.ranking.item_index import ItemIndex
from tests.gpu.ranking.test_device_topn import DEVICE, NEAR, NEAR_IMPLICIT, PLAIN, ask, assert_right, model_of, rated

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def item_index() -> ModuleType:
    """The device's primitives."""
    return importlib.import_module("gpu.ranking.device_item_index")


def change(model: Model, items: np.ndarray, seed: int) -> None:
    """New parameters and lists for `items`."""
    rng = np.random.default_rng(seed)
    model.item_factors[items] = rng.standard_normal((len(items), model.item_factors.shape[1])) / 4
    model.item_bias[items] = rng.standard_normal(len(items))
    slots = len(items), model.neighbors.shape[1]
    model.neighbors[items] = rng.integers(NO_NEIGHBOR, model.n_items, slots)
    model.explicit_weights[items] = rng.standard_normal(slots)
    model.implicit_weights[items] = rng.standard_normal(slots)


@pytest.mark.parametrize("kind", [PLAIN, NEAR, NEAR_IMPLICIT])
@pytest.mark.parametrize("n_items", [0, 20, 9000])
def test_an_index_follows_its_model(n_items, kind):
    model = model_of(kind, 6, n_items, 20) if n_items else Model.zeros(model_of(kind, 1, 9, 20).params, 1, (0, 5), 6, 0)
    index = ItemIndex(model, DEVICE)
    for step in range(6):
        model.grow(6, model.n_items + (0, 1, 40, 9000, 3, 20_000)[step])
        new = np.arange(n_items, model.n_items)
        index.refresh(new[::2])
        for seed in range(3):
            some = np.unique(np.random.default_rng(seed).choice(new, min(len(new), 50))) if len(new) else new
            change(model, some, seed)
            index.refresh(some)
        if not model.n_items:
            continue
        rows = rated(6, model.n_items, min(50, model.n_items))
        kept, fresh = ask(index, rows, 30), ask(ItemIndex(model, DEVICE), rows, 30)
        np.testing.assert_array_equal(kept[0], fresh[0])
        np.testing.assert_array_equal(kept[1], fresh[1])
        assert_right(model, rows, 30)


@pytest.mark.parametrize("kind", [PLAIN, NEAR, NEAR_IMPLICIT])
def test_items_with_few_ratings_are_listed_as_on_the_host(kind):
    model, rows = model_of(kind, 6, 5000, 20), rated(6, 5000, 50)
    rng = np.random.default_rng(0)
    model.mark_trained(np.ones(6, int), rng.integers(0, 300, 5000))
    indices = ItemIndex(model, DEVICE), ItemIndex(model, HOST)
    model.grow(6, 9000)
    new = np.arange(5000, 9000)
    for index in indices:
        index.refresh(np.zeros(0, dtype=np.int64))
    change(model, new[::3], 1)
    model.item_counts[new[::3]] = rng.integers(0, 900, len(new[::3]))
    for index in indices:
        index.refresh(new[::3])
    device, host, fresh = (ask(index, rows, 30) for index in (*indices, ItemIndex(model, DEVICE)))
    np.testing.assert_allclose(device[1], host[1], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(device[0], fresh[0])
    np.testing.assert_array_equal(device[1], fresh[1])
    model.item_counts[:] = 0
    assert np.array_equal(ask(ItemIndex(model, DEVICE), rows, 30)[0], device[0]) == (kind is NEAR_IMPLICIT)


def test_lists_that_change_for_ever_take_no_more_memory(item_index, monkeypatch):
    monkeypatch.setattr(item_index, "MOST_LATER", 1000)
    model, rows, rng = model_of(NEAR, 4, 60, 20), rated(4, 60, 15), np.random.default_rng(0)
    index = ItemIndex(model, DEVICE)
    ranked: Any = index.ranked_items
    (part,), sizes = ranked, list[int]()
    most = max(1000, 60 * part.n_slots)
    for step in range(120):
        if step % 40 == 39:
            model.grow(4, model.n_items + 5)
        some = np.unique(rng.integers(0, model.n_items, 20))
        change(model, some, step)
        index.refresh(some)
        sizes.append(len(part.arrays["later"]))
        if step % 10 == 0:
            kept, fresh = ask(index, rows, 30), ask(ItemIndex(model, DEVICE), rows, 30)
            np.testing.assert_array_equal(kept[0], fresh[0])
            np.testing.assert_array_equal(kept[1], fresh[1])
    assert sizes[-1] == sizes[len(sizes) // 2] <= 4 * (most + 20 * part.n_slots)


def test_rows_are_placed_in_chunks(item_index, monkeypatch):
    monkeypatch.setattr(item_index, "CHUNK", 1000)
    assert_right(model_of(NEAR, 3, 5500, 12), rated(3, 5500, 30), 10)


def test_hidden_items_stay_hidden_while_they_change():
    model, rows = model_of(PLAIN, 2, 6000, 12), rated(2, 6000, 0)
    index = ItemIndex(model, DEVICE)
    best = ask(index, rows, 1)[0][:, 0]
    hidden = np.zeros(6000, dtype=np.bool_)
    hidden[best] = True
    index.hide(hidden)
    index.refresh(best)
    assert not np.isin(ask(index, rows, 50)[0], best).any()
    index.hide(np.zeros(6000, dtype=np.bool_))
    np.testing.assert_array_equal(ask(index, rows, 1)[0][:, 0], best)
