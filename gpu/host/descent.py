"""Stochastic gradient descent on the host: learns ratings in a grid of blocks, in place in the model.

Users and items are each split into `N_GROUPS` groups of about equally many ratings. An epoch has as many sub-steps; in
each, every user group meets another item group, so no two threads touch the same row (MCULSH-MF's D × D scheme).
"""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from gpu.host import sgd
from gpu.model import Model, bytes_of
from gpu.params import CulshImplicitParams, SgdParams
from gpu.ratings import NO_MIDDLE, Ratings
from gpu.training import evaluate
from gpu.views import Rates, Samples, Shares, arrays_of, balanced_bounds

# D, groups of users and of items, and the largest number of threads that work at once. It is a constant, so that a
# result does not depend on the machine. More groups would look up a user's ratings more often in an epoch.
N_GROUPS = 8


def bytes_needed(ratings: Ratings, params: SgdParams) -> int:
    """Bytes that a training takes in addition to its ratings.

    They count the model, cuts of each user's row, lines of residuals, the inputs of an epoch's errors (24 a sample),
    and for implicit models drawn samples and negatives (12).
    """
    n_negatives = int(getattr(params, "n_negatives", 0))
    a_sample = 24 + 12 * (n_negatives > 0)
    cuts, lines = 8 * (N_GROUPS + 1) * ratings.n_users, 4 * N_GROUPS * ratings.n_items
    model = sum(bytes_of(params, ratings.n_users, ratings.n_items))
    return model + cuts + lines + a_sample * len(ratings) * (1 + n_negatives)


class Descent:
    """One training: the samples of its epochs, and the model.

    Attributes:
        model: learned in place.
    """

    def __init__(self, model: Model, params: SgdParams, ratings: Ratings, test: Ratings | None) -> None:
        self.model, self._params, self._ratings, self._test = model, params, ratings, test
        if params.n_absences:
            self._blocks: Blocks = ImplicitBlocks(ratings, cast("CulshImplicitParams", params), model.middle)
        else:
            self._blocks = Blocks(ratings)
        self._lines = sgd.lines(N_GROUPS, ratings.n_items)
        self._samples = self._blocks.samples(0)

    def compile(self) -> None:
        """Compile the kernels of an epoch, by one without users."""
        self._learn(0, Rates.none(), np.zeros_like(self._blocks.user_bounds))

    def prepare(self) -> None:
        """Do nothing: the constructor lays the ratings out."""

    def learn(self, epoch: int, rates: Rates) -> None:
        """Run one epoch of [004] eq. 5; every user group has its own random order."""
        self._samples = self._blocks.samples(epoch)
        self._learn(epoch, rates, self._blocks.user_bounds)

    def shrink(self, shares: Shares) -> None:
        """Pull parameters toward zero by these shares."""
        model = self.model
        for share, arrays in (
            (shares.factors, (model.user_factors, model.item_factors)),
            (shares.biases, (model.user_bias, model.item_bias)),
            (shares.weights, (model.explicit_weights, model.implicit_weights)),
        ):
            for array in arrays:
                with np.errstate(invalid="ignore"):  # ∞ · 0: `is_finite` reports divergence after the epoch
                    array[...] *= np.float32(1 - share)

    def finish(self) -> None:
        """Every epoch is done when `learn` returns."""

    def fetch(self) -> Model:
        """The model as it is now."""
        return self.model

    def is_finite(self) -> bool:
        """Whether every learned parameter is finite."""
        names = "user_factors", "item_factors", "user_bias", "item_bias", "explicit_weights"
        with np.errstate(invalid="ignore"):  # inf − inf is expected here: the sum is then not finite
            return all(np.isfinite(getattr(self.model, name).sum(dtype=np.float64)) for name in names)

    def train_error(self) -> float:
        """RMSE of the training ratings; implicit: mean cross-entropy of the epoch's samples."""
        if self.model.is_implicit:
            return self._cross_entropy()
        return evaluate.rmse(self.model, self._ratings.by_user, *self._ratings.coo())

    def test_rmse(self) -> float:
        """RMSE of the test ratings, which must have been given."""
        assert self._test is not None  # noqa: S101 - the caller's promise; this narrows the type
        return evaluate.rmse(self.model, self._ratings.by_user, *self._test.coo())

    def _learn(self, epoch: int, rates: Rates, bounds: NDArray[np.int64]) -> None:
        generator = np.random.default_rng((self._params.seed, epoch))
        users = self._blocks.user_bounds
        order = np.concatenate([first + generator.permutation(last - first) for first, last in pairwise(users)])
        sgd.learn_epoch(
            self._blocks.rows, self._samples, order.astype(np.int32), bounds, generator.permutation(N_GROUPS),
            self._lines, arrays_of(self.model), rates,
        )  # fmt: skip

    def _cross_entropy(self) -> float:
        samples = self._samples
        per_user = samples.cuts[:, -1] - samples.cuts[:, 0]
        users = np.repeat(np.arange(self.model.n_users, dtype=np.int32), per_user)
        ends = np.cumsum(per_user)
        places = np.arange(len(users)) + np.repeat(samples.cuts[:, 0] - (ends - per_user), per_user)
        scores = evaluate.predict(self.model, self._ratings.by_user, users, samples.items[places])
        losses = np.logaddexp(0, scores) - samples.targets[places] * scores
        return float(losses.mean(dtype=np.float64))


