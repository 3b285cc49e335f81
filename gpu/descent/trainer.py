"""CUSGD++ ([004] Alg. 2), and the trainer that CULSH-MF shares with it.

The backend decides the order of visits in an epoch: `gpu.descent.host`, `gpu.descent.device`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpu.base.backend import HOST, Backend
from gpu.base.errors import TrainingDiverged
from gpu.data import draws
from gpu.data.baselines import Baselines, baselines, shrunk_biases
from gpu.data.calibration import BIAS_PRIOR, FACTOR_PRIOR, WEIGHT_PRIOR
from gpu.data.memory import check_training
from gpu.data.model import Model
from gpu.data.ratings import Ratings
from gpu.data.views import Rates, Shares
from gpu.descent import host
from gpu.descent.delayed_items import DelayedItems, bytes_of_changes
from gpu.descent.params import CulshParams, SgdParams
from gpu.ranks.exchange import ALONE, Exchange
from gpu.ranks.user_split import UserSplit
from gpu.training import evaluate
from gpu.training.check import diverged
from gpu.training.loop import State, Trainer

# Deviation, times √F, of the normal draws that factors start from, so that u·v starts near zero for any F.
INITIAL_DEVIATION = 0.1
# Upper end, times √F, of the uniform draws from 0 on that factors start from without biases. Then u·v has to reach the
# mean of the ratings, so all products start with its sign.
POSITIVE_END = 1.0


def trainer(
    ratings: Ratings,
    params: SgdParams,
    backend: Backend = HOST,
    test: Ratings | None = None,
    exchange: Exchange = ALONE,
) -> DescentTrainer:
    """The trainer of factors and biases before the first epoch.

    Args:
        exchange: the ranks that train together. The model has equal bits for any number of them on the host, and with
            `params.deterministic` on equal devices. Else on devices it differs a little (`gpu.descent.delayed_items`).

    Raises:
        NotEnoughMemory: the training would need more than is free; the message has both numbers.
    """
    check_training(bytes_needed(ratings, params, backend, exchange), params.n_factors, ratings, backend)
    fixed, biases = start_of_biases(ratings, params)
    model = start_model(ratings, params, fixed, biases)
    return DescentTrainer(model, params, ratings, backend, test, exchange=exchange)


def bytes_needed(ratings: Ratings, params: SgdParams, backend: Backend, exchange: Exchange) -> int:
    """Peak bytes that the epochs take on this rank; on devices it may load the ratings of its own users alone."""
    of = backend.twin(host.bytes_needed)
    if not _adds_up_changes(params, backend, exchange):
        return of(ratings, params)
    return of(UserSplit.of(ratings, exchange).part(ratings), params) + bytes_of_changes(ratings, params)


def start_of_biases(ratings: Ratings, params: SgdParams) -> tuple[Baselines, Baselines]:
    """(the fixed baselines b̄, the start of the learned biases), shrunk unless `calibration=none`; 0 without biases."""
    if params.is_calibrated:
        return baselines(ratings), shrunk_biases(ratings)
    means = baselines(ratings, prior=0.0)
    if not params.biases:
        means = Baselines(0.0, np.zeros_like(means.user), np.zeros_like(means.item))
    return means, means


def start_model(ratings: Ratings, params: SgdParams, fixed: Baselines, biases: Baselines, n_bits: int = 0) -> Model:
    """The model before its first epoch: `biases` and small random factors, with zeros for rows without ratings.

    Args:
        fixed: the baselines of neighbor residuals.
        biases: the start of the learned biases.
        n_bits: H, bits of a signature.
    """
    model = Model.zeros(params, fixed.mean, ratings.scale, ratings.n_users, ratings.n_items, n_bits)
    model.mark_trained(ratings.by_user.lengths, ratings.by_item.lengths)
    model.user_baseline[:], model.item_baseline[:] = fixed.user, fixed.item
    model.user_bias[:], model.item_bias[:] = biases.user, biases.item
    size = (INITIAL_DEVIATION if params.biases else POSITIVE_END) / params.n_factors**0.5
    sides = (model.user_factors, model.user_trained), (model.item_factors, model.item_trained)
    for side, (factors, trained) in enumerate(sides):
        draws.fill(factors, (params.seed, side), size, is_normal=params.biases)
        factors[~trained] = 0
    return model


class DescentTrainer(Trainer[Model]):
    """Stochastic gradient descent from a start model; see `gpu.training.loop.Trainer`."""

    def __init__(
        self,
        model: Model,
        params: SgdParams,
        ratings: Ratings,
        backend: Backend,
        test: Ratings | None,
        seconds: float = 0.0,
        exchange: Exchange = ALONE,
    ) -> None:
        """Load the model onto the backend.

        Args:
            seconds: training time already spent on finding neighbors.
            exchange: the ranks that train together.
        """
        self.params, self.ratings, self.test, self.exchange = params, ratings, test, exchange
        self.seconds = seconds
        self._descent = descent_of(model, params, ratings, test, backend, exchange)

    @property
    def n_epochs(self) -> int:
        """Epochs at most."""
        return self.params.n_epochs

    def compile(self) -> None:
        """See `gpu.training.loop.Trainer`."""
        self._descent.compile()

    def prepare(self) -> None:
        """Lay the ratings out."""
        self._descent.prepare()

    def learn(self, epoch: int) -> None:
        """Run one epoch of eq. 5."""
        rates = rates_at(self.params, epoch)
        self._descent.learn(epoch, rates)
        if self.params.is_calibrated and not self.params.is_implicit:
            self._descent.shrink(shares_at(rates))
        self._descent.finish()

    def is_finite(self) -> bool:
        """Whether every learned parameter is finite."""
        return self._descent.is_finite()

    def diverged(self, epoch: int) -> TrainingDiverged:
        """See `gpu.training.check.diverged`."""
        return diverged(self.params, epoch)

    def state(self) -> State:
        """The learned arrays."""
        self._descent.complete()
        return self._descent.state()

    def restore(self, state: State) -> None:
        """See `gpu.training.loop.Trainer`."""
        self._descent.restore(state)

    def model(self) -> Model:
        """The present parameters, on the host; call it after the first epoch. With several ranks all must call it."""
        self._descent.complete()
        return self._descent.fetch()

    def metrics(self) -> Mapping[str, float]:
        """See `gpu.training.loop.EpochReport`; ranks of lists only on rank 0."""
        name = "train_loss" if self.params.is_implicit else "train_rmse"
        metrics = {name: self._descent.train_error()}
        if self.test is None:
            return metrics
        if not self.params.is_implicit:
            return metrics | {"test_rmse": self._descent.test_rmse()}
        self._descent.complete()
        if self.exchange.rank:
            return metrics
        ranking = evaluate.ranking(self._descent.fetch(), self.ratings.by_user, self.test)
        return metrics | {f"test_{name}": value for name, value in ranking.items()}


def descent_of(
    model: Model, params: SgdParams, ratings: Ratings, test: Ratings | None, backend: Backend, exchange: Exchange
) -> host.Descent | DelayedItems:
    """The descent on a backend: devices add up changes of items, unless `params.deterministic`."""
    if _adds_up_changes(params, backend, exchange):
        return DelayedItems(model, params, ratings, test, exchange, backend)
    return backend.twin(host.Descent)(model, params, ratings, test, exchange)


def _adds_up_changes(params: SgdParams, backend: Backend, exchange: Exchange) -> bool:
    return exchange.size > 1 and backend.name == "device" and not params.deterministic


def rates_at(params: SgdParams, epoch: int) -> Rates:
    """Step lengths of `epoch`, from 0: γ = α / (1 + β·t^1.5) (eq. 7); W and C have their own α."""
    decay = 1 / (1 + params.learning_rate_decay * epoch**1.5)
    weight_rate, weight_regularization = 0.0, 0.0
    if isinstance(params, CulshParams):
        weight_rate, weight_regularization = params.weight_learning_rate, params.weight_regularization
    steps = (params.learning_rate * decay, params.learning_rate * decay * params.biases, weight_rate * decay)
    decays = (params.regularization, params.bias_regularization, weight_regularization)
    return Rates(*(np.float32(x) for x in (*steps, *decays)))


def shares_at(rates: Rates) -> Shares:
    """Shares that λ0 shrinks parameters by in an epoch: about γ λ0, as λ shrinks them by γ λ at each rating."""
    steps = (rates.step * FACTOR_PRIOR, rates.step * BIAS_PRIOR, rates.weight_step * WEIGHT_PRIOR)
    return Shares(*(float(1 - np.exp(-step)) for step in steps))
