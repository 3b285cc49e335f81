"""The sums that next is solved from, in fixed point: equal on host and device, bit for bit, in any order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import TrainingDiverged

UNIT = 2.0**24  # a user adds at most Σ w² ≤ 1000 · 2² < 2¹² to a sum, so 2²⁷ users fit into 63 bits


def in_fixed_point(curve: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(w (K + 1,), C (K, K + 1)) as multiples of 1 / `UNIT`; C_dm = Σ_{k=1..min(m, K−d)} w_k w_{k+d}.

    An item and one d places before it take part together in the x of the next m items of their user.
    """
    window = len(curve) - 1
    shared = np.zeros((window, window + 1))
    for d in range(window):
        shared[d, 1 : window - d + 1] = np.cumsum(curve[1 : window - d + 1] * curve[1 + d :])
        shared[d, window - d + 1 :] = shared[d, window - d]
    return np.rint(curve * UNIT).astype(np.int64), np.rint(shared * UNIT).astype(np.int64)


def no_inverse() -> TrainingDiverged:
    """The error for a singular XᵀX + λ: λ is too small for float64."""
    return TrainingDiverged("Training of next diverged: expected XᵀX + λ to have an inverse; raise regularization")
