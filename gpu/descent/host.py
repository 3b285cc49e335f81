"""Stochastic gradient descent on the host: learns ratings in a grid of blocks, in place in the model.

Users and items are each split into `N_GROUPS` groups of about equally many ratings. An epoch has as many sub-steps; in
each, every user group meets another item group, so no two threads touch the same row (MCULSH-MF's D × D scheme).

With several ranks each learns the ratings of its own user groups, and item groups travel (`gpu.descent.host_rotation`).
A user group meets the same item groups in the same order on any rank, so every number of ranks gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from gpu.data import host_terms
from gpu.data.model import ARRAYS, LEARNED, LEARNED_ITEMS, LEARNED_USERS, Model, bytes_of
from gpu.data.ratings import NO_MIDDLE, Ratings
from gpu.data.views import NO_WEIGHTS, Rates, Samples, Shares, arrays_of, balanced_bounds, part_of
from gpu.descent import host_sgd as sgd
from gpu.descent.host_rotation import Rotation, first_groups
from gpu.descent.params import CulshImplicitParams, SgdParams
from gpu.ranks.exchange import ALONE, Exchange
from gpu.training import evaluate
from gpu.training.loop import State

# D, groups of users and of items, and the largest number of threads that work at once. It is a constant, so that a
# result does not depend on the machine. More groups would look up a user's ratings more often in an epoch.
N_GROUPS = 8

N_SOME = 4096  # users whose factors stand for those of all
ALL_GROUPS = slice(0, N_GROUPS)


def bytes_needed(ratings: Ratings, params: SgdParams) -> int:
    """Bytes that a training takes in addition to its ratings.

    They count the model, cuts of each user's row, lines of residuals, the inputs of an epoch's errors (24 a sample),
    and for implicit models drawn samples and negatives (12). With a half-life a sample has a weight (4). One of several
    ranks takes less beside the model.
    """
    n_negatives = params.n_absences
    sample_bytes = 24 + 12 * (n_negatives > 0) + 4 * (params.half_life_days is not None)
    cuts, lines = 8 * (N_GROUPS + 1) * ratings.n_users, 4 * N_GROUPS * ratings.n_items
    model = sum(bytes_of(params, ratings.n_users, ratings.n_items))
    return model + cuts + lines + sample_bytes * len(ratings) * (1 + n_negatives)


class Descent:
    """One training: the samples of its epochs, and the model.

    Attributes:
        model: learned in place. With several ranks, what other ranks have learned arrives with `complete`.
    """

    def __init__(
        self, model: Model, params: SgdParams, ratings: Ratings, test: Ratings | None, exchange: Exchange = ALONE
    ) -> None:
        self.model, self._params, self._ratings, self._test = model, params, ratings, test
        self._exchange = exchange
        starts = first_groups(N_GROUPS, exchange.size)
        self._groups = slice(*starts[exchange.rank : exchange.rank + 2].tolist())
        if params.n_absences:
            implicit = cast("CulshImplicitParams", params)
            self._blocks: Blocks = ImplicitBlocks(ratings, implicit, model.middle, self._groups)
        else:
            self._blocks = Blocks(ratings, self._groups)
        self._user_bounds = self._blocks.user_bounds[starts]  # first user of each rank
        self._rotation = Rotation(self.item_arrays(), self._blocks.item_bounds, exchange)
        self._lines = host_terms.lines(self._groups.stop - self._groups.start, ratings.n_items)
        self._samples = self._blocks.samples(0)

    def compile(self) -> None:
        """Compile the kernels of an epoch, by a sub-step without users."""
        self._learn_sub_step(np.zeros(0, dtype=np.int32), np.zeros_like(self._own_bounds()), 0, Rates.none())

    def prepare(self) -> None:
        """Do nothing: the constructor lays the ratings out."""

    def learn(self, epoch: int, rates: Rates, part: int = 0, n_parts: int = 1) -> None:
        """Run a part of an epoch of [004] eq. 5, by default the whole; every user group has its own random order.

        Parts have equally many sub-steps, and follow one another: `n_parts` divides `N_GROUPS`.
        """
        if part == 0:
            self._samples = self._blocks.samples(epoch)
        generator = np.random.default_rng((self._params.seed, epoch))
        orders = [first + generator.permutation(last - first) for first, last in pairwise(self._blocks.user_bounds)]
        own = np.concatenate([np.zeros(0, dtype=np.int64), *orders[self._groups]]) - self._blocks.users.start
        order = own.astype(np.int32)
        shifts = generator.permutation(N_GROUPS).reshape(n_parts, -1)[part]
        for shift in shifts.tolist():
            self._rotation.bring(shift)
            self._learn_sub_step(order, self._own_bounds(), shift, rates)

    def shrink(self, shares: Shares) -> None:
        """Pull parameters toward zero by these shares."""
        for share, names in (
            (shares.factors, ("user_factors", "item_factors")),
            (shares.biases, ("user_bias", "item_bias")),
            (shares.weights, ("explicit_weights", "implicit_weights")),
        ):
            for part in self._own(*names):
                with np.errstate(invalid="ignore"):  # ∞ · 0: `is_finite` reports divergence after the epoch
                    part[...] *= np.float32(1 - share)

    def finish(self) -> None:
        """Every epoch is done when `learn` returns."""

    def item_arrays(self) -> tuple[NDArray[np.float32], ...]:
        """The learned arrays of items, `LEARNED_ITEMS`; changes to them count."""
        return tuple(getattr(self.model, name) for name in LEARNED_ITEMS)

    def some_users(self) -> NDArray[np.float32]:
        """Factors of some users (n, F)."""
        return self.model.user_factors[:N_SOME]

    def complete(self) -> None:
        """Get what other ranks have learned since the last call; all ranks must call it."""
        if self._rotation.is_complete:
            return
        self._rotation.complete()
        for name in LEARNED_USERS:
            self._exchange.gather(getattr(self.model, name), self._user_bounds)

    def fetch(self) -> Model:
        """The model as it is now."""
        return self.model

    def state(self) -> State:
        """The learned arrays; see `complete`."""
        return {name: getattr(self.model, name) for name in LEARNED}

    def restore(self, state: State) -> None:
        """Continue from `state`, which all ranks must have: the holder of an item group then holds the right one."""
        for name in LEARNED:
            getattr(self.model, name)[...] = state[name]

    def is_finite(self) -> bool:
        """Whether every parameter that any rank has learned is finite."""
        parts = self._own("user_factors", "item_factors", "user_bias", "item_bias", "explicit_weights")
        with np.errstate(invalid="ignore"):  # inf − inf is expected here: the sum is then not finite
            n_bad = sum(not np.isfinite(part.sum(dtype=np.float64)) for part in parts)
        return self._exchange.totals(n_bad) == (0,)

    def train_error(self) -> float:
        """RMSE of the training ratings; implicit: mean cross-entropy of the epoch's samples."""
        self.complete()
        rows, samples = self._blocks.rows, self._samples
        losses: NDArray[np.floating]
        if self.model.is_implicit:
            per_user = samples.cuts[:, -1] - samples.cuts[:, 0]
            ends = np.cumsum(per_user)
            places = np.arange(per_user.sum()) + np.repeat(samples.cuts[:, 0] - (ends - per_user), per_user)
            scores = self._scores(per_user, samples.items[places])
            losses = np.logaddexp(0, scores) - samples.targets[places] * scores
        else:
            losses = (self._scores(rows.lengths, rows.items).astype(np.float64) - rows.values) ** 2
        total, n = self._exchange.totals(float(losses.sum(dtype=np.float64)), len(losses))
        return total / n if self.model.is_implicit else float(np.sqrt(total / n))

    def test_rmse(self) -> float:
        """RMSE of the test ratings, which must have been given; all ranks must call it."""
        self.complete()
        assert self._test is not None  # noqa: S101 - the caller's promise; this narrows the type
        own, (users, items, values) = self._blocks.users, self._test.coo()
        mine = slice(*np.searchsorted(users, (own.start, own.stop)).tolist())
        n = len(users[mine])
        pairs = users[mine], items[mine], values[mine]
        error = evaluate.rmse(self.model, self._ratings.by_user, *pairs) if n else 0.0
        squares, n_all = self._exchange.totals(error**2 * n, n)
        return float(np.sqrt(squares / n_all))

    def _learn_sub_step(self, order: NDArray[np.int32], bounds: NDArray[np.int64], shift: int, rates: Rates) -> None:
        arrays, own = arrays_of(self.model), self._blocks.users
        arrays = arrays._replace(**{name: getattr(arrays, name)[own] for name in (*LEARNED_USERS, "user_baseline")})
        step = self._groups.start + shift
        sgd.learn_sub_step(self._blocks.rows, self._samples, order, bounds, step, self._lines, arrays, rates)

    def _own_bounds(self) -> NDArray[np.int64]:
        """First user of each user group of this rank, counted from its first user; (n + 1,)."""
        bounds = self._blocks.user_bounds[self._groups.start : self._groups.stop + 1]
        return bounds - self._blocks.users.start

    def _own(self, *names: str) -> Iterator[NDArray[np.float32]]:
        """The rows of arrays that this rank has learned last: views that do not overlap."""
        for name in names:
            of_users = ARRAYS[name][0].startswith("U")
            for rows in [self._blocks.users] if of_users else self._rotation.held():
                yield getattr(self.model, name)[rows]

    def _scores(self, n_pairs: NDArray[np.int64], items: NDArray[np.int32]) -> NDArray[np.float32]:
        """Predictions for `n_pairs` items of each of this rank's users."""
        own = self._blocks.users
        users = np.repeat(np.arange(own.start, own.stop, dtype=np.int32), n_pairs)
        return evaluate.predict(self.model, self._ratings.by_user, users, items)


