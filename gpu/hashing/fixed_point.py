"""Ψ of ratings in fixed point ([004] eq. 3): the weights with which a signature counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpu.data.ratings import NO_MIDDLE, are_likes
from gpu.hashing.params import Psi

if TYPE_CHECKING:
    from gpu.descent.params import CulshParams


Scale = tuple[float, float]  # smallest and largest rating
WORD_BITS = 64

# Steps of Ψ in the width of the rating scale (residual) or in the largest square (power): a step is a sixteenth of a
# star on five stars. Neighbors found with 1,024 steps train no better models.
PSI_STEPS = 64
# Steps; Ψ saturates here, at two widths. So it is a signed byte, whose eight bits a device multiplies at once. A sum of
# n random signs has a deviation of at most 127·√n, so int32 does not overflow. If it did, subtraction would still undo
# addition.
PSI_LIMIT = 127
SQUARINGS = {"linear": 0, "power": 1, "fourth": 2}  # Ψ = r, r² and r⁴: how often r is squared


def psi_of(params: CulshParams) -> Psi | None:
    """The kind of Ψ; None for implicit models, where a like counts 1 and a dislike −1."""
    return None if params.is_implicit else params.psi


def unit(params: CulshParams, scale: tuple[float, float], origin: float) -> float:
    """The value that `PSI_STEPS` steps stand for: the width of the scale (residual), or its largest power of r."""
    if params.psi in SQUARINGS:
        return float(max(abs(scale[0] - origin), abs(scale[1] - origin)) ** 2 ** SQUARINGS[params.psi]) or 1.0
    return scale[1] - scale[0] or 1.0


def psi(
    params: CulshParams,
    scale: tuple[float, float],
    origin: float,
    values: NDArray[np.float32],
    mean: float,
    user_baseline: NDArray[np.float32],
    item_baseline: NDArray[np.float32],
    middle: float = NO_MIDDLE,
) -> NDArray[np.int8]:
    """Ψ of ratings in fixed point: the weight with which each is added to the sums of its item.

    `residual`: r − b_ij in units of the scale's width. `power`: (r − origin)² in units of the largest; `linear` and
    `fourth` are its first and fourth power. Implicit: 1 for a like, −1 for a dislike. It works element by element in
    float64, so equal ratings give equal integers.

    Args:
        scale: smallest and largest training rating (`Model.scale`).
        origin: the zero point of r (`Calibration.origin`).
        values: ratings, (N,).
        mean, user_baseline, item_baseline: μ and the baselines of each rating's user and item, (N,).
        middle: of the model; ratings below it are dislikes.

    Returns:
        int8 (N,), |Ψ| ≤ `PSI_LIMIT`.
    """
    if psi_of(params) is None:
        return np.where(are_likes(values, middle), np.int8(1), np.int8(-1))
    exact = values.astype(np.float64)
    weights = exact - origin if params.psi in SQUARINGS else exact - mean - user_baseline - item_baseline
    for _ in range(SQUARINGS.get(params.psi, 0)):
        weights = weights * weights  # as the device does: a power could differ in the last bit
    return in_steps(weights / unit(params, scale, origin))


def in_steps(weights: NDArray[np.float64]) -> NDArray[np.int8]:
    """Weights in fixed point, int8 (N,): 1 is `PSI_STEPS`."""
    return np.clip(np.rint(weights * PSI_STEPS), -PSI_LIMIT, PSI_LIMIT).astype(np.int8)
