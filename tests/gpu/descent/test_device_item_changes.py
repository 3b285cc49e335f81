"""Changes of items on the device against the host."""

from typing import Any

import numpy as np
import pytest

from gpu.data.model import Model
from gpu.data.views import Shares
from gpu.descent.host_item_changes import ItemChanges
from gpu.descent.params import CulshParams

pytestmark = pytest.mark.gpu
SHAPES = (7, 8), (7,), (7, 4), (7, 0)
WAYS = 0.02, 0.02, 0.005, 0.005


def test_shares_of_changes_are_those_of_the_host() -> None:
    import cupy  # noqa: PLC0415

    from gpu.descent import device_item_changes as device  # noqa: PLC0415 - needs CuPy

    rng = np.random.default_rng(1)
    counts = np.array([0, 1, 10, 100, 1000, 10**5, 10**7])
    before, after = ([rng.standard_normal(shape, dtype=np.float32) for shape in SHAPES] for _ in range(2))
    users = rng.standard_normal((500, 8)).astype(np.float16)

    def merged(form: Any, arrays: list[Any], now: list[Any], factors: Any) -> list[Any]:
        changes = form(arrays, counts, 3)
        total = changes.collect(now, factors)
        total *= 3  # of three ranks that have changed the same
        changes.apply(now, WAYS)
        return now

    expected = merged(ItemChanges, before, [array.copy() for array in after], users.astype(np.float32))
    on_device = [cupy.asarray(array) for array in before], [cupy.asarray(array) for array in after]
    for found, wanted in zip(merged(device.ItemChanges, *on_device, cupy.asarray(users)), expected, strict=True):
        np.testing.assert_allclose(found.get(), wanted, rtol=1e-4, atol=1e-5)
    assert not np.allclose(expected[0], after[0])


def test_changes_count_from_what_is_remembered() -> None:
    import cupy  # noqa: PLC0415

    from gpu.descent.device_item_changes import ItemChanges as OnDevice  # noqa: PLC0415 - needs CuPy

    array = cupy.zeros((3, 4), dtype=cupy.float32)
    changes = OnDevice([array], np.ones(3, dtype=np.int64), 2)
    array += 5
    changes.remember([array])
    array += 1
    assert changes.collect([array], array)[:-1].tolist() == [1] * 12


@pytest.mark.parametrize("number", [np.float16, np.float32])
def test_all_arrays_are_pulled_toward_zero_at_once(number: Any) -> None:
    """With the bits of products in the arrays' own numbers."""
    import cupy  # noqa: PLC0415

    from gpu.descent.device_layout import DescentParameters, Geometry  # noqa: PLC0415 - needs CuPy

    params = CulshParams(n_factors=20, n_neighbors=4, n_bits=64)
    model, rng = Model.zeros(params, 3.0, (1, 5), 301, 77, 64), np.random.default_rng(0)
    for array in (model.user_factors, model.user_bias, model.item_factors, model.item_bias, model.explicit_weights):
        array[:] = rng.standard_normal(array.shape)
    parameters = DescentParameters(model, Geometry.of(params))
    parameters.users = parameters.users.astype(number)
    names = {"users": 0.07, "items": 0.07, "user_bias": 0.2, "item_bias": 0.2, "explicit": 0.005, "implicit": 0.005}
    before = {name: getattr(parameters, name).get() for name in names}
    parameters.shrink(Shares(0.07, 0.2, 0.005))
    for name, share in names.items():
        wanted = before[name] * before[name].dtype.type(1 - share)
        np.testing.assert_array_equal(cupy.asnumpy(getattr(parameters, name)), wanted, err_msg=name)
