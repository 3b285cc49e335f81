"""Checks that a training can learn, and that its model is finite, with factors that are not all about zero."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import DeadFactors, InvalidParams, TrainingDiverged
from gpu.data.model import Model
from gpu.data.param_kinds import GradientParams, Params, descending
from gpu.data.ratings import Ratings

DEAD_BELOW = 1e-3  # largest factor, over the square root of the unit of ratings; smaller ones are dead
LARGEST_SCORE = float(np.finfo(np.float32).max)
MIN_RATINGS = 1000  # ratings; with fewer, or with equal explicit ratings, zero factors can be right

LEAST_STEPS = 0.01  # sum of the steps of a mean row; with less, factors stay where they start, at random


def check_steps(params: Params, ratings: Ratings) -> None:
    """Raise `InvalidParams` if the steps of a descent on `ratings` are too short to learn anything."""
    if params.refits != "sampled":
        return
    steps = descending(params)
    n_rated = min(int(np.count_nonzero(rows.lengths)) for rows in (ratings.by_user, ratings.by_item))
    if steps.learning_rate * steps.n_epochs * len(ratings) / n_rated < LEAST_STEPS:
        raise InvalidParams(
            f"Invalid learning_rate for {params.algorithm}: expected steps that change factors, "
            f"got {steps.learning_rate:g} in {steps.n_epochs} epochs; raise learning_rate or n_epochs"
        )


def check_trained(model: Model, ratings: Ratings) -> None:
    """Raise an error unless `model`, trained on `ratings`, is usable.

    NMF may have factors of about zero on one side, since its columns have length 1 on the other.

    Raises:
        TrainingDiverged: a parameter is not finite, or so large that scores are not.
        DeadFactors: all factors of a side, or all item weights, are about zero, so that every user gets the same list.
    """
    sides = _sides(model)
    parameters = (array for array in model.arrays.values() if array.dtype == np.float32)
    are_finite = all(math.isfinite(_largest(array)) for array in parameters)
    if not are_finite or math.prod(sides) * model.params.width > LARGEST_SCORE:
        if model.params.refits == "sampled":
            descent = descending(model.params)
            raise diverged(descent, descent.n_epochs - 1)
        message = f"Training of {model.params.algorithm} diverged: expected finite parameters and scores"
        raise TrainingDiverged(
            f"{message}; {'use smaller ratings' if model.params.is_nonnegative else 'raise regularization'}"
        )
    largest = max(sides) if model.params.is_nonnegative else min(sides)
    low, high = ratings.scale
    needs_factors = len(ratings) >= MIN_RATINGS and (model.is_implicit or low < high)
    if largest < DEAD_BELOW * _scale(model) and needs_factors:
        what = "weights" if model.params.has_item_weights else "factors"
        raise DeadFactors(
            f"Training of {model.params.algorithm} left dead {what}: expected some of at least "
            f"{DEAD_BELOW:g}, got {largest / _scale(model):.2g} at most; {_advice(model)}"
        )


def diverged(params: GradientParams, epoch: int) -> TrainingDiverged:
    """The error of a descent whose parameters are not finite after `epoch`, from 0.

    A product of step and λ of at least 1 overshoots zero, so the message names such parameters first.
    """
    values = dataclasses.asdict(params)
    used = {name: (values[name] or 0.0, values[rate]) for name, rate in params.rates.items()}
    too_strong = [f"{name} ({ridge:g})" for name, (ridge, rate) in used.items() if ridge * rate >= 1]
    longer = {rate for rate in params.rates.values() if values[rate] > params.learning_rate}
    advice = f"lower {' and '.join(too_strong)}"
    if not too_strong and longer:  # neighbors add up, so their weights need shorter steps
        advice = f"lower {' and '.join(f'{rate} ({values[rate]:g})' for rate in longer)}"
    elif not too_strong:
        advice = f"lower learning_rate ({params.learning_rate:g}) or raise regularization ({params.regularization:g})"
        advice += "" if params.is_calibrated else ", or use calibration=data, which fits any scale of ratings"
    message = f"Training of {params.algorithm} diverged in epoch {epoch + 1}: expected finite parameters"
    return TrainingDiverged(f"{message}; {advice}")


def _largest(array: NDArray[np.number]) -> float:
    """The largest absolute value; NaN if the array has a NaN. Makes no copy."""
    return max(float(array.max()), -float(array.min())) if array.size else 0.0


def _sides(model: Model) -> tuple[float, ...]:
    """The largest absolute value of each array that scores are products of."""
    if model.params.has_item_lists:  # of any size: only their order counts
        return (float(model.listed_weights.any()),)
    if model.params.has_item_weights:
        return (_largest(model.item_weights),)
    return _largest(model.user_factors), _largest(model.item_factors)


def _scale(model: Model) -> float:
    return 1.0 if model.is_implicit else float(model.calibration.unit**0.5)


def _advice(model: Model) -> str:
    """The parameters to change, with their present values."""
    params, data = model.params, model.calibration
    if model.params.has_item_weights and not _sides(model)[0]:
        return "no user likes two items, so there is nothing to learn; add ratings, or train als-implicit"
    if model.params.has_item_weights:
        return f"lower regularization ({data.regularization:g})"
    fewer = f"use fewer n_factors ({params.width})"
    too_large = [
        f"lower {name} ({value:g})"
        for name, most in params.dies_beyond.items()
        if (value := float(getattr(params, name))) > most
    ]
    if too_large:
        return " or ".join(too_large)
    if params.has_values and not params.is_logit:
        return f"lower regularization ({data.regularization:g}), raise alpha ({data.alpha:g}) or {fewer}"
    if params.regularization is None:
        return fewer
    return f"lower regularization ({params.regularization:g}) or {fewer}"
