"""`tried`: one training of a search, judged by held-out pairs; `is_clear` says whether it beats another one.

One is better only by more than `CLEAR` standard errors of the mean difference between both, over users or held-out
pairs: the best of many settings is partly the luckiest one. This is the rule of one standard error in Breiman et al.,
*Classification and Regression Trees*, 1984.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import Backend
from gpu.base.errors import DeadFactors, NotEnoughMemory, TrainingDiverged
from gpu.data.decay import Times
from gpu.data.param_kinds import Params
from gpu.data.ratings import Ratings
from gpu.training import evaluate

CLEAR = 1.0  # standard errors
RMSE, NDCG = "rmse", "ndcg@10"


@dataclass(frozen=True)
class Trial:
    """One training of the search.

    Attributes:
        params: complete, with numbers for the parameters that the data decides.
        round: from 1; the trainings after the last round have one number, the next.
        score: NDCG@10 of implicit algorithms, RMSE of others, on the held-out pairs; NaN if the training failed.
        seconds: time of training and measuring.
    """

    params: Params
    round: int
    score: float
    seconds: float

    def record(self, requested: Params) -> dict[str, Any]:
        """Its round, score and seconds, and the parameters that differ from `requested`."""
        passes = {name: n for name, n in dataclasses.asdict(self.params).items() if name == "n_epochs"}
        record = {"round": self.round, **passes, "score": self.score, "seconds": self.seconds}
        return record | changed(self.params, requested)


def changed(params: Params, requested: Params) -> dict[str, Any]:
    """Parameters that differ from the requested ones, without `n_epochs`, which each round sets."""
    values = dataclasses.asdict(params)
    return {
        name: values[name]
        for name, value in dataclasses.asdict(requested).items()
        if values[name] != value and name != "n_epochs"
    }


def is_clear(losses: NDArray[np.float64], others: NDArray[np.float64] | None) -> bool:
    """Whether `losses` (B,) are below `others`, of the same users or pairs, by more than `CLEAR` standard errors.

    Always, if there are no `others`: None, or empty after a training that failed.
    """
    if others is None or not len(others):
        return True
    gains = others - losses
    return bool(gains.mean() > CLEAR * gains.std() / np.sqrt(len(gains)))


def tried(
    ratings: Ratings,
    held_out: Ratings,
    params: Params,
    number: int,
    backend: Backend,
    k: int = 10,
    *,
    times: Times | None = None,
) -> tuple[Trial, NDArray[np.float64]]:
    """A training, and its losses: −NDCG@`k` of each user, or the squared error of each pair; empty if it failed."""
    from gpu import fit  # noqa: PLC0415 - the package itself, which is complete by now
    from gpu.ranking.weighted import rows_in_time  # noqa: PLC0415 - `import gpu` loads no kernel

    began = time.perf_counter()
    try:
        model = fit(ratings, params, backend=backend, times=times)
        if params.is_implicit:
            rows = rows_in_time(model, ratings.by_user, times)
            losses = -evaluate.ndcgs(model, rows, held_out, k, backend=backend)
        else:
            losses = evaluate.squared_errors(model, ratings.by_user, *held_out.coo())
    except (TrainingDiverged, DeadFactors, NotEnoughMemory):
        losses = np.zeros(0)
    mean = float(losses.mean()) if len(losses) else math.nan
    score = -mean if params.is_implicit else math.sqrt(mean)
    return Trial(params, number, score, time.perf_counter() - began), losses
