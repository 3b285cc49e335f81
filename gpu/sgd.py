"""CUSGD++ ([004] Alg. 2), and the epoch loop that CULSH-MF shares with it.

Users and items are each split into `N_GROUPS` groups of about equally many ratings. An epoch has as many sub-steps; in
each, every user group meets another item group, so no two threads touch the same row (MCULSH-MF's D × D scheme).
"""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpu import evaluate
from gpu.backend import HOST, Backend
from gpu.baselines import Baselines, baselines
from gpu.epochs import EpochReport, OnEpoch, ShouldStop, epochs
from gpu.errors import TrainingDiverged
from gpu.model import Model
from gpu.params import CulshParams, SgdParams
from gpu.ratings import Ratings, Rows
from gpu.training import Rates, Samples, arrays_of

# D: as many threads can work at once. A constant, so that a result does not depend on the machine; more groups mean
# that a user's ratings are looked up more often in an epoch.
N_GROUPS = 8
# Factors start as normal draws of this deviation over √F, so that u·v starts near zero whatever F.
INITIAL_DEVIATION = 0.1


def fit(
    ratings: Ratings,
    params: SgdParams,
    backend: Backend = HOST,
    test: Ratings | None = None,
    on_epoch: OnEpoch | None = None,
    should_stop: ShouldStop | None = None,
) -> Model:
    """Train factors and biases; see `gpu.fit`."""
    model = start_model(ratings, params, baselines(ratings))
    return Training(model, params, ratings, Blocks(ratings), backend, test).run(on_epoch, should_stop)


def start_model(ratings: Ratings, params: SgdParams, known: Baselines, n_bits: int = 0) -> Model:
    """The model before its first epoch: baselines as biases, small random factors, zeros for rows without ratings."""
    model = Model.zeros(params, known.mean, ratings.scale, ratings.n_users, ratings.n_items, n_bits)
    model.user_trained[:], model.item_trained[:] = ratings.by_user.lengths > 0, ratings.by_item.lengths > 0
    model.user_baseline[:], model.item_baseline[:] = known.user, known.item
    model.user_bias[:], model.item_bias[:] = known.user, known.item
    generator = np.random.default_rng(params.seed)
    for factors, trained in ((model.user_factors, model.user_trained), (model.item_factors, model.item_trained)):
        deviation = np.float32(INITIAL_DEVIATION / np.sqrt(params.n_factors))
        factors[:] = generator.standard_normal(factors.shape, dtype=np.float32) * deviation * trained[:, None]
    return model


class Blocks:
    """The D × D grid over the ratings, and what each block learns in an epoch.

    Attributes:
        user_bounds, item_bounds (D + 1,): int64, first row of each group; groups hold about equally many ratings.
    """

    def __init__(self, ratings: Ratings) -> None:
        self.rows = ratings.by_user
        self.n_items = ratings.n_items
        self.user_bounds = balanced_bounds(ratings.by_user.lengths, N_GROUPS)
        self.item_bounds = balanced_bounds(ratings.by_item.lengths, N_GROUPS)
        self._samples: Samples | None = None

    def samples(self, epoch: int, backend: Backend) -> Samples:
        """What is learned in `epoch`: here always the ratings themselves."""
        del epoch
        if self._samples is None:
            cuts = np.empty((len(self.rows.starts), N_GROUPS + 1), dtype=np.int64)
            backend.primitives("sgd").group_cuts(self.rows, self.item_bounds.astype(np.int32), cuts)
            self._samples = Samples(self.rows.items, self.rows.values, cuts)
        return self._samples


