"""The cache of rows that the rating log is read with: it always says what the table of ids says."""

from __future__ import annotations

import time

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.state.id_table import IdTable, key_of
from service.engine.state.known_ids import KnownIds

# The log has the empty id if a forgotten user was the first to name an item.
IDS = st.text(max_size=4) | st.sampled_from(["a", "ab", "b", "é", "ﬁ", "a" * 300])


def column(codes: list[int], ids: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(ids, pa.string()))


def test_ids_get_rows_in_order_of_first_appearance() -> None:
    ids = IdTable()
    known = KnownIds(ids)
    first = column([3, 1, 3, 0], ["a", "b", "unused", "d"])
    assert known.rows_of(first).tolist() == [0, 1, 0, 2]
    assert ids.ids(range(len(ids))) == ["d", "b", "a"]
    assert known.rows_of(first.slice(1)).tolist() == [1, 0, 2]
    assert known.rows_of(first.slice(0, 0)).tolist() == []


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_rows_are_those_of_a_table_that_looks_up_each_id(data: st.DataObject) -> None:
    ids, plain = IdTable(), IdTable()
    known = KnownIds(ids)
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()) and len(plain):
            gone = data.draw(st.sampled_from(plain.ids(range(len(plain)))))
            assert ids.forget(gone) == plain.forget(gone)
        if data.draw(st.booleans()):
            other = data.draw(IDS)  # the table may learn ids elsewhere, too
            assert ids.row_or_new(other) == plain.row_or_new(other)
        names = data.draw(st.lists(IDS, min_size=1, max_size=20, unique=True))
        codes = data.draw(st.lists(st.integers(0, len(names) - 1), max_size=30))
        first = data.draw(st.integers(0, len(codes)))
        expected = [plain.row_or_new(names[code]) for code in codes[first:]]
        assert known.rows_of(column(codes, names).slice(first)).tolist() == expected
        assert ids.ids(range(len(ids))) == plain.ids(range(len(plain)))
        assert ids.keys.tolist() == plain.keys.tolist()


def test_keys_of_ids_of_any_length_are_those_of_the_table() -> None:
    """A block of the hash has 128 bytes; the first, the last and an empty one differ from the others."""
    names = ["", "é" * 63, "é" * 64, *("x" * n for n in range(1, 300)), "日本語/ид", "\U0001f600" * 64]
    ids = IdTable()
    assert KnownIds(ids).rows_of(column(list(range(len(names))), names)).tolist() == list(range(len(names)))
    assert ids.keys.tolist() == [key_of(name) for name in names]


def test_short_columns_of_a_long_dictionary_cost_little() -> None:
    """Where kinds of entries alternate, a window of the log falls into thousands of columns with its dictionary."""
    whole = column(list(range(300_000)), [f"user-{n}" for n in range(300_000)])
    known = KnownIds(IdTable())
    known.rows_of(whole.slice(0, 1))
    began = time.process_time()
    for n in range(300):
        known.rows_of(whole.slice(n, 1))
    short_s = time.process_time() - began
    began = time.process_time()
    known.rows_of(whole)
    assert short_s < 20 * (time.process_time() - began)
