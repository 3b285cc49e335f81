"""Arrays that grow without being copied."""

import gc
import mmap
from pathlib import Path

import numpy as np
import pytest

from gpu.base import growing
from gpu.base.growing import RESERVED_FROM, Growing


def reserved_bytes() -> int:
    """Addresses of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


@pytest.mark.parametrize("shape", [(0, 3), (5, 3), (5,), (4, 0), (RESERVED_FROM // 4 + 1, 2)])
@pytest.mark.parametrize("fill", [0, -1])
def test_rows_keep_their_values_and_new_ones_are_filled(shape: tuple[int, ...], fill: int) -> None:
    grown = Growing.filled(shape, np.int32, fill)
    assert grown.values.shape == shape
    assert (grown.values == fill).all()
    grown.values[:] = np.arange(grown.values.size).reshape(shape)
    expected = grown.values.copy()
    for n_rows in (shape[0] + 1, 2 * shape[0] + 7, shape[0] + RESERVED_FROM):
        grown.grow(n_rows)
        assert grown.values.shape == (n_rows, *shape[1:])
        assert (grown.values[: shape[0]] == expected).all()
        assert (grown.values[shape[0] :] == fill).all()
        grown.values[-1:] = fill
    assert grown.n_bytes == grown.values.nbytes


def test_what_was_adopted_stays_the_callers_until_it_grows() -> None:
    given = np.arange(4.0)
    grown = Growing(given)
    grown.values[0] = 9
    assert given[0] == 9
    grown.grow(2)
    assert grown.values is given
    grown.grow(5)
    assert grown.values.tolist() == [9, 1, 2, 3, 0]


def test_earlier_views_of_a_long_array_see_the_same_rows() -> None:
    grown = Growing.filled((RESERVED_FROM,), np.float32)
    before = grown.values
    grown.grow(4 * RESERVED_FROM)
    grown.values[7], before[8] = 7, 8
    assert (before[7], grown.values[8]) == (7, 8)


def test_a_reservation_goes_with_the_array() -> None:
    before = reserved_bytes()
    made = [Growing.filled((RESERVED_FROM,), np.float32) for _ in range(5)]
    for one in made:
        one.grow(2 * RESERVED_FROM)
    assert reserved_bytes() >= before + 5 * growing.RESERVED_BYTES
    assert sum(one.n_bytes for one in made) == 5 * 8 * RESERVED_FROM
    del one, made
    gc.collect()
    assert reserved_bytes() < before + growing.RESERVED_BYTES


def test_without_a_reservation_rows_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "RESERVED_BYTES", 2**60)
    grown = Growing.filled((RESERVED_FROM,), np.float32)
    grown.values[5] = 3
    grown.grow(3 * RESERVED_FROM)
    assert grown.values[5] == 3
    assert grown.values.sum() == 3
