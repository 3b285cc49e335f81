"""Constants of online learning: how strongly refits of single users and items are held back.

Ridge and priors are counted like ratings: λ n + λ0, where λ is what the model was trained with. λ0 keeps somebody with
one rating near the average; the values were chosen on MovieLens-1M by folding in users whom a model had not seen
(docs/performance.md).
"""

from __future__ import annotations

import numpy as np

from gpu.host.online import Rules
from gpu.params import CulshImplicitParams, CulshParams, Params

MAX_HISTORY = 4096  # newest ratings that a refit of a user reads; older ones only count as seen
FACTOR_SHARE = 0.5  # of the trained λ: a vector fitted in one go to fixed items needs less of it
BASELINE_PRIOR = 5.0
FACTOR_PRIOR = 4.0
USER_BIAS_PRIOR = 5.0
ITEM_BIAS_PRIOR = 2.0
WEIGHT_PRIOR = 10.0
N_STEPS = 3  # of Newton's method from zero; a fourth changes no list


def rules_for(params: Params) -> Rules:
    """The rules for models trained with `params`."""
    return Rules(
        factor=FACTOR_SHARE * params.regularization,
        factor_prior=FACTOR_PRIOR,
        bias=params.bias_regularization,
        user_bias_prior=USER_BIAS_PRIOR,
        item_bias_prior=ITEM_BIAS_PRIOR,
        weight=params.weight_regularization if isinstance(params, CulshParams) else 0.0,
        weight_prior=WEIGHT_PRIOR,
        baseline_prior=BASELINE_PRIOR,
        max_history=MAX_HISTORY,
        n_negatives=params.n_negatives if isinstance(params, CulshImplicitParams) else 0,
        n_steps=N_STEPS,
        seed=np.uint64(params.seed),
    )
