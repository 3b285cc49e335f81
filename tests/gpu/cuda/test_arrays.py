"""Arrays on their way to the device."""

import importlib

import numpy as np
import pytest

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("shape", [(0,), (0, 7), (1,), (100,), (99, 3), (5, 4, 3)])
@pytest.mark.parametrize("kind", [np.bool_, np.int32, np.float64])
def test_copies_in_pieces_are_copies(
    shape: tuple[int, ...], kind: type[np.generic], monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = importlib.import_module("gpu.cuda.arrays")
    monkeypatch.setattr(arrays, "PIECE_BYTES", 72)
    given = np.random.default_rng(0).integers(0, 2, shape).astype(kind)
    for array in (given, np.asfortranarray(given), given[::2]):
        np.testing.assert_array_equal(arrays.to_device(array).get(), array)
