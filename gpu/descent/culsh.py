"""CULSH-MF ([004] Alg. 3): CUSGD++ plus the weights W and C of hashed neighbors; explicit or implicit feedback.

Implicit feedback ([004] §5.4) minimizes the cross-entropy of "liked or not". Every like is a 1 and every dislike (a
rating below `middle`) a 0. For each like an epoch draws `n_negatives` items that the user has not rated, as 0.
"""

from __future__ import annotations

import math

import numpy as np

from gpu.base.backend import HOST, Backend
from gpu.data.baselines import Baselines
from gpu.data.memory import check_training
from gpu.data.ratings import Ratings, are_likes
from gpu.data.signals import NEUTRAL, Calibration
from gpu.descent.params import CulshParams
from gpu.descent.trainer import DescentTrainer, bytes_needed, start_model, start_of_biases
from gpu.hashing import host_similarity, similarity
from gpu.ranks.exchange import ALONE, Exchange


def trainer(
    ratings: Ratings,
    params: CulshParams,
    backend: Backend = HOST,
    test: Ratings | None = None,
    calibration: Calibration = NEUTRAL,
    exchange: Exchange = ALONE,
) -> DescentTrainer:
    """The trainer of factors, biases, W and C before the first epoch; the neighbors are found here.

    Args:
        exchange: the ranks that train together; see `gpu.descent.trainer.trainer`.

    Raises:
        NotEnoughMemory: neighbors or epochs would need more than is free; the message has both numbers.
    """
    of_neighbors = backend.twin(host_similarity.bytes_needed)(ratings, params)
    needed = max(of_neighbors, bytes_needed(ratings, params, backend, exchange))
    check_training(needed, params.n_factors, ratings, backend)
    baselines, biases = start_of_biases(ratings, params)
    baselines = baselines._replace(middle=calibration.middle)
    neighbors = similarity.neighbors(ratings, params, backend, baselines, exchange)
    if params.is_implicit:
        # μ is the log-odds of a positive among the samples. All else is 0, since neighbor residuals are 1 or −1.
        n_likes = max(int(np.count_nonzero(are_likes(ratings.by_user.values, baselines.middle))), 1)
        mean = -math.log((params.n_absences * n_likes + max(len(ratings) - n_likes, 0)) / n_likes)
        nothing = np.zeros_like(baselines.user), np.zeros_like(baselines.item)
        baselines = biases = Baselines(mean, *nothing, baselines.middle)
    model = start_model(ratings, params, baselines, biases, neighbors.projections.shape[1])
    if params.is_implicit:
        model.scale, model.calibration = (0.0, 1.0), calibration
    model.neighbors[:], model.projections[:] = neighbors.neighbors, neighbors.projections
    return DescentTrainer(model, params, ratings, backend, test, neighbors.seconds, exchange)
