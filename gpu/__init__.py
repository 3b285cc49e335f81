"""Nearfield's engine: arrays in, arrays out. Importing it needs neither CuPy nor a GPU.

The axis alphabet of every docstring: U users, I items, F factors, B batch, K neighbours, N ratings, H hash bits.
"""

from __future__ import annotations

from gpu import als, culsh, esgd, evaluate, nmf, sgd
from gpu.backend import HOST, Backend, choose
from gpu.epochs import EpochReport, OnEpoch, ShouldStop
from gpu.errors import (
    BackendUnavailable,
    EngineError,
    InvalidInput,
    InvalidParams,
    InvalidRatings,
    NotEnoughMemory,
    TrainingCancelled,
    TrainingDiverged,
)
from gpu.model import NO_NEIGHBOUR, Model
from gpu.params import (
    ALGORITHMS,
    AlsImplicitParams,
    AlsParams,
    CulshImplicitParams,
    CulshParams,
    EsgdParams,
    NmfParams,
    Params,
    SgdParams,
    params_for,
)
from gpu.ratings import Ratings, Rows

__all__ = [
    "ALGORITHMS",
    "HOST",
    "NO_NEIGHBOUR",
    "AlsImplicitParams",
    "AlsParams",
    "Backend",
    "BackendUnavailable",
    "CulshImplicitParams",
    "CulshParams",
    "EngineError",
    "EpochReport",
    "EsgdParams",
    "InvalidInput",
    "InvalidParams",
    "InvalidRatings",
    "Model",
    "NmfParams",
    "NotEnoughMemory",
    "Params",
    "Ratings",
    "Rows",
    "SgdParams",
    "TrainingCancelled",
    "TrainingDiverged",
    "choose",
    "evaluate",
    "fit",
    "params_for",
]


def fit(
    ratings: Ratings,
    params: Params,
    *,
    backend: Backend = HOST,
    test: Ratings | None = None,
    on_epoch: OnEpoch | None = None,
    should_stop: ShouldStop | None = None,
) -> Model:
    """Train the model that `params` names.

    Equal ratings, rows, keys and parameters give an equal model, bit for bit, whatever the number of threads. On a
    device that holds for ALS and NMF, for the other algorithms of `SgdParams` where `deterministic` is set, and not for
    ESGD: what it adds, it adds in any order.

    Args:
        ratings: what to learn from.
        params: one of the classes in `ALGORITHMS`.
        backend: where to compute.
        test: ratings to measure after each epoch; never learned from. Rows as in `ratings`.
        on_epoch: called after each epoch; metrics are only computed where it is given.
        should_stop: asked before each epoch.

    Raises:
        InvalidRatings: there is no rating, or one that the algorithm cannot use.
        NotEnoughMemory: the training would need more than is free on the host or device where it computes.
        TrainingCancelled: `should_stop` returned true.
        TrainingDiverged: a parameter is no longer finite.
    """
    if not len(ratings):
        raise InvalidRatings("Invalid length of ratings: expected at least one rating to train on, got none")
    if isinstance(params, AlsParams | AlsImplicitParams):
        return als.fit(ratings, params, backend, test, on_epoch, should_stop)
    if isinstance(params, NmfParams):
        return nmf.fit(ratings, params, backend, test, on_epoch, should_stop)
    if isinstance(params, EsgdParams):
        return esgd.fit(ratings, params, backend, test, on_epoch, should_stop)
    if isinstance(params, CulshParams):
        return culsh.fit(ratings, params, backend, test, on_epoch, should_stop)
    assert isinstance(params, SgdParams)  # noqa: S101 - the last of `ALGORITHMS`; this narrows the type
    return sgd.fit(ratings, params, backend, test, on_epoch, should_stop)
