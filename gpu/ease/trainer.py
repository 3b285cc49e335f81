"""EASE (Steck 2019, "Embarrassingly Shallow Autoencoders for Sparse Data"): item weights in closed form.

arXiv:1905.03375.

X (U, T) has 1, or the signal of a count, for each like, and 0 for all other pairs, also for dislikes. With a half-life
an x is multiplied by the weight of its pair (`gpu.data.decay`). The weights B
minimize ‖X − X B‖² + λ ‖B‖² under B_jj = 0: with P = (XᵀX + λ I)⁻¹, B_ij = −P_ij / P_jj. There are no epochs and no
random numbers. `gpu.ranking.weighted` describes how B scores a user's items.

T counts the items liked by at least one user with another like. All other items would have rows and columns of zeros. B
has T² numbers and takes T³ multiply-adds, so T is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse

from gpu.base.backend import HOST, Backend
from gpu.base.errors import InvalidRatings, TrainingDiverged
from gpu.data.calibration import calibrate
from gpu.data.item_weights import weighted_items, weighted_model
from gpu.data.memory import check_room
from gpu.data.model import Model
from gpu.data.ratings import Ratings
from gpu.data.signals import Calibration, preferences
from gpu.ease import host as ease
from gpu.ease.objective import no_inverse
from gpu.ease.params import EaseParams
from gpu.ranking.weighted import rows_by_age
from gpu.training import evaluate
from gpu.training.loop import Trainer


class EaseTrainer(Trainer[Model]):
    """Item weights in one epoch; see `gpu.training.loop.Trainer`."""

    n_epochs = 1

    def __init__(
        self,
        ratings: Ratings,
        params: EaseParams,
        backend: Backend = HOST,
        test: Ratings | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """Find the items that get weights.

        Args:
            calibration: of these ratings. Default: computed here.

        Raises:
            InvalidRatings: more items would get weights than the backend takes; the message has the bytes they need.
            NotEnoughMemory: the training would need more than is free; the message has both numbers.
        """
        self._ratings, self._params, self._test, self._twin = ratings, params, test, backend.twin
        self._calibration = calibration or calibrate(ratings, params)
        self._liked = _liked(ratings, self._calibration)
        self._items = weighted_items(self._liked)
        _check_size(len(self._items), len(self._liked), ratings, backend)
        self._weights, self.seconds = np.zeros((0, 0), dtype=np.float32), 0.0

    def learn(self, epoch: int) -> None:
        """Compute all weights."""
        del epoch
        if len(self._items):
            starts, _, columns, values = self._liked.by_user
            x = values.astype(np.float64), columns, np.append(starts, len(columns))
            shape = self._liked.n_users, self._liked.n_items
            matrix = scipy.sparse.csr_matrix(x, shape)[:, self._items]
            self._weights = self._twin(ease.item_weights)(matrix, self._calibration.regularization)

    def diverged(self, epoch: int) -> TrainingDiverged:
        """See `no_inverse`."""
        del epoch
        return no_inverse()

    def metrics(self) -> Mapping[str, float]:
        """See `gpu.training.loop.EpochReport`; empty without a test set."""
        if self._test is None:
            return {}
        ranking = evaluate.ranking(self.model(), rows_by_age(self._ratings, self._calibration), self._test)
        return {f"test_{name}": value for name, value in ranking.items()}

    def model(self) -> Model:
        """The model with the present weights."""
        return weighted_model(self._ratings, self._liked, self._params, self._calibration, self._items, self._weights)


def _liked(ratings: Ratings, calibration: Calibration) -> Ratings:
    """The likes among `ratings`, with x as their values."""
    users, items, values = ratings.coo()
    x = preferences(values, calibration)
    x = x if ratings.weights is None else x * ratings.weights
    shape = ratings.n_users, ratings.n_items
    return Ratings.from_coo(users[x > 0], items[x > 0], x[x > 0], shape)


def _check_size(n_items: int, n_likes: int, ratings: Ratings, backend: Backend) -> None:
    needed, most = backend.twin(ease.bytes_needed)(n_items, n_likes), backend.twin(ease.most_items)()
    if n_items > most:
        raise InvalidRatings(
            f"Invalid number of items for ease: expected at most {most:,} on the {backend.name} that are liked together"
            f" with others, got {n_items:,}, whose training would need about {needed:,} bytes; use neighbors"
        )
    size = f"{len(ratings):,} ratings, {ratings.n_users:,} users, {ratings.n_items:,} items"
    check_room(f"Training on the {backend.name} with weights of {n_items:,} items ({size})", needed, backend)
    if backend.name != HOST.name:
        check_room(f"The host's copy of the weights of {n_items:,} items ({size})", 4 * n_items**2, HOST)
