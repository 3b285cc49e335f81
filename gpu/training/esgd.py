"""ESGD ([003]): stochastic gradient descent without shuffling, sorting or scheduling.

Fixed biases come first: means of users and items, shrunk so that rows with few ratings stay near μ ([003] takes plain
means; `gpu.baselines.shrunk_biases`). Factors learn the rest, x = r − μ − b_i − b̂_j:
with e = x − p·q, p ← p + γ(e q − λp) and q ← q + γ(e p − λq), both from the values before either is written, with a
fixed γ.

Order of visits. The ratings stay as one array as they lie in memory: by user, since `Ratings` keeps the last rating of
each pair and no arrival order. A block takes `BLOCK` of them, in pieces of `CHUNK` neighbors that one warp reads
at once, and visits them in the order of one random array, the same for every block and epoch (*Rand* of [003]). Block
b takes pieces 64 b, 64 b + 1, … of a walk round the array in strides near the golden ratio of it: an index is computed,
nothing is moved. So whatever is visited at about the same time is spread evenly over all users, which matters where
tens of thousands of ratings are in work at once. Test errors of MovieLens-100K are the same within 0.001 for true
arrival order, order of the array, the walk, and a new shuffle in every epoch (docs/decisions, note 33).

The device is racy: updates are atomic additions in any order, computed from values that others may be changing. The
host visits one rating after the other in the order above, on one thread (more would need the schedule that ESGD is
free of), so its results are the same bit for bit; both reach the same error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.backend import HOST, Backend
from gpu.baselines import Baselines, shrunk_biases
from gpu.calibration import FACTOR_PRIOR
from gpu.errors import TrainingDiverged
from gpu.memory import check_training
from gpu.model import Model
from gpu.params import EsgdParams
from gpu.ratings import Ratings
from gpu.training import evaluate
from gpu.training.check import diverged
from gpu.training.loop import Trainer

BLOCK = 2048  # sh_size, ratings that a block holds: the nearest to [003]'s 2000 that threads divide
CHUNK = 32  # neighbors in memory that stay together, one read of a warp
# Factors start uniform from 0 to this over √F. A start of one sign gives all products one sign, and so a first
# direction to learn along; one around 0 takes some epochs longer to leave it.
START = 0.3
GOLDEN_RATIO = 0.5 * (math.sqrt(5) - 1)
NEAR = 32  # strides on either side of it to choose from


class Order(NamedTuple):
    """In which order ratings are visited.

    Attributes:
        visits: uint16 (BLOCK,), *Rand*: the places of a block in the order of their visits.
        stride: between chunks that follow each other, coprime to their number.
    """

    visits: NDArray[np.uint16]
    stride: int


class EsgdTrainer(Trainer[Model]):
    """Samples and both factor tables where the backend computes; see `gpu.training.loop.Trainer`.

    On the device equal seeds give nearly equal models only.
    """

    def __init__(
        self, ratings: Ratings, params: EsgdParams, backend: Backend = HOST, test: Ratings | None = None
    ) -> None:
        """Place them.

        Raises:
            NotEnoughMemory: the training would need more than is free; the message has both numbers.
        """
        needed = backend.primitives("esgd").bytes_needed(ratings, params)
        check_training(needed, params.n_factors, ratings, backend)
        self._ratings, self._params, self._test = ratings, params, test
        self._model = start_model(ratings, params)
        self._esgd = esgd = backend.primitives("esgd")
        biases = Baselines(self._model.mean, self._model.user_bias, self._model.item_bias)
        self._samples = esgd.load(ratings, biases, order_of(len(ratings), params.seed))
        self._users, self._items = (
            esgd.load_factors(self._model.user_factors),
            esgd.load_factors(self._model.item_factors),
        )
        self.seconds = 0.0

    @property
    def n_epochs(self) -> int:
        """Epochs at most."""
        return self._params.n_epochs

    def compile(self) -> None:
        """See `gpu.training.loop.Trainer`."""
        self._esgd.prepare(self._params.n_factors)

    def learn(self, epoch: int) -> None:
        """One epoch; the step stays the same."""
        del epoch
        step, regularization = np.float32(self._params.learning_rate), np.float32(self._params.regularization)
        self._esgd.learn_epoch(self._samples, self._users, self._items, step, regularization)
        for table in (self._users, self._items):
            table[...] *= np.float32(np.exp(-step * FACTOR_PRIOR))  # λ0 of the ridge λ n + λ0
        self._esgd.finish()

    def is_finite(self) -> bool:
        """Whether every factor is."""
        return bool(self._esgd.is_finite(self._users, self._items))

    def diverged(self, epoch: int) -> TrainingDiverged:
        """See `gpu.training.check.diverged`."""
        return diverged(self._params, epoch)

    def model(self) -> Model:
        """The present parameters, on the host."""
        n_factors = self._params.n_factors
        self._model.user_factors[:] = self._esgd.fetch(self._users)[:, :n_factors]
        self._model.item_factors[:] = self._esgd.fetch(self._items)[:, :n_factors]
        return self._model

    def metrics(self) -> Mapping[str, float]:
        """See `gpu.training.loop.EpochReport`."""
        model, rows = self.model(), self._ratings.by_user
        metrics = {"train_rmse": evaluate.rmse(model, rows, *self._ratings.coo())}
        if self._test is not None:
            metrics["test_rmse"] = evaluate.rmse(model, rows, *self._test.coo())
        return metrics


def order_of(n_ratings: int, seed: int) -> Order:
    """The order of visits of so many ratings; it depends on nothing else."""
    n_chunks = -(-n_ratings // CHUNK)
    golden = round(GOLDEN_RATIO * n_chunks)
    strides = range(max(1, golden - NEAR), golden + NEAR + 1)
    stride = min(strides, key=lambda stride: largest_quotient(stride, n_chunks))
    return Order(np.random.default_rng(seed).permutation(BLOCK).astype(np.uint16), stride)


def largest_quotient(stride: int, n: int) -> float:
    """The largest partial quotient of stride / n, infinite unless they are coprime: how unevenly a walk spreads.

    The golden ratio has ones only; a whole number of steps has to be near it.
    """
    largest = 0
    while stride:
        largest = max(largest, n // stride)
        n, stride = stride, n % stride
    return largest if n == 1 else math.inf


def start_model(ratings: Ratings, params: EsgdParams) -> Model:
    """The model before its first epoch; factors of rows without ratings are and stay zero."""
    known = shrunk_biases(ratings)
    model = Model.zeros(params, known.mean, ratings.scale, ratings.n_users, ratings.n_items)
    model.mark_trained(ratings.by_user.lengths, ratings.by_item.lengths)
    model.user_baseline[:], model.item_baseline[:] = known.user, known.item
    model.user_bias[:], model.item_bias[:] = known.user, known.item
    generator = np.random.default_rng(params.seed)
    end = np.float32(START / np.sqrt(params.n_factors))
    for factors, trained in ((model.user_factors, model.user_trained), (model.item_factors, model.item_trained)):
        factors[:] = generator.random(factors.shape, dtype=np.float32) * end * trained[:, None]
    return model
