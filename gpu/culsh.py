"""CULSH-MF ([004] Alg. 3): CUSGD++ plus the weights W and C of hashed neighbours; explicit or implicit feedback.

Implicit feedback ([004] §5.4) learns the cross-entropy of "rated or not": every rating is a 1, and as many as
`n_negatives` items that the user has not rated are drawn anew for each rating and epoch as 0.
"""

from __future__ import annotations

import math

import numpy as np

from gpu import similarity
from gpu.backend import HOST, Backend
from gpu.baselines import Baselines, baselines
from gpu.epochs import OnEpoch, ShouldStop
from gpu.model import Model
from gpu.params import CulshImplicitParams, CulshParams
from gpu.ratings import Ratings
from gpu.sgd import N_GROUPS, Blocks, Training, start_model
from gpu.training import Samples


def fit(
    ratings: Ratings,
    params: CulshParams,
    backend: Backend = HOST,
    test: Ratings | None = None,
    on_epoch: OnEpoch | None = None,
    should_stop: ShouldStop | None = None,
) -> Model:
    """Find neighbours, then train factors, biases, W and C; see `gpu.fit`."""
    known = baselines(ratings)
    found = similarity.neighbours(ratings, params, backend, known)
    blocks = Blocks(ratings)
    if isinstance(params, CulshImplicitParams):
        known = _implicit_baselines(known, params)
        blocks = ImplicitBlocks(ratings, params)
    model = start_model(ratings, params, known, found.projections.shape[1])
    if isinstance(params, CulshImplicitParams):
        model.scale = (0.0, 1.0)
    model.neighbours[:], model.projections[:] = found.neighbours, found.projections
    return Training(model, params, ratings, blocks, backend, test, found.seconds).run(on_epoch, should_stop)


def _implicit_baselines(known: Baselines, params: CulshImplicitParams) -> Baselines:
    """μ = the log-odds of a positive among the samples; no other baseline, since each neighbour residual is 1."""
    mean = -math.log(params.n_negatives)
    return Baselines(mean, np.zeros_like(known.user), np.zeros_like(known.item))


class ImplicitBlocks(Blocks):
    """The grid for implicit feedback: each rating is followed by its negatives, drawn anew in every epoch."""

    def __init__(self, ratings: Ratings, params: CulshImplicitParams) -> None:
        super().__init__(ratings)
        self._params = params
        widths = np.diff(self.item_bounds)
        self._group_of = np.repeat(np.arange(N_GROUPS, dtype=np.uint8), widths)
        room = len(ratings) * (1 + params.n_negatives)
        cuts = np.empty((ratings.n_users, N_GROUPS + 1), dtype=np.int64)
        self._drawn = Samples(np.zeros(room, np.int32), np.zeros(room, np.float32), cuts)
        self._negatives = np.empty((len(ratings), params.n_negatives), dtype=np.int32)

    def samples(self, epoch: int, backend: Backend) -> Samples:
        """The ratings and the negatives of `epoch`; valid until the next call."""
        sgd = backend.primitives("sgd")
        sgd.draw_negatives(self.rows, self.n_items, self._params.seed, epoch, self._negatives)
        sgd.mix_samples(self.rows, self._negatives, self._group_of, self._drawn)
        return self._drawn
