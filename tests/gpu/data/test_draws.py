"""Random tables: equal rows have equal numbers, and their laws are those asked for."""

import threading
import tracemalloc

import numpy as np
import pytest

from gpu.data import draws


def drawn(n_rows: int, key: tuple[int, ...], *, is_normal: bool) -> np.ndarray:
    table = np.empty((n_rows, 5), dtype=np.float32)
    draws.fill(table, key, 0.5, is_normal=is_normal)
    return table


@pytest.mark.parametrize("is_normal", [True, False])
def test_equal_rows_have_equal_numbers_and_others_have_not(is_normal):
    whole = drawn(3 * draws.BLOCK + 7, (1, 0), is_normal=is_normal)
    np.testing.assert_array_equal(drawn(2 * draws.BLOCK, (1, 0), is_normal=is_normal), whole[: 2 * draws.BLOCK])
    assert len(np.unique(whole.round(6))) > 0.9 * whole.size or not is_normal
    assert not np.array_equal(whole[: draws.BLOCK], whole[draws.BLOCK : 2 * draws.BLOCK])
    assert not np.array_equal(drawn(9, (1, 1), is_normal=is_normal), whole[:9])
    mean, deviation = (0, 0.5) if is_normal else (0.25, 0.5 / 12**0.5)
    assert (whole.mean(), whole.std()) == pytest.approx((mean, deviation), abs=0.005)
    assert is_normal or 0 <= whole.min() < whole.max() < 0.5


def test_every_number_is_in_one_piece():
    pieces, lock = list[slice](), threading.Lock()

    def take(piece: slice) -> None:
        with lock:
            pieces.append(piece)

    draws.by_threads(take, 10, 4)
    assert sorted((piece.start, piece.stop) for piece in pieces) == [(0, 4), (4, 8), (8, 10)]
    with pytest.raises(ZeroDivisionError):
        draws.by_threads(lambda piece: piece.start // 0, 10, 4)


@pytest.mark.parametrize("is_normal", [False, True])
@pytest.mark.parametrize("rows", [slice(0, 5), slice(4000, 4100), slice(4096, 9000), slice(5000, 5000)])
def test_some_rows_have_the_numbers_that_they_have_among_all(rows, is_normal):
    whole = np.zeros((9000, 3), dtype=np.float32)
    draws.fill(whole, (7,), 0.5, is_normal=is_normal)
    some = np.zeros((rows.stop - rows.start, 3), dtype=np.float32)
    draws.fill(some, (7,), 0.5, is_normal=is_normal, first=rows.start)
    np.testing.assert_array_equal(some, whole[rows])


@pytest.mark.parametrize("is_normal", [False, True])
def test_numbers_are_drawn_in_place(is_normal):
    """Threads that take and give back memory for each block wait for each other, for up to two thirds of the time."""
    table = np.zeros((3 * draws.BLOCK, 50), dtype=np.float32)
    draws.fill(table, (1,), 0.5, is_normal=is_normal)
    tracemalloc.start()
    draws.fill(table, (1,), 0.5, is_normal=is_normal)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < table[: draws.BLOCK].nbytes
