"""Lists of new items on the device against the host's ranking of the same signatures."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import numpy as np
import pytest

from gpu import simlsh
from gpu.host import hamming
from gpu.params import CulshImplicitParams, CulshParams
from tests.gpu.device.live import World, world

pytestmark = pytest.mark.gpu
N_ITEMS, N_NEW = 2300, 70  # more candidates than a block reads at once


def listed(here: World) -> tuple[Any, Any]:
    """(parameters, signatures) with the lists of all new items."""
    table, parameters = here.on_device()
    home = importlib.import_module("gpu.device.signatures")
    signatures = home.Signatures(parameters, here.model.params, here.model.scale, table)
    for _ in signatures.prepare():
        pass
    signatures.list_new_items()
    return parameters, signatures


@pytest.mark.parametrize("n_bits", [64, 2432])  # 64: nearly all agreements are those of many items
@pytest.mark.parametrize("n_neighbours", [1, 32, 100, 1024])
@pytest.mark.parametrize("kind", [CulshParams, CulshImplicitParams])
def test_lists_are_those_of_the_host(kind: type[CulshParams], n_neighbours: int, n_bits: int) -> None:
    here = world(kind, (4, n_neighbours), [0, 1, 40, 300, 200, 90], N_ITEMS, N_NEW)
    here.model.params = dataclasses.replace(here.model.params, n_bits=n_bits)
    here.model.projections = np.zeros((N_ITEMS, n_bits), dtype=np.int32)
    parameters, _ = listed(here)
    packed = simlsh.signatures(parameters.projections.get())
    is_rated, new = here.table.item_counts > 0, np.arange(N_ITEMS - N_NEW, N_ITEMS)
    best = np.full((N_NEW, n_neighbours), -1, dtype=np.int64)
    hamming.rank_all(best, packed, np.flatnonzero(is_rated), new)
    expected = np.where(is_rated[new][:, None], hamming.rows_of(best), -1)
    np.testing.assert_array_equal(parameters.neighbours.get()[new].view(np.int32), expected)
    assert is_rated[new].any() and not is_rated[new].all()


def test_items_without_lists_that_differ_are_not_due() -> None:
    here = world(CulshParams, (4, 8), [0, 1, 40, 300, 200, 90], N_ITEMS, N_NEW)
    parameters, signatures = listed(here)
    parameters.is_due.fill(0)
    signatures.list_new_items()
    assert not parameters.is_due.get().any()
    row = N_ITEMS - 1 - int(np.argmax(here.table.item_counts[::-1] > 0))
    parameters.neighbours[row, 3] += 1
    signatures.list_new_items()
    assert np.flatnonzero(parameters.is_due.get()).tolist() == [row]
