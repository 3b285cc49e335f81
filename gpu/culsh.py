"""CULSH-MF ([004] Alg. 3): CUSGD++ plus the weights W and C of hashed neighbours; explicit or implicit feedback.

Implicit feedback ([004] §5.4) learns the cross-entropy of "rated or not": every rating is a 1, and as many as
`n_negatives` items that the user has not rated are drawn anew for each rating and epoch as 0.
"""

from __future__ import annotations

import math

import numpy as np

from gpu import similarity
from gpu.backend import HOST, Backend
from gpu.baselines import Baselines, baselines, shrunk_biases
from gpu.epochs import OnEpoch, ShouldStop
from gpu.memory import check_training
from gpu.model import Model
from gpu.params import CulshImplicitParams, CulshParams
from gpu.ratings import Ratings
from gpu.sgd import Training, start_model


def fit(
    ratings: Ratings,
    params: CulshParams,
    backend: Backend = HOST,
    test: Ratings | None = None,
    on_epoch: OnEpoch | None = None,
    should_stop: ShouldStop | None = None,
) -> Model:
    """Find neighbours, then train factors, biases, W and C; see `gpu.fit`.

    Raises:
        NotEnoughMemory: one of both would need more than is free; both numbers are said.
    """
    return training(ratings, params, backend, test).run(on_epoch, should_stop)


def training(ratings: Ratings, params: CulshParams, backend: Backend = HOST, test: Ratings | None = None) -> Training:
    """What `fit` runs, before its first epoch: the neighbours are found."""
    steps = backend.primitives("similarity"), backend.primitives("descent")
    needed = max(step.bytes_needed(ratings, params) for step in steps)
    check_training(needed, params.n_factors, ratings, backend)
    known = baselines(ratings)
    found = similarity.neighbours(ratings, params, backend, known)
    if isinstance(params, CulshImplicitParams):
        known = biases = _implicit_baselines(known, params)
    else:
        biases = shrunk_biases(ratings)
    model = start_model(ratings, params, known, biases, found.projections.shape[1])
    if isinstance(params, CulshImplicitParams):
        model.scale = (0.0, 1.0)
    model.neighbours[:], model.projections[:] = found.neighbours, found.projections
    return Training(model, params, ratings, backend, test, found.seconds)


def _implicit_baselines(known: Baselines, params: CulshImplicitParams) -> Baselines:
    """μ = the log-odds of a positive among the samples; no other baseline, since each neighbour residual is 1."""
    mean = -math.log(params.n_negatives)
    return Baselines(mean, np.zeros_like(known.user), np.zeros_like(known.item))
