from typing import Annotated, Any, TypeVar

import numpy as np
import pytest
from numba import types
from numpy.typing import NDArray
from typing_extensions import TypeAliasType

from gpu.base.host.declared import signatures

Scalar = TypeVar("Scalar", bound=np.generic)
Alias = TypeAliasType("Alias", np.ndarray[tuple[Any, ...], np.dtype[Scalar]], type_params=(Scalar,))


class Kernel:
    """What `signatures` reads of a compiled function."""

    def __init__(self, array: Any) -> None:
        self.py_func = lambda: None
        self.py_func.__annotations__ = {
            "rows": array[np.int64],
            "factors": Annotated[array[Any], np.float32, 2],
            "ids": Annotated[array[Any], (np.int32, np.int64)],
            "return": None,
        }


@pytest.mark.parametrize("array", [NDArray, Alias], ids=["of this NumPy", "by an alias, as from NumPy 2.5 on"])
def test_arrays_are_understood_however_numpy_writes_them(array: Any) -> None:
    rows, factors = types.Array(types.int64, 1, "C"), types.Array(types.float32, 2, "C")
    assert signatures(Kernel(array)) == [
        (rows, factors, types.Array(ids, 1, "C")) for ids in (types.int32, types.int64)
    ]
