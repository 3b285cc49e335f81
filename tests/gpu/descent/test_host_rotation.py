"""Item groups that travel between ranks: each is where it is learned, and no byte goes further than it must."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.descent.host_rotation import Rotation, first_groups
from gpu.ranks.exchange import Exchange
from gpu.ranks.ring import Ring
from gpu.ranks.threads import run_threads

BOUNDS = np.array([0, 2, 2, 5, 6, 9, 10, 13, 14])  # D = 8 groups; one is empty
N_ITEMS, N_GROUPS = int(BOUNDS[-1]), len(BOUNDS) - 1


def start() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    shapes = (N_ITEMS, 3), (N_ITEMS,), (N_ITEMS, 0)
    return tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes)


def change(tables: tuple[np.ndarray, ...], rows: slice, step: int) -> None:
    """What the users of a group teach the items: another result in another order."""
    for table in tables:
        table[rows] = np.float32(0.5) * table[rows] + np.float32(step)


class Counted(Ring):
    """A ring that counts the bytes it shifts."""

    n_bytes = 0

    def shift(self, send: Any, receive: Any) -> None:
        self.n_bytes += send.nbytes
        super().shift(send, receive)


def counted(ring: Ring) -> Counted:
    return Counted(ring.rank, ring.size, ring._link)


@given(size=st.integers(1, 10), shifts=st.lists(st.integers(0, N_GROUPS - 1), max_size=12))
@settings(max_examples=40, deadline=None)
def test_each_group_is_where_the_users_are_that_learn_from_it(size: int, shifts: list[int]) -> None:
    expected = start()
    for step, _ in enumerate(shifts):
        for rows in pairwise(BOUNDS):
            change(expected, slice(*rows), step)

    def work(ring: Exchange) -> tuple[np.ndarray, ...]:
        tables = start()
        rotation = Rotation(tables, BOUNDS, ring)
        groups = range(*first_groups(N_GROUPS, size)[ring.rank : ring.rank + 2])
        for step, shift in enumerate(shifts):
            rotation.bring(shift)
            met = sorted((group + shift) % N_GROUPS for group in groups)
            assert rotation.held() == [slice(BOUNDS[group], BOUNDS[group + 1]) for group in met]
            for rows in rotation.held():
                change(tables, rows, step)
        assert rotation.is_complete == (shifts == [])
        rotation.complete()
        assert rotation.is_complete
        assert len(rotation.held()) == N_GROUPS
        return tables

    for tables in run_threads(size, work):
        for table, wanted in zip(tables, expected, strict=True):
            np.testing.assert_array_equal(table, wanted)


def bytes_sent(size: int, shifts: list[int]) -> list[int]:
    """Of each rank."""

    def work(ring: Ring) -> int:
        counting = counted(ring)
        rotation = Rotation(start(), BOUNDS, counting)
        for shift in shifts:
            rotation.bring(shift)
        return counting.n_bytes

    return run_threads(size, work)


@pytest.mark.parametrize(("shifts", "n_hops"), [([3], 0), ([3, 3], 0), ([4, 3], 1), ([3, 4], 7), ([0, 4, 0], 8)])
def test_groups_travel_as_far_as_the_next_rank_that_needs_them(shifts: list[int], n_hops: int) -> None:
    assert sum(bytes_sent(8, shifts)) == n_hops * 16 * N_ITEMS


def test_groups_that_stay_on_their_rank_are_not_sent() -> None:
    assert sum(bytes_sent(1, [0, 5, 2])) == 0
    of_two_groups = 16 * (BOUNDS[5] - BOUNDS[4] + BOUNDS[1] - BOUNDS[0])
    assert sum(bytes_sent(2, [0, 1])) == of_two_groups


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 9, 20])
def test_user_groups_are_divided_evenly(size: int) -> None:
    lengths = np.diff(first_groups(N_GROUPS, size))
    assert lengths.sum() == N_GROUPS
    assert lengths.max() - lengths.min() <= 1
