"""What ratings beyond the scale of a model count as, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from gpu.views import Arrays


@njit(nogil=True, cache=True, error_model="numpy")
def learned(value: np.float32, arrays: Arrays) -> Any:
    """What a model of ratings learns of one: no less than the lowest and no more than the highest it was trained on."""
    return min(max(value, arrays.low), arrays.high)
