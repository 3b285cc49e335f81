"""`ALGORITHMS`: one record for each algorithm; a new one is added here, with parameters in `gpu.data.params`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpu.als.trainer import AlsTrainer
from gpu.base.backend import Backend
from gpu.base.errors import InvalidParams
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.data.params import (
    AlsImplicitParams,
    AlsParams,
    CulshImplicitParams,
    CulshParams,
    EaseParams,
    EsgdParams,
    NmfParams,
    SgdParams,
)
from gpu.data.ratings import Ratings
from gpu.data.signals import Calibration
from gpu.descent import culsh
from gpu.descent import trainer as sgd
from gpu.descent.esgd import EsgdTrainer
from gpu.ease.trainer import EaseTrainer
from gpu.nmf.trainer import NmfTrainer
from gpu.ranks.exchange import ALONE, Exchange
from gpu.training.loop import OnEpoch, Trainer, train

MakeTrainer = Callable[..., Trainer[Model]]
# Runs all epochs on checked ratings, explicit ones in multiples of their unit; see `run_here`.
Run = Callable[[Ratings, Params, Backend, Ratings | None, OnEpoch | None, Calibration], Model]


@dataclass(frozen=True)
class Algorithm:
    """One algorithm.

    Attributes:
        params: class of its hyperparameters; it also states the kind of feedback.
        trainer: makes a trainer of (ratings, params, backend, test), a calibration if it needs one, and an exchange if
            it has ranks.
        needs_calibration: whether it trains by values that are derived from the data (`gpu.data.calibration`).
        has_ranks: whether several ranks can train one model together (`gpu.ranks.exchange`).
    """

    params: type[Params]
    trainer: MakeTrainer
    needs_calibration: bool = True
    has_ranks: bool = True


ALGORITHMS = {
    one.params.algorithm: one
    for one in (
        Algorithm(AlsParams, AlsTrainer),
        Algorithm(AlsImplicitParams, AlsTrainer),
        Algorithm(CulshParams, culsh.trainer),
        Algorithm(CulshImplicitParams, culsh.trainer),
        Algorithm(EaseParams, EaseTrainer, has_ranks=False),
        Algorithm(EsgdParams, EsgdTrainer, needs_calibration=False),
        Algorithm(NmfParams, NmfTrainer, needs_calibration=False),
        Algorithm(SgdParams, sgd.trainer, needs_calibration=False),
    )
}


def trainer_of(
    ratings: Ratings,
    params: Params,
    backend: Backend,
    test: Ratings | None,
    calibration: Calibration,
    exchange: Exchange = ALONE,
) -> Trainer[Model]:
    """The trainer of `params`, before its first epoch; of one rank, if `exchange` has several.

    Raises:
        InvalidParams: the exchange has several ranks, and the algorithm cannot use them.
    """
    check_ranks(params.algorithm, exchange.size)
    algorithm = ALGORITHMS[params.algorithm]
    calibrations = (calibration,) if algorithm.needs_calibration else ()
    ranks = (exchange,) if algorithm.has_ranks else ()
    return algorithm.trainer(ratings, params, backend, test, *calibrations, *ranks)


def has_ranks(algorithm: str) -> bool:
    """Whether several ranks can train this algorithm; false for an unknown one."""
    return algorithm in ALGORITHMS and ALGORITHMS[algorithm].has_ranks


def check_ranks(algorithm: str, n_ranks: int) -> None:
    """Check that `n_ranks` ranks can train this algorithm.

    Raises:
        InvalidParams: they cannot.
    """
    if n_ranks > 1 and not has_ranks(algorithm):
        others = ", ".join(name for name, one in ALGORITHMS.items() if one.has_ranks)
        raise InvalidParams(f"Invalid ranks: expected 1 for {algorithm}, got {n_ranks}; only {others} train on several")


def run_here(
    ratings: Ratings,
    params: Params,
    backend: Backend,
    test: Ratings | None,
    on_epoch: OnEpoch | None,
    calibration: Calibration,
) -> Model:
    """Run all epochs in this process; the arguments are those of `gpu.fit`. Raises what `train` raises."""
    return train(trainer_of(ratings, params, backend, test, calibration), on_epoch)
