"""Neighbors: a linear item model whose weights are sums over users (item-based top-N, Deshpande and Karypis 2004).

Equations, and what makes the sums exact: `gpu.hashing.cooccurrence`. A training makes the list of each item once; there
are no epochs and no random numbers. `gpu.ranking.weighted` describes how the lists score a user's items, and
`gpu.online.list_refits` how they follow the ratings.

Every user has the factor 1, and an item `POPULARITY` times the number of its likes. So items that nothing speaks for
come by popularity, below all others, and dislikes lift none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpu.base.backend import HOST, Backend
from gpu.base.errors import TrainingDiverged
from gpu.data.calibration import calibrate
from gpu.data.memory import check_room
from gpu.data.model import Model
from gpu.data.ratings import Ratings
from gpu.data.signals import Calibration
from gpu.hashing import host_cooccurrence as cooccurrence
from gpu.hashing.cooccurrence import POPULARITY, rules_of
from gpu.neighbors.params import NeighborsParams
from gpu.training import evaluate
from gpu.training.loop import Trainer


class NeighborsTrainer(Trainer[Model]):
    """Lists of items in one epoch; see `gpu.training.loop.Trainer`."""

    n_epochs = 1

    def __init__(
        self,
        ratings: Ratings,
        params: NeighborsParams,
        backend: Backend = HOST,
        test: Ratings | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """Check that the lists fit into memory.

        Args:
            calibration: of these ratings. Default: computed here.

        Raises:
            NotEnoughMemory: the training would need more than is free; the message has both numbers.
        """
        calibration = calibration or calibrate(ratings, params)
        shape = ratings.n_users, ratings.n_items
        self._ratings, self._test, self._twin = ratings, test, backend.twin
        self._model, self.seconds = Model.zeros(params, 0.0, (0.0, 1.0), *shape, calibration=calibration), 0.0
        needed = backend.twin(cooccurrence.bytes_needed)(shape[1], shape[0], len(ratings), params.n_neighbors)
        size = f"{len(ratings):,} ratings, {shape[0]:,} users, {shape[1]:,} items"
        check_room(f"Training on the {backend.name} with lists of {params.n_neighbors} items ({size})", needed, backend)

    def learn(self, epoch: int) -> None:
        """Make all lists."""
        del epoch
        model, ratings, rules = self._model, self._ratings, rules_of(self._model)
        model.listed[:], model.listed_weights[:] = self._twin(cooccurrence.lists_of)(ratings, rules)
        model.mark_trained(ratings.by_user.lengths, ratings.n_pairs_of_items)
        model.item_trained[:] = model.listed[:, 0] >= 0
        model.user_factors[:, 0] = model.user_trained
        n_likes = np.empty(ratings.n_items, dtype=np.int32)
        cooccurrence.count_likes(ratings.by_item, rules.middle, rules.lift, n_likes)
        model.item_factors[:, 0] = n_likes * POPULARITY

    def diverged(self, epoch: int) -> TrainingDiverged:
        """Sums of whole numbers do not."""
        raise NotImplementedError

    def metrics(self) -> Mapping[str, float]:
        """See `gpu.training.loop.EpochReport`; empty without a test set."""
        if self._test is None:
            return {}
        ranking = evaluate.ranking(self._model, self._ratings.by_user, self._test)
        return {f"test_{name}": value for name, value in ranking.items()}

    def model(self) -> Model:
        """The model with the present lists."""
        return self._model
