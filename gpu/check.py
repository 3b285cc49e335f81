"""What every trained model must have: finite parameters, and factors that are more than nothing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gpu.errors import DeadFactors, TrainingDiverged
from gpu.model import Model
from gpu.params import NmfParams
from gpu.ratings import Ratings

DEAD_BELOW = 1e-3  # largest factor, in units of what products of factors stand for, to the power of ½
MIN_RATINGS = 1000  # fewer may leave factors nothing to say, and so may explicit ratings that are all equal


def check_trained(model: Model, ratings: Ratings) -> None:
    """Return if `model`, trained on `ratings`, is of use.

    NMF may have factors of zeros on one side: its columns have length 1 on the other.

    Raises:
        TrainingDiverged: a parameter is not finite.
        DeadFactors: all factors of a side are about zero, so that every user gets the same list.
    """
    for name, array in model.arrays.items():
        if array.dtype == np.float32 and not math.isfinite(_largest(array)):
            raise TrainingDiverged(
                f"Training of {model.params.algorithm} diverged: expected finite {name}; raise regularization"
            )
    sides = _largest(model.user_factors), _largest(model.item_factors)
    largest = max(sides) if isinstance(model.params, NmfParams) else min(sides)
    low, high = ratings.scale
    says_something = len(ratings) >= MIN_RATINGS and (model.is_implicit or low < high)
    if largest < DEAD_BELOW * _scale(model) and says_something:
        raise DeadFactors(
            f"Training of {model.params.algorithm} left dead factors: expected some of at least {DEAD_BELOW:g}, "
            f"got {largest / _scale(model):.2g} at most; {_advice(model)}"
        )


def _largest(array: NDArray[np.number]) -> float:
    """The largest absolute value; NaN if there is one. Copies nothing."""
    return max(float(array.max()), -float(array.min())) if array.size else 0.0


def _scale(model: Model) -> float:
    return 1.0 if model.is_implicit else float(model.calibration.unit**0.5)


def _advice(model: Model) -> str:
    """What to change, with what was used."""
    params, known = model.params, model.calibration
    fewer = f"use fewer n_factors ({params.n_factors})"
    if params.algorithm == "als-implicit":
        return f"lower regularization ({known.regularization:g}), raise alpha ({known.alpha:g}) or {fewer}"
    if not hasattr(params, "regularization"):
        return fewer
    return f"lower regularization ({params.regularization:g}) or {fewer}"
