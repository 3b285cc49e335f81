"""ALS ([000]; [001]), explicit and implicit, on one or several ranks, with ratings in memory or in batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.base.backend import Backend
from gpu.data.model import Model
from gpu.data.ratings import Ratings
from gpu.data.signals import NEUTRAL
from gpu.training.algorithm import Algorithm, register
from gpu.training.loop import Trainer


def make_trainer(*given: Any) -> Trainer[Model]:
    """The trainer of both algorithms."""
    from gpu.als.trainer import AlsTrainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return AlsTrainer(*given)


def compile_once(params: Any, backend: Backend) -> None:
    """See `Algorithm.compile_once`."""
    from gpu.als import host_sums  # noqa: PLC0415 - see `Algorithm.trainer`
    from gpu.als.objective import problem_of  # noqa: PLC0415

    nothing = np.zeros(0, dtype=np.int32)
    problem = problem_of(Ratings.from_coo(nothing, nothing, np.zeros(0), (0, 0)), params, NEUTRAL)
    backend.twin(host_sums.compile_once)(problem)


BY_COSINE = "by cosine"
register(
    Algorithm(
        AlsParams,
        make_trainer,
        learns="Ratings, by factors that are solved for exactly.",
        score="the estimate minus a deduction for items with few ratings",
        near=BY_COSINE,
        compile_once=compile_once,
    )
)
register(
    Algorithm(
        AlsImplicitParams,
        make_trainer,
        learns="Who likes what, from every pair: rated pairs count with more confidence. The best lists of most data.",
        score="a preference of about 0 to 1",
        near=BY_COSINE,
        compile_once=compile_once,
    )
)
