"""The table of ratings on the device against its twin on the host."""

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from gpu.base.errors import InvalidInput
from gpu.data.rating_table import RatingTable
from gpu.data.ratings import Rows
from tests.gpu.data.test_rating_table import N_ITEMS, N_USERS, apply, batches

pytestmark = pytest.mark.gpu
Changes = list[tuple[int, int, float | None]]


def twin_of(table: RatingTable) -> Any:
    """The same ratings on the device."""
    home = importlib.import_module("gpu.online.device.rating_table")
    return home.RatingTable(table.rows, table.positions, table.n_items)


def apply_on(twin: Any, changes: Changes, position: int = 0) -> Any:
    users, items = (np.array([change[k] for change in changes], dtype=np.int64) for k in (0, 1))
    values = np.array([np.nan if change[2] is None else change[2] for change in changes], dtype=np.float32)
    return twin.apply(users, items, values, np.arange(position, position + len(changes)))


def assert_twins(twin: Any, table: RatingTable) -> None:
    assert (twin.n_users, twin.n_items) == (table.n_users, table.n_items)
    for user in range(table.n_users):
        items, values, _, positions = table.row(user)
        for found, expected in zip(twin.row(user), (items, values, positions), strict=True):
            np.testing.assert_array_equal(found, expected)
    for item in range(table.n_items):
        np.testing.assert_array_equal(twin.raters(item), table.raters(item))
    np.testing.assert_array_equal(twin.item_counts.get(), table.item_counts)


def changes_at_random(n: int, n_users: int, n_items: int, seed: int, deleted: float = 0.2) -> Changes:
    rng = np.random.default_rng(seed)
    users, items = (rng.random(n) ** 2 * n_users).astype(int), (rng.random(n) ** 2 * n_items).astype(int)
    values = np.where(rng.random(n) < deleted, np.nan, rng.integers(1, 6, n))
    return [(u, j, None if np.isnan(v) else v) for u, j, v in zip(users.tolist(), items.tolist(), values, strict=True)]


@given(batches)
@settings(max_examples=25)
def test_any_batches(batched: list[Changes]) -> None:
    table = RatingTable(N_USERS, N_ITEMS)
    twin, position = twin_of(table), 0
    for batch in batched:
        expected = apply(table, batch, position)
        np.testing.assert_array_equal(apply_on(twin, batch, position).old.get(), expected)
        position += len(batch)
        assert_twins(twin, table)


@pytest.mark.parametrize("size", [1, 1023, 5000])
def test_many_changes_while_rows_move_and_arenas_are_packed(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("gpu.online.device.arena"), "MIN_ROOM", 16)
    table = RatingTable(300, 500)
    apply(table, changes_at_random(20_000, 300, 500, 0))
    twin = twin_of(table)
    assert_twins(twin, table)
    for step in range(6):
        batch = changes_at_random(size, 300, 500, step + 1)
        expected = apply(table, batch, 20_000 + step * size)
        np.testing.assert_array_equal(apply_on(twin, batch, 20_000 + step * size).old.get(), expected)
    assert_twins(twin, table)


def test_one_very_long_row_and_one_very_long_column() -> None:
    table = RatingTable(6000, 6000)
    twin = twin_of(table)
    for step, is_deleted in enumerate((False, True, False)):
        ones = [1.0] * 5000 if not is_deleted else [None, 2.0] * 2500
        batch = [(7, item, value) for item, value in enumerate(ones)]
        batch += [(user, 11, value) for user, value in enumerate(ones)]
        expected = apply(table, batch, step * 20_000)
        np.testing.assert_array_equal(apply_on(twin, batch, step * 20_000).old.get(), expected)
        np.testing.assert_array_equal(twin.row(7)[0], table.row(7)[0])
        np.testing.assert_array_equal(twin.row(7)[2], table.row(7)[3])
        np.testing.assert_array_equal(twin.raters(11), table.raters(11))
    assert_twins(twin, table)


def test_what_a_batch_says() -> None:
    table = RatingTable(N_USERS, N_ITEMS)
    apply(table, [(3, 4, 2.0), (3, 5, 1.0), (1, 4, 5.0)])
    twin = twin_of(table)
    changes = apply_on(twin, [(3, 5, None), (0, 2, 4.0), (3, 4, 3.0), (3, 8, None), (0, 2, 1.0), (0, 1, 1.0)], 3)
    assert changes.users.get().tolist() == [0, 0, 3, 3, 3]
    assert changes.items.get().tolist() == [1, 2, 4, 5, 8]
    np.testing.assert_array_equal(changes.before.get(), [np.nan, np.nan, 2, 1, np.nan])
    np.testing.assert_array_equal(changes.now.get(), [1, 1, 3, np.nan, np.nan])
    assert changes.touched_users.get().tolist() == [0, 3]
    assert sorted(changes.touched_items.get().tolist()) == [1, 2, 4, 5]
    assert changes.n_ratings == 3


def test_growing_and_dropping() -> None:
    table = RatingTable()
    twin = twin_of(table)
    for n in range(1, 30):
        for one in (table, twin):
            one.grow(n, 2 * n)
        batch: Changes = [(n - 1, 2 * n - 1, 3.0), (n - 1, 0, 1.0), (0, n, 2.0)]
        apply(table, batch, 3 * n)
        apply_on(twin, batch, 3 * n)
    assert_twins(twin, table)
    dropped, expected = twin.drop_user(0), table.drop_user(0)
    for found, wanted in zip(dropped[:2], expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert_twins(twin, table)


def test_an_empty_batch_changes_nothing() -> None:
    table = RatingTable(N_USERS, N_ITEMS)
    twin = twin_of(table)
    assert len(apply_on(twin, []).touched_users) == 0
    assert_twins(twin, table)


def test_rows_beyond_the_table_are_refused() -> None:
    none = np.zeros(0, dtype=np.int64)
    rows = Rows(np.zeros(2, np.int64), np.zeros(2, np.int64), none.astype(np.int32), none.astype(np.float32))
    twin = importlib.import_module("gpu.online.device.rating_table").RatingTable(rows, none, 3)
    for pair, name in (((2, 0), "users"), ((0, 3), "items"), ((0, -1), "items")):
        with pytest.raises(InvalidInput, match=f"Invalid rows of {name}"):
            apply_on(twin, [(*pair, 1.0)])
    with pytest.raises(InvalidInput, match="Invalid lengths of changes"):
        twin.apply(np.zeros(2, int), np.zeros(1, int), np.ones(1, np.float32), np.zeros(1, np.int64))
