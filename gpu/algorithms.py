"""`ALGORITHMS`: one record for each algorithm. A new one is a folder that registers it, and is imported here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints

from gpu import als, descent, ease, neighbors, next, nmf  # noqa: F401 - each registers what it trains
from gpu.als.objective import WHOLE
from gpu.base.backend import HOST, Backend
from gpu.base.errors import InvalidParams
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.data.param_ranges import check_names, converted
from gpu.data.ratings import Ratings
from gpu.data.signals import Calibration
from gpu.ranks.exchange import ALONE, Exchange
from gpu.training.algorithm import REGISTERED
from gpu.training.loop import OnEpoch, Trainer, train
from gpu.training.selection import MOST_FACTORS

Kind = TypeVar("Kind", bound=Params)
# Runs all epochs on checked ratings, explicit ones in multiples of their unit; see `run_here`.
Run = Callable[[Ratings, Params, Backend, Ratings | None, OnEpoch | None, Calibration], Model]

ALGORITHMS = dict(sorted(REGISTERED.items()))


def params_for(algorithm: str, values: Mapping[str, Any]) -> Params:
    """The parameters of `algorithm`: `values` by name, and the defaults of all others.

    Values may be text ("32").

    Raises:
        InvalidParams: unknown algorithm or parameter name, or a value of the wrong type or out of range.
    """
    if algorithm not in ALGORITHMS:
        raise InvalidParams(f"Invalid algorithm: expected one of {', '.join(sorted(ALGORITHMS))}, got {algorithm!r}")
    return params_of(ALGORITHMS[algorithm].params, values)


def params_of(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """`params_for` the algorithm whose parameters are of this class."""
    check_names(kind.algorithm, {field.name for field in dataclasses.fields(kind)}, values)
    types = get_type_hints(kind)
    return kind(**{name: converted(name, value, types[name]) for name, value in values.items()})


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


def most_factors(backend: Backend, n_ranks: int) -> int:
    """F at most, where held-out pairs decide it: several devices solve whole rows."""
    return WHOLE if n_ranks > 1 and backend.name != HOST.name else MOST_FACTORS


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
