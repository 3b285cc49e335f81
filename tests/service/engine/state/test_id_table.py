import threading
import time

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.data.host_ids import NO_ROW, IdColumn
from service.engine.state.id_table import RETIRED, IdTable, column_of_log, key_of
from tests.service.waiting import quickest_s

ids = st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable())
# The log has the empty id if a forgotten user was the first to name an item.
IDS = st.text(max_size=4) | st.sampled_from(["a", "ab", "b", "é", "ﬁ", "a" * 300])


def log_column(codes: list[int], names: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names, pa.string()))


@given(st.lists(st.tuples(ids, st.booleans()), max_size=80))
def test_it_is_a_dict_that_never_gives_a_row_twice(steps: list[tuple[str, bool]]) -> None:
    table, model = IdTable(), dict[str, int]()
    n_rows = 0
    for identifier, forget in steps:
        if forget:
            assert table.forget(identifier) == model.pop(identifier, None)
            continue
        if identifier not in model:
            model[identifier] = n_rows
            n_rows += 1
        assert table.row_or_new(identifier) == model[identifier]
    assert len(table) == len(table.keys) == n_rows
    known = {row: identifier for identifier, row in model.items()}
    assert table.ids(range(n_rows)) == [known.get(row, RETIRED) for row in range(n_rows)]
    assert all(table.row(identifier) == row for identifier, row in model.items())


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_columns_of_any_kind_have_the_rows_of_a_dict(data: st.DataObject) -> None:
    table, model, n_rows = IdTable(), dict[str, int](), 0
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()) and model:
            gone = data.draw(st.sampled_from(sorted(model)))
            assert table.forget(gone) == model.pop(gone)
        names = data.draw(st.lists(IDS, min_size=1, max_size=20))
        codes = data.draw(st.lists(st.integers(0, len(names) - 1), max_size=30))
        first = data.draw(st.integers(0, len(codes)))
        used = [names[code] for code in codes[first:]]
        column = log_column(codes, names).slice(first) if data.draw(st.booleans()) else None
        column = IdColumn.of(used) if column is None else column_of_log(column)
        assert table.rows_of(column).tolist() == [model.get(name, NO_ROW) for name in used]
        for name in used:
            if name not in model:
                model[name], n_rows = n_rows, n_rows + 1
        assert table.rows_or_new_of(column).tolist() == [model[name] for name in used]
        assert table.rows([*names, None, "\ud800"]) == [*map(model.get, names), None, None]
        assert (len(table), table.n_known) == (n_rows, len(model) - ("" in model))
        assert table.keys[list(model.values())].tolist() == list(map(key_of, model))


def test_many_ids_keep_their_rows_and_leave_when_they_are_forgotten() -> None:
    table, names = IdTable(), [f"user-{n * 7919 % 100_003}" for n in range(50_000)]
    table.rows_or_new(names[:30_000])
    assert table.rows_or_new(names).tolist() == list(range(50_000))
    for n in range(0, 50_000, 500):
        assert table.forget(names[n]) == n
    assert table.rows(names) == [n if n % 500 else None for n in range(50_000)]
    assert table.rows_or_new(names[:501:500]).tolist() == [50_000, 50_001]
    table.rows_or_new(["somebody", "a secret name"])
    table.forget("a secret name")
    assert b"secret" not in table._text.values.tobytes()
    assert table.row("somebody") == 50_002


def test_keys_are_stable_and_of_the_id_alone() -> None:
    table = IdTable()
    rows = table.rows_or_new(["b", "a", "b", "a/é"])
    assert rows.tolist() == [0, 1, 0, 2]
    assert table.keys.tolist() == [key_of("b"), key_of("a"), key_of("a/é")]
    assert key_of("a") == 0x2F42665B399EF840
    assert table.keys.dtype == np.uint64


def test_keys_of_ids_of_any_length_are_those_of_the_library() -> None:
    """A block of the hash has 128 bytes; the first, the last and an empty one differ from the others."""
    names, table = (
        ["", "é" * 63, "é" * 64, *("x" * n for n in range(1, 300)), "日本語/ид", "\U0001f600" * 64],
        IdTable(),
    )
    assert table.rows_or_new(names).tolist() == list(range(len(names)))
    assert table.keys.tolist() == [key_of(name) for name in names]


def test_no_insertion_pauses_for_long() -> None:
    """500,000 ids; a single dict of that size doubles in about 40 ms."""
    IdTable().rows_or_new(["compiles"])
    names = [f"user-{n}" for n in range(500_000)]

    def longest_s() -> float:
        table, durations = IdTable(), []
        for begin in range(0, len(names), 100):
            start = time.thread_time()
            table.rows_or_new(names[begin : begin + 100])
            durations.append(time.thread_time() - start)
        return max(durations)

    assert quickest_s(longest_s, 0.02) < 0.02


def test_another_thread_may_look_up_meanwhile() -> None:
    table, names, is_over = IdTable(), [f"user-{n}" for n in range(100_000)], threading.Event()
    table.rows_or_new(names[:1000])
    wrong: list[int | None] = []

    def look_up() -> None:
        while not is_over.is_set():
            rows = table.rows(names[:1000:100])
            wrong.extend(row for n, row in enumerate(rows) if row not in (100 * n, None))

    thread = threading.Thread(target=look_up)
    thread.start()
    for begin in range(1000, len(names), 100):
        table.rows_or_new(names[begin : begin + 100])
    is_over.set()
    thread.join()
    assert not wrong
    assert table.rows(names) == list(range(len(names)))


def test_the_empty_id_is_not_counted() -> None:
    """The log has the empty id if a forgotten user was the first to name an item."""
    table = IdTable()
    table.rows_or_new(["ann", "", "bob"])
    assert (len(table), table.n_known) == (3, 2)


def test_short_columns_of_a_long_dictionary_cost_little() -> None:
    """Where kinds of entries alternate, a window of the log falls into thousands of columns with its dictionary."""
    whole = log_column(list(range(300_000)), [f"user-{n}" for n in range(300_000)])
    table = IdTable()
    table.rows_or_new_of(column_of_log(whole.slice(0, 1)))
    began = time.process_time()
    for n in range(300):
        table.rows_or_new_of(column_of_log(whole.slice(n, 1)))
    short_s = time.process_time() - began
    began = time.process_time()
    table.rows_or_new_of(column_of_log(whole))
    assert short_s < 20 * (time.process_time() - began)
