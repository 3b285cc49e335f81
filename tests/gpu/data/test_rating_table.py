import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.base.errors import InvalidInput
from gpu.data.host_rating_table import LONG
from gpu.data.rating_table import RatingTable

N_USERS, N_ITEMS = 5, 9
Held = dict[tuple[int, int], tuple[float, float, int]]
change = st.tuples(
    st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1), st.one_of(st.none(), st.integers(1, 5).map(float))
)
batches = st.lists(st.lists(change, max_size=60), max_size=6)


def apply(table: RatingTable, changes: Sequence[tuple[int, int, float | None]], position: int = 0) -> np.ndarray:
    users = np.array([c[0] for c in changes], dtype=np.int64)
    items = np.array([c[1] for c in changes], dtype=np.int64)
    values = np.array([np.nan if c[2] is None else c[2] for c in changes], dtype=np.float32)
    positions = np.arange(position, position + len(changes))
    return table.apply(users, items, values, positions / 2, positions).old


def held(table: RatingTable) -> Held:
    found: Held = {}
    for user in range(table.n_users):
        items, values, timestamps, positions = (column.tolist() for column in table.row(user))
        assert (np.diff(items) > 0).all()
        entries = zip(values, timestamps, positions, strict=True)
        found |= {(user, item): entry for item, entry in zip(items, entries, strict=True)}
    return found


@given(batches)
def test_a_table_holds_what_a_dict_would(batched: list[list[tuple[int, int, float | None]]]) -> None:
    table, position = RatingTable(N_USERS, N_ITEMS), 0
    expected: Held = {}
    for batch in batched:
        olds = apply(table, batch, position)
        for (user, item, value), old in zip(batch, olds.tolist(), strict=True):
            before = expected.pop((user, item), None)
            assert np.isnan(old) if before is None else old == before[0]
            if value is not None:
                expected[user, item] = (value, position / 2, position)
            position += 1
    assert held(table) == expected
    assert table.n_ratings == len(expected)
    for item in range(N_ITEMS):
        assert table.raters(item).tolist() == sorted(u for u, j in expected if j == item)
        assert table.item_counts[item] == len(table.raters(item))


@given(batches, st.integers(0, 6), st.integers(0, N_USERS - 1))
def test_raters_that_were_put_off_are_listed_by_packing(
    batched: list[list[tuple[int, int, float | None]]], first: int, gone: int
) -> None:
    plain, late = RatingTable(N_USERS, N_ITEMS), RatingTable(N_USERS, N_ITEMS)
    position = 0
    for n, batch in enumerate(batched):
        if n == first:
            late.put_off_raters()
        np.testing.assert_array_equal(apply(late, batch, position), apply(plain, batch, position))
        position += len(batch)
        if n == first + 1:
            for dropped, expected in zip(late.drop_user(gone), plain.drop_user(gone), strict=True):
                np.testing.assert_array_equal(dropped, expected)
    late.pack()
    for value in (1.0, None):  # now they are kept again
        for table in (late, plain):
            apply(table, [(gone, item, value) for item in range(N_ITEMS)], position)
        assert held(late) == held(plain)
        assert late.item_counts.tolist() == plain.item_counts.tolist()
        assert [late.raters(item).tolist() for item in range(N_ITEMS)] == [
            plain.raters(item).tolist() for item in range(N_ITEMS)
        ]


def test_rows_stay_sorted_while_the_arenas_fill() -> None:
    rng = np.random.default_rng(0)
    table = RatingTable(300, 2000)
    expected: Held = {}
    for step in range(30):
        users, items = rng.integers(0, 300, 5000), rng.integers(0, 2000, 5000)
        values = np.where(rng.random(5000) < 0.2, np.nan, rng.integers(1, 6, 5000)).astype(np.float32)
        positions = np.arange(5000) + 5000 * step
        table.apply(users, items, values, positions.astype(float), positions)
        for n, pair in enumerate(zip(users.tolist(), items.tolist(), strict=True)):
            expected.pop(pair, None)
            if not np.isnan(values[n]):
                expected[pair] = (float(values[n]), float(positions[n]), int(positions[n]))
    assert held(table) == expected
    assert table.n_bytes < 28 * len(expected) * 2 + 4_000_000


@pytest.mark.parametrize("is_in_step", [False, True])
def test_places_that_rows_leave_are_taken_by_others(is_in_step: bool) -> None:
    n_users, n_items = 2000, 500
    users, items = np.nonzero(np.random.default_rng(0).random((n_users, n_items)) < 0.1)
    order = np.random.default_rng(1).permutation(len(users)) if is_in_step else np.arange(len(users))
    changes = list(zip(users[order].tolist(), items[order].tolist(), [1.0] * len(users), strict=True))
    table = RatingTable(n_users, n_items)
    apply(table, changes[:-1])
    least = 28 * len(users)
    assert table.n_bytes < (3 if is_in_step else 1.7) * least
    table.pack()
    assert table.n_bytes < 1.4 * least
    apply(table, changes[-1:], len(users))
    assert held(table).keys() == {change[:2] for change in changes}
    assert table.n_bytes < 1.4 * least


def test_the_place_of_a_dropped_user_is_taken_by_another() -> None:
    table = RatingTable(3, 40)
    apply(table, [(0, item, 1.0) for item in range(40)])
    n_bytes = table.n_bytes
    assert table.drop_user(0)[0].tolist() == list(range(40))
    apply(table, [(1, item, 2.0) for item in range(30)], 40)
    assert table.n_bytes == n_bytes
    assert table.row(1)[0].tolist() == list(range(30))
    assert table.row(0)[0].tolist() == []


