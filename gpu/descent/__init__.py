"""Stochastic gradient descent: CUSGD++ and CULSH-MF ([004]), and ESGD ([003])."""

from __future__ import annotations

from typing import Any

from gpu.data.model import Model
from gpu.descent.params import CulshImplicitParams, CulshParams, EsgdParams, SgdParams
from gpu.training.algorithm import Algorithm, register
from gpu.training.loop import Trainer


def make_culsh(*given: Any) -> Trainer[Model]:
    """The trainer of CULSH-MF."""
    from gpu.descent.culsh import trainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return trainer(*given)


def make_esgd(*given: Any) -> Trainer[Model]:
    """The trainer of ESGD."""
    from gpu.descent.esgd import EsgdTrainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return EsgdTrainer(*given)


def make_sgd(*given: Any) -> Trainer[Model]:
    """The trainer of CUSGD++."""
    from gpu.descent.trainer import trainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return trainer(*given)


OF_ESTIMATES = "the estimate minus a deduction for items with few ratings"
BY_HASHING, BY_COSINE = "by hashing", "by cosine"
register(
    Algorithm(
        CulshParams,
        make_culsh,
        learns="Ratings, by factors and by the neighbors of items. The best estimates of what a user would rate.",
        score=OF_ESTIMATES,
        near=BY_HASHING,
    )
)
register(
    Algorithm(
        CulshImplicitParams,
        make_culsh,
        learns="Who rated what, whatever the ratings are, by factors and by the neighbors of items.",
        score="log-odds of a rating",
        near=BY_HASHING,
    )
)
register(
    Algorithm(
        EsgdParams,
        make_esgd,
        learns="Ratings, by factors and fixed biases.",
        score=OF_ESTIMATES,
        near=BY_COSINE,
        needs_calibration=False,
    )
)
register(
    Algorithm(
        SgdParams,
        make_sgd,
        learns="Ratings, by factors alone: culsh without neighbors.",
        score=OF_ESTIMATES,
        near=BY_COSINE,
        needs_calibration=False,
    )
)
