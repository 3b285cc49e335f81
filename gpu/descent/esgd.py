"""ESGD ([003]): stochastic gradient descent whose training neither shuffles, nor sorts, nor schedules.

The paper sorts nothing at all. Here `Ratings` are sorted by user and by item before every training.

Fixed biases come first: means of users and items, shrunk so that rows with few ratings stay near μ
(`gpu.data.baselines.shrunk_biases`); with `calibration=none` plain means, as in [003]. Factors learn the residual x = r
− μ − b_i − b̂_j. With e = x − p·q, an update is p ← p + γ(e q − λ_p p) and q ← q + γ(e p − λ_q q), both from the old
values, with a fixed γ.

Order of visits. The ratings stay in one array in memory order: by user, since `Ratings` keeps the last rating of each
pair and no arrival order. A block takes `BLOCK` of them, in pieces of `CHUNK` adjacent ratings that one warp reads at
once. It visits them in the order of one random array, the same for every block and epoch (*Rand* of [003]). Block b
takes pieces 64 b, 64 b + 1, … of a walk around the array, in strides near the golden ratio of its length. This only
computes an index and moves no data. So the ratings in flight are spread evenly over all users, which matters with tens
of thousands of them. Test errors of MovieLens-100K are the same within 0.001 for true arrival order, order of the
array, the walk, and a new shuffle in every epoch (docs/decisions/0033).

The device has races: updates are atomic additions in any order, computed from values that other threads may be
changing. The host visits one rating after the other in the order above, on one thread, since more would need a
schedule, which ESGD avoids. So its results have the same bits in every run. Both reach the same error.

Several ranks each learn all items from their own users, in the order above; after an epoch the changes of items are
added up as in `gpu.descent.delayed_items`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from gpu.base.backend import HOST, Backend
from gpu.base.errors import TrainingDiverged
from gpu.data import draws
from gpu.data.baselines import Baselines, shrunk_biases, user_means_first
from gpu.data.calibration import FACTOR_PRIOR
from gpu.data.memory import check_training
from gpu.data.model import Model
from gpu.data.ratings import Ratings
from gpu.descent import host_esgd as esgd
from gpu.descent.host_item_changes import ItemChanges
from gpu.descent.order import BLOCK, CHUNK, Order
from gpu.descent.params import EsgdParams
from gpu.ranks.exchange import ALONE, Exchange
from gpu.ranks.user_split import UserSplit
from gpu.training import evaluate
from gpu.training.check import diverged
from gpu.training.loop import State, Trainer

# Upper end, times √F, of the uniform start of factors from 0. With one sign all products have one sign, which gives a
# first direction to learn along; a start around 0 takes some epochs longer.
START = 0.3
GOLDEN_RATIO = 0.5 * (math.sqrt(5) - 1)
N_SOME = 4096  # users whose factors stand for those of all
NEAR = 32  # strides to try on either side of the golden ratio


class EsgdTrainer(Trainer[Model]):
    """Trains samples and both factor tables on the backend; see `gpu.training.loop.Trainer`.

    On the device equal seeds give only nearly equal models.
    """

    def __init__(
        self,
        ratings: Ratings,
        params: EsgdParams,
        backend: Backend = HOST,
        test: Ratings | None = None,
        exchange: Exchange = ALONE,
    ) -> None:
        """Load samples and factors onto the backend.

        Args:
            exchange: the ranks that train together; the model depends on their number.

        Raises:
            NotEnoughMemory: the training would need more than is free; the message has both numbers.
        """
        self._twin = twin = backend.twin
        self._users_of = users = UserSplit.of(ratings, exchange)
        part = users.part(ratings)
        changes_bytes = 8 * params.n_factors * ratings.n_items * (exchange.size > 1)
        check_training(twin(esgd.bytes_needed)(part, params) + changes_bytes, params.n_factors, ratings, backend)
        self._ratings, self._params, self._test, self._exchange = ratings, params, test, exchange
        self._model = start_model(ratings, params)
        biases = Baselines(self._model.mean, self._model.user_bias[users.held], self._model.item_bias)
        self._samples = twin(esgd.load)(part, biases, order_of(len(part), params.seed))
        self._load()
        changes = (self._items,), ratings.by_item.lengths, exchange.size
        self._changes = twin(ItemChanges)(*changes) if exchange.size > 1 else None
        self.seconds = 0.0

    @property
    def n_epochs(self) -> int:
        """Epochs at most."""
        return self._params.n_epochs

    def compile(self) -> None:
        """See `gpu.training.loop.Trainer`."""
        self._twin(esgd.prepare)(self._params.n_factors)

    def learn(self, epoch: int) -> None:
        """Run one epoch; every epoch has the same step."""
        del epoch
        params, step = self._params, np.float32(self._params.learning_rate)
        ridges = np.float32(params.regularization), np.float32(params.ridge_of_items)
        if not self._users_of.is_idle:
            self._twin(esgd.learn_epoch)(self._samples, self._users, self._items, step, *ridges)
        if self._changes is not None:  # add up those of all ranks; see `gpu.descent.delayed_items`
            self._exchange.reduce(self._changes.collect((self._items,), self._users[:N_SOME]))
            self._changes.apply((self._items,), (float(step),))
        for table in (self._users, self._items) if params.is_calibrated else ():
            table[...] *= np.float32(np.exp(-step * FACTOR_PRIOR))  # λ0 of the ridge λ n + λ0
        if self._changes is not None:
            self._changes.remember((self._items,))
        self._twin(esgd.finish)()

    def is_finite(self) -> bool:
        """Whether every factor is finite, on all ranks."""
        return self._exchange.totals(not self._twin(esgd.is_finite)(self._users, self._items)) == (0,)

    def state(self) -> State:
        """Both tables of factors."""
        model = self.model()
        return {"user_factors": model.user_factors, "item_factors": model.item_factors}

    def restore(self, state: State) -> None:
        """See `gpu.training.loop.Trainer`."""
        self._model.user_factors[:], self._model.item_factors[:] = state["user_factors"], state["item_factors"]
        self._load()
        if self._changes is not None:
            self._changes.remember((self._items,))

    def diverged(self, epoch: int) -> TrainingDiverged:
        """See `gpu.training.check.diverged`."""
        return diverged(self._params, epoch)

    def model(self) -> Model:
        """The present parameters, on the host; with several ranks all must call it."""
        n_factors, users = self._params.n_factors, self._users_of
        if not users.is_idle:
            self._model.user_factors[users.own] = self._twin(esgd.fetch)(self._users)[:, :n_factors]
        self._exchange.on_host.gather(self._model.user_factors, users.bounds)
        self._model.item_factors[:] = self._twin(esgd.fetch)(self._items)[:, :n_factors]
        return self._model

    def metrics(self) -> Mapping[str, float]:
        """See `gpu.training.loop.EpochReport`; metrics of the test set only on rank 0."""
        model, rows = self.model(), self._ratings.by_user
        metrics = {"train_rmse": evaluate.rmse(model, rows, *self._ratings.coo())}
        if self._test is not None and self._exchange.rank == 0:
            metrics["test_rmse"] = evaluate.rmse(model, rows, *self._test.coo())
        return metrics

    def _load(self) -> None:
        """Load the factors of the model onto the backend."""
        self._users = self._twin(esgd.load_factors)(self._model.user_factors[self._users_of.held])
        self._items = self._twin(esgd.load_factors)(self._model.item_factors)


def order_of(n_ratings: int, seed: int) -> Order:
    """The order of visits of `n_ratings`; it depends only on the arguments."""
    n_chunks = -(-n_ratings // CHUNK)
    golden = round(GOLDEN_RATIO * n_chunks)
    strides = range(max(1, golden - NEAR), golden + NEAR + 1)
    stride = min(strides, key=lambda stride: largest_quotient(stride, n_chunks))
    return Order(np.random.default_rng(seed).permutation(BLOCK).astype(np.uint16), stride)


def largest_quotient(stride: int, n: int) -> float:
    """The largest partial quotient of stride / n, infinite unless they are coprime: it measures how uneven a walk is.

    The golden ratio has only ones; a whole stride can only come near it.
    """
    largest = 0
    while stride:
        largest = max(largest, n // stride)
        n, stride = stride, n % stride
    return largest if n == 1 else math.inf


def start_model(ratings: Ratings, params: EsgdParams) -> Model:
    """The model before its first epoch; factors of rows without ratings are zero and stay so."""
    biases = shrunk_biases(ratings) if params.is_calibrated else user_means_first(ratings)
    model = Model.zeros(params, biases.mean, ratings.scale, ratings.n_users, ratings.n_items)
    model.mark_trained(ratings.by_user.lengths, ratings.by_item.lengths)
    model.user_baseline[:], model.item_baseline[:] = biases.user, biases.item
    model.user_bias[:], model.item_bias[:] = biases.user, biases.item
    end = START / params.n_factors**0.5
    sides = (model.user_factors, model.user_trained), (model.item_factors, model.item_trained)
    for side, (factors, trained) in enumerate(sides):
        draws.fill(factors, (params.seed, side), end, is_normal=False)
        factors[~trained] = 0
    return model