def test_rows_and_ratings_show_the_same_state() -> None:
    table = RatingTable(N_USERS, N_ITEMS)
    apply(table, [(0, 3, 4.0), (0, 1, 2.0), (2, 3, 5.0), (0, 3, 1.0)])
    starts, lengths, items, values = table.rows
    assert items[starts[0] : starts[0] + lengths[0]].tolist() == [1, 3]
    assert values[starts[0] : starts[0] + lengths[0]].tolist() == [2.0, 1.0]
    assert table.positions[starts[0] : starts[0] + lengths[0]].tolist() == [1, 3]
    copied = table.ratings()
    assert (copied.n_users, copied.n_items) == (N_USERS, N_ITEMS)
    assert [column.tolist() for column in copied.coo()] == [[0, 0, 2], [1, 3, 3], [2.0, 1.0, 5.0]]


def test_dropping_a_user_leaves_nothing_behind() -> None:
    table = RatingTable(N_USERS, N_ITEMS)
    apply(table, [(1, 8, 4.0), (0, 8, 3.0), (1, 0, 5.0), (4, 8, 2.0)])
    items, values = table.drop_user(1)
    assert (items.tolist(), values.tolist()) == ([0, 8], [5.0, 4.0])
    assert held(table).keys() == {(0, 8), (4, 8)}
    assert table.raters(8).tolist() == [0, 4]
    assert len(table.raters(0)) == 0
    apply(table, [(1, 2, 1.0)], 10)
    assert held(table)[1, 2] == (1.0, 5.0, 10)


def test_growing_keeps_what_is_there() -> None:
    table = RatingTable()
    assert table.n_ratings == 0
    for n in range(1, 50):
        table.grow(n, 2 * n)
        apply(table, [(n - 1, 2 * n - 1, 3.0)], n)
    assert held(table).keys() == {(n - 1, 2 * n - 1) for n in range(1, 50)}
    assert table.raters(1).tolist() == [0]


@pytest.mark.parametrize(("user", "item", "name"), [(N_USERS, 0, "users"), (0, N_ITEMS, "items"), (-1, 0, "users")])
def test_rows_beyond_the_table_are_refused(user: int, item: int, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"Invalid rows of {name}"):
        apply(RatingTable(N_USERS, N_ITEMS), [(user, item, 1.0)])


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(InvalidInput, match="Invalid lengths of changes"):
        RatingTable(1, 1).apply(np.zeros(2, int), np.zeros(1, int), np.ones(1), np.ones(1), np.ones(1, np.int64))


@pytest.mark.parametrize("seed", range(20))
def test_batches_of_users_with_long_rows_are_applied_in_order(seed: int) -> None:
    rng, table = np.random.default_rng(seed), RatingTable(2, 3000)
    expected: Held = {}
    for batch in range(6):
        n = int(rng.integers(700, 1300))
        users, items = rng.integers(0, 2, n), rng.integers(0, 3000, n)
        values = rng.integers(1, 6, n).astype(np.float32)
        values[rng.random(n) < 0.1] = np.nan
        positions = np.arange(n) + batch * 2000
        old = table.apply(users, items, values, positions / 2, positions).old
        for b in range(n):
            pair = int(users[b]), int(items[b])
            before = expected.pop(pair, (np.nan,))[0]
            np.testing.assert_equal(old[b], before)
            if not np.isnan(values[b]):
                expected[pair] = values[b], positions[b] / 2, positions[b]
    assert table.rows.lengths.min() > LONG
    assert held(table) == expected
    assert all(set(table.raters(item)) == {u for u in range(2) if (u, item) in expected} for item in range(3000))


def test_a_batch_is_merged_into_a_very_long_row_in_one_pass() -> None:
    n = 100_000
    table = RatingTable(1, 2 * n)
    odd, nobody = np.arange(1, 2 * n, 2), np.zeros(n, dtype=np.int64)
    table.apply(nobody, odd, np.ones(n, dtype=np.float32), np.zeros(n), np.arange(n))
    started = time.thread_time()
    table.apply(nobody[:5000], odd[:5000] - 1, np.ones(5000, dtype=np.float32), np.zeros(5000), n + np.arange(5000))
    assert time.thread_time() - started < 0.2  # of the processor: one by one they take over a second
    assert len(table.row(0)[0]) == n + 5000


def test_tables_share_until_they_are_separated() -> None:
    table = RatingTable(2, 3)
    other = RatingTable()
    other.share(table)
    apply(table, [(0, 1, 4.0)])
    assert held(other) == held(table) == {(0, 1): (4.0, 0.0, 0)}
    other.separate()
    apply(table, [(0, 1, 3.0), (1, 2, 1.0)], 1)
    apply(other, [(0, item % 3, 2.0) for item in range(9)], 3)
    assert held(table) == {(0, 1): (3.0, 0.5, 1), (1, 2): (1.0, 1.0, 2)}
    assert held(other).keys() == {(0, 0), (0, 1), (0, 2)}
    assert [table.raters(2).tolist(), other.raters(2).tolist()] == [[1], [0]]


def test_pairs_are_looked_up_with_nan_for_none() -> None:
    table = RatingTable(3, 4)
    apply(table, [(0, 1, 4.0), (2, 3, 1.0)])
    values, times = table.looked_up(np.array([0, 0, 1, 2]), np.array([1, 3, 1, 3]))
    np.testing.assert_array_equal(values, np.array([4, np.nan, np.nan, 1], dtype=np.float32))
    np.testing.assert_array_equal(times, [0, np.nan, np.nan, 0.5])
