"""Lists of new items on the device against the host's ranking of the same signatures."""

import dataclasses
import importlib
from typing import Any

import numpy as np
import pytest

from gpu.descent.params import CulshImplicitParams, CulshParams
from gpu.hashing import host_hamming as hamming
from gpu.hashing import simlsh
from tests.gpu.models import params_as
from tests.gpu.online.device.live import World, world

pytestmark = pytest.mark.gpu
N_ITEMS, N_NEW = 2300, 70  # more candidates than a block reads at once
LENGTHS = [0, 1, 40, 300, 200, 90]


def listed(here: World) -> tuple[Any, Any]:
    """(parameters, signatures) with the lists of all new items."""
    table, parameters = here.on_device()
    home = importlib.import_module("gpu.online.device.signatures")
    signatures = home.Signatures(parameters, here.model.params, here.model.scale, here.model.calibration.origin, table)
    for _ in signatures.prepare():
        pass
    return parameters, signatures


def ranked(here: World, parameters: Any) -> np.ndarray:
    """The lists of the new items by the host's ranking of the device's sums, (N_NEW, K)."""
    n_rated, new = here.table.item_counts, np.arange(N_ITEMS - N_NEW, N_ITEMS)
    best = np.full((N_NEW, parameters.neighbors.shape[1]), -1, dtype=np.int64)
    hamming.rank_all(best, simlsh.signatures(parameters.projections.get()), np.flatnonzero(n_rated), new)
    return np.where(n_rated[new][:, None] > 0, hamming.rows_of(best), -1)


def lists(parameters: Any) -> np.ndarray:
    return parameters.neighbors.get()[N_ITEMS - N_NEW :].view(np.int32)


@pytest.mark.parametrize("n_bits", [64, 2432])  # 64: nearly all agreements are those of many items
@pytest.mark.parametrize("n_neighbors", [1, 32, 100, 1024])
@pytest.mark.parametrize("kind", [CulshParams, CulshImplicitParams])
@pytest.mark.parametrize("many", [2, 10**6])  # both ways to make a list
def test_lists_are_those_of_the_host(
    kind: type[CulshParams], n_neighbors: int, n_bits: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("gpu.online.device.signatures"), "MANY_ITEMS", many)
    here = world(kind, (4, n_neighbors), LENGTHS, N_ITEMS, N_NEW)
    here.model.params = dataclasses.replace(params_as(CulshParams, here.model), n_bits=n_bits)
    here.model.projections = np.zeros((N_ITEMS, n_bits), dtype=np.int32)
    parameters, _ = listed(here)
    np.testing.assert_array_equal(lists(parameters), ranked(here, parameters))
    has_list = (lists(parameters) >= 0).any(axis=1)
    assert has_list.any() and not has_list.all()


@pytest.mark.parametrize("most_ratings", [1, 4, 200])
def test_lists_stay_exact_while_only_outdated_ones_are_ranked_again(
    most_ratings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, rng, made = world(CulshParams, (4, 8), LENGTHS, N_ITEMS, N_NEW), np.random.default_rng(most_ratings), []
    parameters, signatures = listed(here)
    home = importlib.import_module("gpu.hashing.device_hamming")
    agreeing = home.agreeing

    def spy(*given: Any) -> Any:
        made.append(len(given[3]))
        return agreeing(*given)

    monkeypatch.setattr(home, "agreeing", spy)
    for n in range(30):
        before, size = lists(parameters), int(rng.integers(1, most_ratings + 1))
        parameters.is_due.fill(0)
        users, items = rng.integers(0, len(LENGTHS), size), rng.integers(0, N_ITEMS, size)
        n_of_new = max(size // 4, n % 2)
        items[:n_of_new] = rng.integers(N_ITEMS - N_NEW, N_ITEMS, n_of_new)
        values = np.where(rng.random(size) < 0.4, np.nan, rng.integers(1, 6, size)).astype(np.float32)
        change = users, items, values, np.arange(size) + 10_000 * (n + 1)
        here.table.apply(*change[:3], np.zeros(size), change[3])
        signatures.note(signatures._table.apply(*change))
        signatures.list_new_items()
        now = lists(parameters)
        np.testing.assert_array_equal(now, ranked(here, parameters))
        due = np.flatnonzero(parameters.is_due.get()) - (N_ITEMS - N_NEW)
        assert due.tolist() == np.flatnonzero((now != before).any(axis=1)).tolist()
    assert 0 < np.mean(made) < N_NEW
    signatures.list_new_items()
    assert made[-1] == 0  # nothing has changed


def test_an_item_that_loses_its_ratings_leaves_the_lists() -> None:
    here = world(CulshParams, (4, 8), LENGTHS, N_ITEMS, N_NEW)
    parameters, signatures = listed(here)
    items = here.table.row(3)[0].copy()
    here.table.drop_user(3)
    _, _, changes = signatures._table.drop_user(3)
    signatures.note(changes)
    signatures.list_new_items()
    gone = items[here.table.item_counts[items] == 0]
    assert len(gone) > 10 and not np.isin(lists(parameters), gone).any()
    np.testing.assert_array_equal(lists(parameters), ranked(here, parameters))


def test_many_new_items_are_learned_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    _, signatures = listed(world(CulshParams, (4, 8), LENGTHS, N_ITEMS, N_NEW))
    assert signatures.most_changes is None
    home = importlib.import_module("gpu.online.device.signatures")
    monkeypatch.setattr(home, "RANKED_AT_ONCE", 160_999)  # fewer than pairs of a new item and another
    assert signatures.most_changes == 160_999 // (2 * 8 * N_NEW) == 143
    monkeypatch.setattr(home, "RANKED_AT_ONCE", 1)
    assert signatures.most_changes == home.FEWEST_CHANGES
