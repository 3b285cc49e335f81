"""Clips ratings to the scale of a model, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu.base.host import njit
from gpu.data.views import Arrays


@njit(nogil=True, cache=True, error_model="numpy")
def learned(value: np.float32, arrays: Arrays) -> Any:
    """The rating that an explicit model learns: `value`, clipped to the range of its training ratings."""
    return min(max(value, arrays.low), arrays.high)
