"""`chosen`: α_e, what events say beside ratings on a scale (`gpu.data.signals.evidence`), from held-out pairs.

`WEIGHTS` are tried with a part of the epochs. The default stays unless another is clearly better by NDCG@10 of the
held-out likes (`gpu.training.trials.is_clear`). That needs enough held-out pairs of both kinds.
"""

from __future__ import annotations

import numpy as np

from gpu.base.backend import Backend
from gpu.data.calibration import calibrate
from gpu.data.evidence import unpacked
from gpu.data.param_kinds import Params, with_changes
from gpu.data.ratings import Ratings
from gpu.training.trials import is_clear, tried

WEIGHTS = 1.0, 0.3, 3.0  # the default first
ENOUGH = 400  # held-out pairs with events, and as many with ratings; with fewer the noise decides
SHARE = 1 / 3  # of the epochs


def chosen(ratings: Ratings, held_out: Ratings, params: Params, backend: Backend) -> Params:
    """`params` with the α_e for these ratings, or as they are.

    Nothing is tried where α_e is given or has no effect: without events, among counts, and where likes and dislikes
    have no confidence.
    """
    if not params.has_values or params.is_logit or params.event_weight is not None:
        return params
    given, sums = unpacked(held_out.by_user.values)
    if min(np.count_nonzero(sums), np.count_nonzero(~np.isnan(given))) < ENOUGH:
        return params
    if calibrate(ratings, params).values == "counts":
        return params
    short = params.sized().with_epochs(SHARE)
    short = (
        short if params.half_life_days is None else with_changes(short, half_life_days=None)
    )  # held-out pairs have all
    best, least = WEIGHTS[0], np.zeros(0)  # ages
    for weight in WEIGHTS:
        _, losses = tried(ratings, held_out, with_changes(short, event_weight=weight), 1, backend)
        if len(losses) and (not len(least) or is_clear(losses, least)):
            best, least = weight, losses
    return with_changes(params, event_weight=best)
