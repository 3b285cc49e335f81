"""Hyperparameters of EASE, with every default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpu.data.param_kinds import (
    Confidence,
    Params,
    Values,
)


@dataclass(frozen=True)
class EaseParams(Params):
    """EASE (Steck 2019, arXiv:1905.03375): weights between items in closed form; users have no factors, only ratings.

    Attributes (beyond `Params`):
        regularization: λ on the diagonal of XᵀX. A larger λ lowers the weights of items with few common raters. None:
            computed from the number of rows and the density, in proportion to the largest eigenvalue of XᵀX that random
            likes would give.
        values, confidence, event_weight: as in `AlsImplicitParams`.
        half_life_days: h; what a like weighs, in the training and in the list of its user, halves with each h of its
            age (`gpu.data.decay`). None: age does not matter. It needs the times of ratings.
    """

    algorithm: ClassVar[str] = "ease"
    has_values: ClassVar[bool] = True
    is_implicit: ClassVar[bool] = True
    has_item_weights: ClassVar[bool] = True

    regularization: float | None = None
    values: Values = "auto"
    confidence: Confidence = "auto"
    event_weight: float | None = None
    half_life_days: float | None = None
