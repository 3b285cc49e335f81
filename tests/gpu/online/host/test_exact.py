import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.data.host_rating_table import items_left_out
from gpu.data.rating_table import RatingTable
from gpu.online.exact_rows import RatedRows, n_fitting, parts_of
from gpu.online.host import exact

BOUND = 2.0**20


@given(n_rows=st.integers(0, 30), n_factors=st.integers(1, 9), size=st.sampled_from([1e-3, 0.3, 20.0]), data=st.data())
@settings(max_examples=40)
def test_sums_over_a_side_are_exact_in_any_order_and_back(
    n_rows: int, n_factors: int, size: float, data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    factors = (size * rng.standard_normal((n_rows, n_factors))).astype(np.float32)
    whole, pieced = np.zeros((2, n_factors, n_factors))
    exact.add_gram(whole, factors, 1.0, BOUND)
    wide = factors.astype(np.float64)
    np.testing.assert_allclose(whole, np.triu(wide.T @ wide), rtol=1e-9, atol=1e-8)
    for row in rng.permutation(n_rows):
        exact.add_gram(pieced, factors[row : row + 1], 1.0, BOUND)
    extra = (size * rng.standard_normal((5, n_factors))).astype(np.float32)
    exact.add_gram(pieced, extra, 1.0, BOUND)
    exact.add_gram(pieced, extra[::-1].copy(), -1.0, BOUND)
    np.testing.assert_array_equal(whole, pieced)


N_USERS, N_ITEMS = 20, 30


def random_table(seed: int) -> RatingTable:
    """Users with 0 to 30 ratings, of which some were given again later: positions are in no order of items."""
    rng = np.random.default_rng(seed)
    table = RatingTable(N_USERS, N_ITEMS)
    users, items = rng.integers(0, N_USERS - 1, 500), rng.integers(0, N_ITEMS, 500)  # the last one has rated nothing
    users[:200] = 3
    values = rng.integers(1, 6, 500).astype(np.float32)
    values[rng.random(500) < 0.1] = np.nan
    table.apply(users, items, values, np.zeros(500), np.arange(500))
    return table


@pytest.mark.parametrize("most", [1, 4, 1000])
def test_the_newest_ratings_of_many_users_are_those_of_each(most: int) -> None:
    rng = np.random.default_rng(most)
    table, is_read = random_table(most), rng.random(N_ITEMS) < 0.7
    users = rng.permutation(N_USERS)
    items, values, bounds = exact.newest_of_users(users, table.ordered_rows, most, is_read)
    assert (bounds[0], len(bounds)) == (0, N_USERS + 1)
    assert bounds[-1] == len(items) == len(values)
    for b, user in enumerate(users.tolist()):
        own, given, _, positions = table.row(user)
        newest = np.sort(np.argsort(positions)[-most:])
        read = newest[is_read[own[newest]]]
        part = slice(bounds[b], bounds[b + 1])
        assert items[part].tolist() == own[read].tolist()
        assert values[part].tolist() == given[read].tolist()


def test_entries_of_pairs_are_their_ratings() -> None:
    table = random_table(0)
    users, items, values = table.ratings().coo()
    order = np.random.default_rng(0).permutation(len(users))
    entries = table.entries(items[order].astype(np.int64), users[order].astype(np.int32))
    assert table.rows.values[entries].tolist() == values[order].tolist()


def test_items_that_are_left_out_are_found_for_all_users_together() -> None:
    table, is_in = random_table(1), np.random.default_rng(1).random(N_ITEMS) < 0.7
    users = np.array([3, 0, N_USERS - 1, 7])
    expected = [item for user in users for item in table.row(user)[0].tolist() if not is_in[item]]
    assert items_left_out(users, table.rows, is_in).tolist() == expected
    assert expected


def test_parts_of_rows_have_their_own_ratings() -> None:
    counts = np.array([2, 0, 3, 9, 1])
    rows = RatedRows(
        np.arange(15, dtype=np.int32), np.arange(15, dtype=np.float32), np.append(0, np.cumsum(counts)), np.arange(5.0)
    )
    assert list(parts_of(rows.counts, 5)) == [(0, 3), (3, 4), (4, 5)]  # a row with more than that is alone
    assert list(parts_of(rows.counts, 100)) == [(0, 5)]
    part = rows.part(2, 4)
    assert part.others.tolist() == part.values.tolist() == list(range(2, 14))
    assert (part.bounds.tolist(), part.ridges.tolist(), part.counts.tolist()) == ([0, 3, 12], [2.0, 3.0], [3, 9])
    piece = rows.part(3, 4).piece(2, 6)
    assert piece.others.tolist() == piece.values.tolist() == [7, 8, 9, 10]
    assert (piece.bounds.tolist(), piece.ridges.tolist()) == ([0, 4], [3.0])


def test_one_row_always_fits() -> None:
    assert [n_fitting(np.array([7, 1, 1]), most) for most in (0, 6, 7, 8, 9)] == [1, 1, 1, 2, 3]


def test_a_mapped_row_has_the_same_bits_with_any_other_rows() -> None:
    rng = np.random.default_rng(0)
    rows, matrix = rng.standard_normal((37, 21)).astype(np.float32), rng.standard_normal((21, 21)).astype(np.float32)
    together = exact.mapped(rows, matrix)
    np.testing.assert_allclose(together, rows.astype(np.float64) @ matrix, rtol=1e-4, atol=1e-4)
    for row in range(len(rows)):
        np.testing.assert_array_equal(exact.mapped(rows[row : row + 1], matrix)[0], together[row])
    assert exact.mapped(rows[:0], matrix).shape == (0, 21)
