"""Ranking by several devices that share the items: lists are those of one device, bit for bit.

On a machine with one device all parts lie on it.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpu.base.backend import Backend
from gpu.data.ratings import Rows
from gpu.ranking.eligible import Eligible
from gpu.ranking.item_index import ItemIndex, prepare
from tests.gpu.ranking.test_device_item_index import change
from tests.gpu.ranking.test_device_topn import (
    DEVICE,
    NEAR,
    NEAR_IMPLICIT,
    PLAIN,
    ask,
    assert_right,
    best_items,
    model_of,
    rated,
)

pytestmark = pytest.mark.gpu


def devices(n_parts: int) -> tuple[int, ...]:
    """A device for each part, in turn."""
    return tuple(np.arange(n_parts) % importlib.import_module("gpu.base.device").n_devices())


def parts(n_parts: int) -> Backend:
    return Backend("device", "under test", ranking_devices=devices(n_parts))


def assert_equal(indices: Sequence[ItemIndex], rows: Rows, n: int, **options: Any) -> np.ndarray:
    """All indices give the same bits; returns the rows."""
    expected, *others = (ask(index, rows, n, **options) for index in indices)
    for found in others:
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1].view(np.int32), expected[1].view(np.int32))
    return expected[0]


@pytest.mark.parametrize("kind", [PLAIN, NEAR, NEAR_IMPLICIT])
@pytest.mark.parametrize("n_items", [1, 33, 4096, 9_001, 60_011])
@pytest.mark.parametrize(("n_users", "n"), [(1, 1), (16, 10), (70, 100), (300, 1000)])
def test_sizes(n_users, n, n_items, kind):
    model, rows = model_of(kind, n_users, n_items, 40), rated(n_users, n_items, min(60, n_items))
    indices = [ItemIndex(model, DEVICE), *(ItemIndex(model, parts(count)) for count in (2, 3))]
    assert_equal(indices, rows, n)
    assert_equal(indices, rows, n, include_seen=True)


@pytest.mark.parametrize("kind", [PLAIN, NEAR])
def test_lists_are_those_of_the_oracle(kind):
    assert_right(model_of(kind, 40, 30_011, 50), rated(40, 30_011, 60), 20, parts(3))


@pytest.mark.parametrize("kind", [PLAIN, NEAR, NEAR_IMPLICIT])
@pytest.mark.parametrize("n_items", [50, 40_000, 150_000])
def test_masks_filters_candidates_and_pages(n_items, kind):
    model, rows = model_of(kind, 12, n_items, 20), rated(12, n_items, 40)
    rng, every = np.random.default_rng(4), np.arange(n_items)
    indices = [ItemIndex(model, DEVICE), *(ItemIndex(model, parts(count)) for count in (2, 4))]
    hidden = rng.random(n_items) < 0.1
    for index in indices:
        index.hide(hidden)
    masks = [rng.permutation(n_items) < n for n in (0, 1, n_items // 1000, n_items // 5, n_items - 1, n_items)]
    masks += [every < n_items // 2, ~best_items(model, n_items // 8), every % 64 < 32, best_items(model, 5)]
    each: list[Eligible | None] = [*map(Eligible.of, masks), None, None]
    exclude, candidates = [rng.integers(0, n_items, 300)] * 12, [None] * 11 + [rng.integers(0, n_items, 300)]
    for eligible in (each, [each[3]] * 12, [each[2]] * 12, None):
        items = assert_equal(indices, rows, 15, eligible=eligible, exclude=exclude, candidates=candidates)
        assert not hidden[items[items >= 0]].any()
        if eligible is None:
            pages = [assert_equal(indices, rows, 15, exclude=exclude, offset=offset) for offset in (0, 15, 30)]
            np.testing.assert_array_equal(np.hstack(pages), assert_equal(indices, rows, 45, exclude=exclude))
    assert_equal(indices, rows, 1000, offset=500)  # beyond 1,024: all scores are sorted


@pytest.mark.parametrize("spread", [0.0, 1e-9, 1e6])
def test_ties_and_any_magnitude(spread):
    """Where all scores are equal, or within the bound, rows do not fit, and are sorted."""
    model, rows = model_of(NEAR, 5, 20_000, 24, spread), rated(5, 20_000, 50)
    assert_equal([ItemIndex(model, DEVICE), ItemIndex(model, parts(3))], rows, 20)


@pytest.mark.parametrize("kind", [PLAIN, NEAR, NEAR_IMPLICIT])
@pytest.mark.parametrize("n_items", [20, 9000])
def test_items_that_change_or_come(n_items, kind):
    """The first items of a part, new lists that name rows of other parts, and hidden ones."""
    model, rng = model_of(kind, 6, n_items, 20), np.random.default_rng(0)
    indices = [ItemIndex(model, DEVICE), ItemIndex(model, parts(3))]
    for step in range(6):
        model.grow(6, model.n_items + (0, 1, 40, 9000, 3, 20_000)[step])
        some = np.unique(rng.integers(0, model.n_items, 60))
        change(model, some, step)
        model.item_baseline[some] = rng.standard_normal(len(some))
        hidden = rng.random(model.n_items) < 0.05
        for index in indices:
            index.refresh(some)
            index.hide(hidden)
        assert_equal(indices, rated(6, model.n_items, min(50, model.n_items)), 30)
    fresh = ItemIndex(model, parts(2))
    fresh.hide(hidden)
    assert_equal([*indices, fresh], rated(6, model.n_items, 50), 30)


def test_a_filter_lies_once_on_each_device(monkeypatch):
    filters, copies = importlib.import_module("gpu.ranking.device_filters"), []
    model, rows = model_of(PLAIN, 64, 100_000, 32), rated(64, 100_000, 50)
    index = ItemIndex(model, parts(4))
    whole = filters.to_device

    def counted(array: np.ndarray) -> Any:
        copies.append(array.nbytes)
        return whole(array)

    monkeypatch.setattr(filters, "to_device", counted)
    eligible = [Eligible.of(np.arange(100_000) % 2 == 0)] * 64
    for _ in range(3):
        assert (ask(index, rows, 10, eligible=eligible)[0] >= 0).all()
    assert len(copies) == len(set(devices(4)))


def test_the_user_side_is_laid_out_once_for_all_parts(monkeypatch):
    """Whatever the number of devices: columns of requests, and for lists without filter the choice of items."""
    modules = [importlib.import_module(f"gpu.ranking.device_{name}") for name in ("topn_requests", "topn")]
    model, rows, calls = model_of(NEAR, 16, 50_000, 32), rated(16, 50_000, 50), list[str]()
    indices = [ItemIndex(model, DEVICE), ItemIndex(model, parts(4))]

    def counted(name: str, whole: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            calls.append(name)
            return whole(*given, **named)

        return call

    for module, name in zip(modules, ("laid_out", "choice_of"), strict=True):
        monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    ask(indices[1], rows, 10)
    assert calls == ["choice_of", "laid_out"]
    assert_equal(indices, rows, 10, eligible=[Eligible.of(np.arange(50_000) % 3 == 0), None] * 8)


def test_a_failed_batch_leaves_the_next_one_right(monkeypatch):
    """A part that cannot begin, as where memory is short: the others are waited for."""
    device = importlib.import_module("gpu.ranking.device_topn")
    model, rows = model_of(PLAIN, 16, 50_000, 32), rated(16, 50_000, 50)
    index, whole = ItemIndex(model, parts(2)), device.upload

    def fails_for_the_second(calls: Any, batch: Any, number: int) -> Any:
        if number == 1:
            raise MemoryError
        return whole(calls, batch, number)

    with monkeypatch.context() as patched:
        patched.setattr(device, "upload", fails_for_the_second)
        with pytest.raises(MemoryError):
            ask(index, rows, 10)
    assert_equal([ItemIndex(model, DEVICE), index], rows, 10)


def test_kernels_are_prepared_on_each_device():
    prepare(48, parts(2))
    parts(2).check()
    assert parts(2).device_bytes()["arrays"] <= parts(2).device_bytes()["taken"]
    parts(2).release()