class Blocks:
    """The D × D grid over the ratings, and the samples of some of its blocks in an epoch.

    Attributes:
        user_bounds, item_bounds (D + 1,): int64, first row of each group; groups hold about equally many ratings.
        users: the users of the chosen groups.
        rows: their ratings.
    """

    def __init__(self, ratings: Ratings, groups: slice = ALL_GROUPS) -> None:
        """`groups`: the user groups to make samples for."""
        self.n_items = ratings.n_items
        self.user_bounds = balanced_bounds(ratings.by_user.lengths, N_GROUPS)
        self.item_bounds = balanced_bounds(ratings.by_item.lengths, N_GROUPS)
        self.users = slice(int(self.user_bounds[groups.start]), int(self.user_bounds[groups.stop]))
        self.rows, self._first = part_of(ratings.by_user, self.users)
        own = slice(self._first, self._first + len(self.rows.values))
        self._weights = NO_WEIGHTS if ratings.weights is None else ratings.weights[own]
        self._samples: Samples | None = None

    def samples(self, epoch: int) -> Samples:
        """The samples of `epoch`: for explicit models always the ratings themselves."""
        del epoch
        if self._samples is None:
            cuts = np.empty((len(self.rows.starts), N_GROUPS + 1), dtype=np.int64)
            sgd.group_cuts(self.rows, self.item_bounds.astype(np.int32), cuts)
            self._samples = Samples(self.rows.items, self.rows.values, cuts, self._weights)
        return self._samples


