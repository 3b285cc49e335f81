"""Rows of several arrays brought to the host, and to the device, in one copy."""

import importlib
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.gpu
WIDTHS = {"factors": (70,), "bias": (), "lists": (3,), "nothing": (0,)}


def arrays_of(n_rows: int, seed: int) -> dict[str, Any]:
    """Float32 but for whole numbers in `lists`."""
    rng = np.random.default_rng(seed)
    made = {name: rng.standard_normal((n_rows, *shape)).astype(np.float32) for name, shape in WIDTHS.items()}
    return made | {"lists": rng.integers(-1, 99, (n_rows, 3)).astype(np.int32)}


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_are_fetched_from_both_sides(dtype: type[np.integer]) -> None:
    cupy, packing = importlib.import_module("cupy"), importlib.import_module("gpu.online.device.packing")
    sides = [arrays_of(40, 0), arrays_of(50, 1)]
    for rows in (np.array([39, 0, 7]), np.zeros(0, dtype=np.int64)):
        asked = [rows.astype(dtype), np.arange(50)[::-1].copy()]
        placed = [{name: cupy.asarray(array) for name, array in side.items()} for side in sides]
        parts = packing.fetched(*zip(map(cupy.asarray, asked), placed, strict=True))
        for (found, arrays), expected, side in zip(parts, asked, sides, strict=True):
            assert found.tolist() == expected.tolist()
            for name, array in arrays.items():
                np.testing.assert_array_equal(array, side[name][expected], err_msg=name)


@pytest.mark.parametrize("n", [0, 1, 9, 40])
def test_rows_are_written_and_no_others(n: int) -> None:
    cupy, packing = importlib.import_module("cupy"), importlib.import_module("gpu.online.device.packing")
    expected, news = arrays_of(40, 0), arrays_of(n, 1)
    placed = {name: cupy.asarray(array) for name, array in expected.items()}
    rows = np.random.default_rng(2).permutation(40)[:n]
    packing.write(placed, rows, news)
    for name, array in expected.items():
        array[rows] = news[name]
        np.testing.assert_array_equal(placed[name].get(), array, err_msg=name)
