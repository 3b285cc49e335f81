"""Structures that kernels take by value: addresses of arrays and numbers, laid out as C++ lays them out."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np


def structure(*fields: Any) -> Any:
    """The fields one after the other, each aligned to its size; an array is passed as its address.

    Args:
        fields: device arrays, NumPy scalars, or what this returned (C++: a structure as a member).
    """
    names = [f"f{n}" for n in range(len(fields))]
    values = [np.uint64(field.data.ptr) if isinstance(field, cupy.ndarray) else field for field in fields]
    kinds = np.dtype([(name, value.dtype) for name, value in zip(names, values, strict=True)], align=True)
    found = np.zeros((), dtype=kinds)
    for name, value in zip(names, values, strict=True):
        found[name] = value
    return found
