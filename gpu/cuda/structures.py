"""Structures that kernels take by value: addresses of arrays and numbers, in the layout of C++."""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np

from gpu.cuda.growing import Growing

ADDRESS = "Q"
ARRAYS = (cupy.ndarray, Growing)


def structure(*fields: Any) -> Any:
    """The fields one after the other, each aligned to its size; a device array is passed as its address.

    Args:
        fields: device arrays, which the caller keeps until the launch, and NumPy scalars. A structure within a
            structure is given by its fields.
    """
    kinds = tuple(ADDRESS if isinstance(field, ARRAYS) else field.dtype.char for field in fields)
    values = tuple(address(field) if isinstance(field, ARRAYS) else field for field in fields)
    layout, plain = _layouts(kinds)
    return np.array(values, dtype=layout).view(plain)


def address(array: Any) -> int:
    """Address of a device array, growing or not."""
    pointer: int = (array.buffer if isinstance(array, Growing) else array).data.ptr
    return pointer


@functools.cache
def _layouts(kinds: tuple[str, ...]) -> tuple[np.dtype[np.void], np.dtype[np.void]]:
    """(layout of the fields, nameless dtype of the same size): a launch spells out field names, which is slow."""
    layout = np.dtype([(f"field{n}", kind) for n, kind in enumerate(kinds)], align=True)
    return layout, np.dtype(f"V{layout.itemsize}")