class Blocks:
    """The D × D grid over the ratings, and the samples of each block in an epoch.

    Attributes:
        user_bounds, item_bounds (D + 1,): int64, first row of each group; groups hold about equally many ratings.
    """

    def __init__(self, ratings: Ratings) -> None:
        self.rows = ratings.by_user
        self.n_items = ratings.n_items
        self.user_bounds = balanced_bounds(ratings.by_user.lengths, N_GROUPS)
        self.item_bounds = balanced_bounds(ratings.by_item.lengths, N_GROUPS)
        self._samples: Samples | None = None

    def samples(self, epoch: int) -> Samples:
        """The samples of `epoch`: for explicit models always the ratings themselves."""
        del epoch
        if self._samples is None:
            cuts = np.empty((len(self.rows.starts), N_GROUPS + 1), dtype=np.int64)
            sgd.group_cuts(self.rows, self.item_bounds.astype(np.int32), cuts)
            self._samples = Samples(self.rows.items, self.rows.values, cuts)
        return self._samples


class ImplicitBlocks(Blocks):
    """The grid for implicit feedback: each like is followed by its negatives, which every epoch draws again."""

    def __init__(self, ratings: Ratings, params: CulshImplicitParams, middle: float = NO_MIDDLE) -> None:
        """`middle`: see `gpu.model.Model`."""
        super().__init__(ratings)
        self._params, self._middle = params, np.float32(middle)
        widths = np.diff(self.item_bounds)
        self._group_of = np.repeat(np.arange(N_GROUPS, dtype=np.uint8), widths)
        room = len(ratings) * (1 + params.n_negatives)
        cuts = np.empty((ratings.n_users, N_GROUPS + 1), dtype=np.int64)
        self._drawn = Samples(np.zeros(room, np.int32), np.zeros(room, np.float32), cuts)
        self._negatives = np.empty((len(ratings), params.n_negatives), dtype=np.int32)
        self._epoch = -1  # epoch of the present draws

    def samples(self, epoch: int) -> Samples:
        """The ratings and the negatives of `epoch`; valid until the next call."""
        if epoch != self._epoch:
            sgd.draw_negatives(self.rows, self.n_items, self._params.seed, epoch, self._middle, self._negatives)
            sgd.mix_samples(self.rows, self._negatives, self._group_of, self._middle, self._drawn)
            self._epoch = epoch
        return self._drawn
