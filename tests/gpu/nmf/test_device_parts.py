"""The plan of a sparse product: every entry once, every row once, parts in the order of their slots and columns."""

import numpy as np
import pytest

from gpu.cuda.work import WHOLE
from gpu.data.ratings import Ratings, Rows
from gpu.nmf.device_parts import LONGEST, N_WARPS, longest, parts_of, slots_bound


def rows_of(lengths: list[int]) -> Rows:
    generator = np.random.default_rng(0)
    items = [np.sort(generator.choice(5000, n, replace=False)) for n in lengths]
    users = np.repeat(np.arange(len(lengths)), lengths)
    return Ratings.from_coo(users, np.concatenate(items), np.ones(len(users)), (len(lengths), 5000)).by_user


@pytest.mark.parametrize("lengths", [[1], [0, 7, 8, 9, 0], [0, 1, 100, 5000, 16, 17, 3, 0, 33, 2000, 0]])
@pytest.mark.parametrize("most", [1, 8, 10_000])
def test_every_entry_has_one_place(lengths: list[int], most: int) -> None:
    rows = rows_of(lengths)
    items, splits = parts_of(rows, most)
    taken = np.concatenate([np.arange(i["begin"], i["begin"] + i["length"]) for i in items])
    np.testing.assert_array_equal(np.sort(taken), np.arange(sum(lengths)))
    assert items["length"].max() <= most
    owners = np.searchsorted(np.cumsum(lengths), items["begin"], side="right")
    has_any = items["length"] > 0
    np.testing.assert_array_equal(items["row"][has_any], owners[has_any])
    whole = items[items["slot"] == WHOLE]
    assert set(whole["row"]) | set(splits["row"]) == set(range(len(lengths)))
    assert len(whole) + len(splits) == len(lengths)
    assert (np.diff(whole["length"]) <= 0).all()


def test_slots_of_a_row_follow_one_another_in_the_order_of_its_entries() -> None:
    rows = rows_of([100, 3, 0, 2000, 64])
    items, splits = parts_of(rows, 16)
    parts = items[items["slot"] != WHOLE]
    assert (np.diff(rows.items[parts["begin"]]) >= 0).all()
    by_slot = parts[np.argsort(parts["slot"])]
    np.testing.assert_array_equal(by_slot["slot"], np.arange(len(parts)))
    assert (np.diff(by_slot["begin"]) > 0).all()
    for split in splits:
        own = by_slot[split["first_slot"] : split["first_slot"] + split["n_slots"]]
        assert set(own["row"]) == {split["row"]}
        assert own["length"].sum() == rows.lengths[split["row"]]


def test_parts_are_neither_too_many_nor_too_long() -> None:
    assert [longest(n) for n in (1, 300 * N_WARPS, 10**9)] == [LONGEST[0], 300, LONGEST[1]]
    rows = rows_of([129, 5000, 1, 4000, 128, 257])
    _, splits = parts_of(rows, longest(len(rows.values)))
    assert 0 < splits["n_slots"].sum() <= slots_bound(len(rows.values))
