import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.ranking.eligible import Eligible
from service.engine.state.attribute_index import AttributeIndex
from service.engine.state.number_column import NumberColumn
from service.engine.state.row_set import RowSet
from service.storage.item_changes import Attributes

changes = st.lists(st.tuples(st.integers(0, 39), st.none() | st.sampled_from([-1.5, 0.0, 2.0, 1e38])), max_size=60)


@given(changes, st.sets(st.integers(0, 60)), st.sampled_from([40, 100, 1000]))
def test_a_column_finds_what_a_look_at_each_item_finds(
    made: list[tuple[int, float | None]], read_after: set[int], n_rows: int
) -> None:
    column, plain = NumberColumn(), dict[int, float]()
    for n, (row, new) in enumerate(made):
        column.change(row, plain.get(row), new, n_rows)
        plain.pop(row, None)
        if new is not None:
            plain[row] = new
        if n in read_after or n + 1 == len(made):
            n_rows += n % 3
            for least, most in ((-2.0, 0.0), (0.0, 2.0), (1e37, np.inf), (3.0, 4.0)):
                bits = column.within(least, most, n_rows)
                expected = np.zeros(n_rows, dtype=np.bool_)
                expected[[row for row, value in plain.items() if least <= value <= most]] = True
                np.testing.assert_array_equal(bits, Eligible.of(expected).bits)
            assert column.n == len(plain)


def test_names_that_few_items_have_take_memory_for_these_alone() -> None:
    index, n_items = AttributeIndex(), 1_000_000
    index.n_rows = n_items
    empty = Attributes()
    for item in range(9):
        index.change(item, empty, Attributes(numbers={f"n{item}-{n}": float(n) for n in range(100)}))
    index.pack()
    assert index.n_bytes <= 900 * 8  # and not 900 times 4 MB
    assert np.unpackbits(index.within("n3-7", 7, 7, n_items).view(np.uint8)).sum() == 1
    for item in range(9):
        index.change(item, Attributes(numbers={f"n{item}-{n}": float(n) for n in range(100)}), empty)
    assert index.n_bytes == 0


def test_tags_and_numbers_take_memory_for_the_rows_that_have_them() -> None:
    index = AttributeIndex()
    index.n_rows = 1_000_000
    for row in range(9):
        index.change(row, Attributes(), Attributes({"genre": ["drama"]}, {"year": 1995.0}))
    index.pack()
    assert index.n_bytes == 9 * 4 + 9 * 8


def test_a_column_is_dense_from_an_eighth_of_all_items_on_until_half_as_many_have_it() -> None:
    column, n_rows, n_bytes = NumberColumn(), 1008, dict[int, int]()
    for row in range(127):
        column.change(row, None, 1.0, n_rows)
        column.pack(n_rows)
        n_bytes[column.n] = column.n_bytes
    assert (n_bytes[100], n_bytes[126], n_bytes[127]) == (800, 1008, 4032)
    for row in range(127):
        column.change(row, 1.0, None, n_rows)
        column.pack(n_rows)
        n_bytes[column.n] = column.n_bytes
    assert (n_bytes[100], n_bytes[63], n_bytes[62]) == (4032, 4032, 496)


def test_a_set_has_bits_until_half_as_many_rows_are_in_it() -> None:
    rows, n_rows, n_bytes = RowSet(), 1024, dict[int, int]()
    for row in range(40):
        rows.add(row, n_rows)
    for row in range(40):
        rows.remove(row, n_rows)
        rows.pack(n_rows)
        n_bytes[rows.n] = rows.n_bytes
    assert (n_bytes[20], n_bytes[16], n_bytes[15]) == (128, 128, 60)


@pytest.mark.parametrize(("n_packed", "n_waiting"), [(0, 64), (400, 133), (20_000, 4096)])
def test_as_many_changes_wait_as_a_quarter_of_the_rows(n_packed: int, n_waiting: int) -> None:
    rows, column, n_rows = RowSet(), NumberColumn(), 10_000_000
    for row in range(n_packed):
        rows.add(row, n_rows)
        column.change(row, None, 1.0, n_rows)
    for one in (rows, column):
        one.pack(n_rows)
    for row in range(n_packed, n_packed + n_waiting):
        assert (rows.n_bytes, column.n_bytes) == (4 * n_packed, 8 * n_packed)
        rows.add(row, n_rows)
        column.change(row, None, 1.0, n_rows)
    assert (rows.n_bytes, column.n_bytes) == (4 * rows.n, 8 * column.n)


def test_a_dense_column_takes_rows_that_came_later() -> None:
    column = NumberColumn()
    for row in range(40):
        column.change(row, None, 1.0, 40)
    column.pack(40)
    column.change(59, None, 2.0, 60)
    bits = column.within(2.0, 2.0, 60)
    np.testing.assert_array_equal(bits, Eligible.of(np.arange(60) == 59).bits)