class Training:
    """One run of the epochs: the schedule, the order of visits, reports and stopping."""

    def __init__(
        self,
        model: Model,
        params: SgdParams,
        ratings: Ratings,
        blocks: Blocks,
        backend: Backend,
        test: Ratings | None,
        seconds: float = 0.0,
    ) -> None:
        """Args: `seconds`: training time already spent, on finding neighbours."""
        self.model, self.params, self.ratings, self.blocks = model, params, ratings, blocks
        self.backend, self.test = backend, test
        self.seconds = seconds
        self._primitives = backend.primitives("sgd")
        self._lines = self._primitives.lines(N_GROUPS, model.n_items)

    def run(self, on_epoch: OnEpoch | None, should_stop: ShouldStop | None) -> Model:
        """Train to the end.

        Raises:
            TrainingCancelled: `should_stop` returned true before an epoch.
            TrainingDiverged: a parameter is no longer finite.
        """
        self._compile()
        n_epochs = self.params.n_epochs
        for epoch in epochs(n_epochs, should_stop):
            began = time.perf_counter()
            samples = self.blocks.samples(epoch, self.backend)
            self._learn(samples, epoch)
            self.seconds += time.perf_counter() - began
            _check_finite(self.model, epoch)
            if on_epoch is not None:
                on_epoch(EpochReport(epoch + 1, n_epochs, self.seconds, self._metrics(samples)))
        return self.model

    def _compile(self) -> None:
        """Compile everything that an epoch calls, by an epoch that visits nobody."""
        samples = self.blocks.samples(0, self.backend)
        self._learn(samples, 0, np.zeros_like(self.blocks.user_bounds))

    def _learn(self, samples: Samples, epoch: int, bounds: NDArray[np.int64] | None = None) -> None:
        generator = np.random.default_rng((self.params.seed, epoch))
        users = self.blocks.user_bounds
        order = np.concatenate([first + generator.permutation(last - first) for first, last in pairwise(users)])
        self._primitives.learn_epoch(
            self.blocks.rows, samples, order.astype(np.int32), users if bounds is None else bounds,
            generator.permutation(N_GROUPS), self._lines, arrays_of(self.model), rates_at(self.params, epoch),
        )  # fmt: skip

    def _metrics(self, samples: Samples) -> dict[str, float]:
        model, rows = self.model, self.ratings.by_user
        if model.is_implicit:
            metrics = {"train_loss": _cross_entropy(model, rows, samples, self.backend)}
            if self.test is not None:
                ranking = evaluate.ranking(model, rows, self.test, backend=self.backend)
                metrics |= {f"test_{name}": value for name, value in ranking.items()}
            return metrics
        metrics = {"train_rmse": evaluate.rmse(model, rows, *self.ratings.coo(), backend=self.backend)}
        if self.test is not None:
            metrics["test_rmse"] = evaluate.rmse(model, rows, *self.test.coo(), backend=self.backend)
        return metrics


def balanced_bounds(lengths: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Bounds, int64 (D + 1,), of `n_groups` runs of rows that hold about equally many ratings."""
    ends = np.cumsum(lengths)
    targets = np.arange(1, n_groups) * (ends[-1] / n_groups)
    return np.concatenate([[0], np.searchsorted(ends, targets), [len(lengths)]]).astype(np.int64)


def rates_at(params: SgdParams, epoch: int) -> Rates:
    """Steps of `epoch`, from 0: γ = α / (1 + β·t^1.5) (eq. 7), for W and C with their own α."""
    decay = 1 / (1 + params.learning_rate_decay * epoch**1.5)
    weight_rate, weight_regularization = 0.0, 0.0
    if isinstance(params, CulshParams):
        weight_rate, weight_regularization = params.weight_learning_rate, params.weight_regularization
    steps = (params.learning_rate * decay, weight_rate * decay)
    decays = (params.regularization, params.bias_regularization, weight_regularization)
    return Rates(*(np.float32(x) for x in (*steps, *decays)))


def _cross_entropy(model: Model, rows: Rows, samples: Samples, backend: Backend) -> float:
    per_user = samples.cuts[:, -1] - samples.cuts[:, 0]
    users = np.repeat(np.arange(model.n_users, dtype=np.int32), per_user)
    ends = np.cumsum(per_user)
    places = np.arange(len(users)) + np.repeat(samples.cuts[:, 0] - (ends - per_user), per_user)
    scores = evaluate.predict(model, rows, users, samples.items[places], backend=backend)
    losses = np.logaddexp(0, scores) - samples.targets[places] * scores
    return float(losses.mean(dtype=np.float64))


def _check_finite(model: Model, epoch: int) -> None:
    learned = (model.user_factors, model.item_factors, model.user_bias, model.item_bias, model.explicit_weights)
    if not all(np.isfinite(array.sum(dtype=np.float64)) for array in learned):
        raise TrainingDiverged(
            f"Training of {model.params.algorithm} diverged in epoch {epoch + 1}: expected finite parameters; "
            "lower learning_rate or raise regularization"
        )
