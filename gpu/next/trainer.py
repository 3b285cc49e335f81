"""Next: a linear model of the item that a user meets next, in closed form.

After each item of a user but the last, a row of X (N, T) has x = Σ_{k=1..K} w_k e_{i_k}, where i_1 is the newest item,
i_2 the one before, and w_k = exp(−k/τ) + c (`gpu.data.recency`). The row of Y (N, T) has 1 for the item that the user
met next. W minimizes ‖Y − X W‖² + λ ‖W‖²:

    W = (XᵀX + λ)⁻¹ XᵀY.

The scores of a user are x W for the present x. This is a ridge regression, as the session models SLIT of Choi et al.
2021 ("Session-aware Linear Item-Item Models for Session-based Recommendation", arXiv:2103.16104), which weigh what came
before and what comes next by their distance. Two things differ: only the next item is a target, and older items keep
the weight c, which does for the same matrix what their order-free part does.

X is never made. Two items of a user, d places apart, where the later one has m newer ones, take part together in the x
of min(m, K − d) next items. So each pair of items within a window adds one number to XᵀX, and one to XᵀY: N K
additions. λ is in multiples of the mean of the diagonal of XᵀX, so that it means the same on any data. Parameters
without a number are chosen by `gpu.next.choice`.

T counts the items that some user met beside others. W has T² numbers and takes T³ multiply-adds, so T is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gpu.base.backend import HOST, Backend
from gpu.base.errors import InvalidRatings, TrainingDiverged
from gpu.data.calibration import calibrate
from gpu.data.decay import Times
from gpu.data.item_weights import weighted_items, weighted_model
from gpu.data.memory import check_room
from gpu.data.model import MAX_WEIGHTED, NO_SLOT, Model
from gpu.data.param_kinds import Params
from gpu.data.ratings import Ratings
from gpu.data.recency import curve
from gpu.data.signals import Calibration, are_met
from gpu.next import host
from gpu.next.choice import chosen, ridge_of
from gpu.next.histories import Histories
from gpu.next.objective import no_inverse
from gpu.next.params import NextParams
from gpu.ranking.weighted import rows_in_time
from gpu.training import evaluate
from gpu.training.loop import Trainer


class NextTrainer(Trainer[Model]):
    """Item weights in one epoch; see `gpu.training.loop.Trainer`."""

    n_epochs = 1

    def __init__(
        self,
        ratings: Ratings,
        params: NextParams,
        backend: Backend = HOST,
        test: Ratings | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """Find the items that get weights.

        Args:
            ratings: in their order (`gpu.data.recency.in_order`).
            calibration: of these ratings. Default: computed here.

        Raises:
            InvalidRatings: more than `MAX_WEIGHTED` items would get weights; the message has the bytes they would take.
            NotEnoughMemory: the training would need more than is free; the message has both numbers.
        """
        self._ratings, self._test, self._backend = ratings, test, backend
        self._params: Params = params
        self._calibration = calibration or calibrate(ratings, params)
        self._met = ratings.where(are_met(ratings.by_user.values, self._calibration.values))
        self._items = weighted_items(self._met)
        self._check_size()
        self._weights, self.seconds = np.zeros((0, 0), dtype=np.float32), 0.0

    def learn(self, epoch: int) -> None:
        """Choose what is open, then compute all weights."""
        del epoch
        n_items, twin = len(self._items), self._backend.twin
        if not n_items:
            return
        slots = np.full(self._ratings.n_items, NO_SLOT, dtype=np.int32)
        slots[self._items] = np.arange(n_items)
        histories = Histories.of(self._met, slots)
        keys, backend = self._ratings.user_keys, self._backend
        self._params, reasons = chosen(histories, keys, self._params, n_items, backend)
        gram, cross = twin(host.sums)(histories, curve(self._params), n_items)
        ridge = ridge_of(self._params, gram)
        self._calibration = replace(
            self._calibration, regularization=ridge, chosen=(*self._calibration.chosen, *reasons)
        )
        self._weights = twin(host.item_weights)(gram, cross, ridge)

    def diverged(self, epoch: int) -> TrainingDiverged:
        """See `no_inverse`."""
        del epoch
        return no_inverse()

    def metrics(self) -> Mapping[str, float]:
        """See `gpu.training.loop.EpochReport`; empty without a test set."""
        if self._test is None or self._ratings.order is None:
            return {}
        model, times = self.model(), Times(np.zeros(len(self._ratings)), 0.0, self._ratings.order)
        rows = rows_in_time(model, self._ratings.by_user, times)
        ranking = evaluate.ranking(model, rows, self._test)
        return {f"test_{name}": value for name, value in ranking.items()}

    def model(self) -> Model:
        """The model with the present weights, and numbers for what was chosen."""
        return weighted_model(self._ratings, self._met, self._params, self._calibration, self._items, self._weights)

    def _check_size(self) -> None:
        n_items, ratings = len(self._items), self._ratings
        needed = self._backend.twin(host.bytes_needed)(n_items, len(self._met))
        if n_items > MAX_WEIGHTED:
            raise InvalidRatings(
                f"Invalid number of items for next: expected at most {MAX_WEIGHTED:,} that are met beside others, got"
                f" {n_items:,}, whose training would need about {needed:,} bytes; use als-implicit"
            )
        size = f"{len(ratings):,} ratings, {ratings.n_users:,} users, {ratings.n_items:,} items"
        what = f"Training on the {self._backend.name} with weights of {n_items:,} items ({size})"
        check_room(what, needed, self._backend)