class ImplicitBlocks(Blocks):
    """The grid for implicit feedback: each like is followed by its negatives, which every epoch draws again."""

    def __init__(
        self,
        ratings: Ratings,
        params: CulshImplicitParams,
        middle: float = NO_MIDDLE,
        groups: slice = ALL_GROUPS,
    ) -> None:
        """`middle`: see `gpu.data.model.Model`; `groups` as in `Blocks`."""
        super().__init__(ratings, groups)
        self._params, self._middle = params, np.float32(middle)
        widths = np.diff(self.item_bounds)
        self._group_of = np.repeat(np.arange(N_GROUPS, dtype=np.uint8), widths)
        n = len(self.rows.values)
        room = n * (1 + params.n_negatives)
        cuts = np.empty((len(self.rows.starts), N_GROUPS + 1), dtype=np.int64)
        weights = np.zeros(room if len(self._weights) else 0, np.float32)
        self._drawn = Samples(np.zeros(room, np.int32), np.zeros(room, np.float32), cuts, weights)
        self._negatives = np.empty((n, params.n_negatives), dtype=np.int32)
        self._epoch = -1  # epoch of the present draws

    def samples(self, epoch: int) -> Samples:
        """The ratings and the negatives of `epoch`; valid until the next call."""
        if epoch != self._epoch:
            keys = self._params.seed, epoch, self._middle
            sgd.draw_negatives(self.rows, self.n_items, *keys, self._negatives, self._first)
            sgd.mix_samples(self.rows, self._negatives, self._group_of, self._middle, self._drawn, self._weights)
            self._epoch = epoch
        return self._drawn
