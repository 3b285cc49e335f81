from __future__ import annotations

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.engine.state.id_table import RETIRED, IdTable, key_of
from tests.service.waiting import quickest_s

ids = st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable())


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


def test_keys_are_stable_and_of_the_id_alone() -> None:
    table = IdTable()
    rows = table.rows_or_new(["b", "a", "b", "a/é"])
    assert rows.tolist() == [0, 1, 0, 2]
    assert table.keys.tolist() == [key_of("b"), key_of("a"), key_of("a/é")]
    assert key_of("a") == 0x2F42665B399EF840
    assert table.keys.dtype == np.uint64


def test_no_insertion_pauses_for_long() -> None:
    """500,000 ids; a single dict of that size doubles in about 40 ms, a shard in a fraction of one."""
    names = [f"user-{n}" for n in range(500_000)]

    def longest_s() -> float:
        table, durations = IdTable(), []
        for begin in range(0, len(names), 100):
            start = time.thread_time()
            table.rows_or_new(names[begin : begin + 100])
            durations.append(time.thread_time() - start)
        return max(durations)

    assert quickest_s(longest_s, 0.02) < 0.02


def test_the_empty_id_is_not_counted() -> None:
    """The log has the empty id if a forgotten user was the first to name an item."""
    table = IdTable()
    table.rows_or_new(["ann", "", "bob"])
    assert (len(table), table.n_known) == (3, 2)
