"""What can be fitted to a set: something trivial, an algorithm of ours, a peer. Each gives a row for each fit."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any, Protocol

import gpu
from benchmarks import grids, measure, trivial
from benchmarks.datasets import Dataset, Fold
from benchmarks.harness import Harness
from benchmarks.peers.contract import ESTIMATES, FACTORS, Peer, Settings
from benchmarks.rows import BEST, GRID, OURS, PEER, TRIVIAL, TUNED, Row
from gpu.errors import EngineError
from gpu.params import NmfParams, params_for
from gpu.training import nmf
from gpu.training.tune import tune

NMF_ITERATIONS = {"n_epochs": 100, "tolerance": 0.0}  # as many as scikit-learn's in `peers.sklearn_nmf`


class Method(Protocol):
    """One way to fit.

    Attributes:
        name: in the tables.
        kind: `TRIVIAL`, `OURS` or `PEER`.
    """

    name: str
    kind: str

    def defaults(self, dataset: Dataset) -> Settings:
        """What is given beyond its own defaults when these are measured."""

    def grid(self, dataset: Dataset) -> list[Settings]:
        """The settings among which its best is chosen; the defaults are always among them."""

    def row(self, dataset: Dataset, stage: str, settings: Settings) -> Row:
        """The row of a fit that has not been made: what was asked for, and no metrics."""

    def fitted(self, dataset: Dataset, wanted: Row) -> Row:
        """The row with its metrics, or with the reason why there are none."""


class Trivial:
    """Popularity or shrunk biases."""

    kind = TRIVIAL

    def __init__(self, task: str) -> None:
        self.name = "shrunk biases" if task == ESTIMATES else "popularity"

    def defaults(self, dataset: Dataset) -> Settings:
        """Nothing to set."""
        del dataset
        return {}

    def grid(self, dataset: Dataset) -> list[Settings]:
        """The same."""
        del dataset
        return []

    def row(self, dataset: Dataset, stage: str, settings: Settings) -> Row:
        """See `Method`."""
        return blank(self, dataset, stage, settings, "host")

    def fitted(self, dataset: Dataset, wanted: Row) -> Row:
        """See `Method`."""
        fold, began = dataset.whole, time.perf_counter()
        if dataset.task == ESTIMATES:
            users, items, _ = fold.test.coo()
            arrays: dict[str, Any] = {"estimates": trivial.shrunk_biases(fold.train, users, items)}
        else:
            arrays = trivial.popularity(fold.train)
        seconds = time.perf_counter() - began
        return dataclasses.replace(wanted, metrics=measure.of_arrays(dataset.task, fold, arrays), seconds=seconds)


class Ours:
    """One of `gpu.ALGORITHMS`. Settings of a grid are trained on values in the unit of the grid."""

    kind = OURS

    def __init__(self, algorithm: str, backend: gpu.Backend) -> None:
        self.name, self._backend = algorithm, backend

    def defaults(self, dataset: Dataset) -> Settings:
        """None but the number of iterations of a factorization, which is everyone's there."""
        return dict(NMF_ITERATIONS) if dataset.task == FACTORS else {}

    def grid(self, dataset: Dataset) -> list[Settings]:
        """See `benchmarks.grids`."""
        base = self.defaults(dataset)
        return [base, *({**base, **settings} for settings in grids.grid(self.name, dataset.facts))]

    def row(self, dataset: Dataset, stage: str, settings: Settings) -> Row:
        """See `Method`; all parameters are part of it."""
        parameters = dataclasses.asdict(params_for(self.name, settings))
        where = self._backend.name if self._backend.name == "host" else f"device: {self._backend.reason}"
        return dataclasses.replace(blank(self, dataset, stage, settings, where), parameters=parameters)

    def fitted(self, dataset: Dataset, wanted: Row) -> Row:
        """See `Method`. What the engine refuses, or cannot hold, is noted."""
        fold = dataset.inner if wanted.stage == GRID else dataset.whole
        unit = grids.unit(dataset.task, dataset.facts) if wanted.stage in (GRID, BEST) else 1.0
        try:
            metrics, seconds = self._measured(dataset.task, fold, wanted.settings, unit)
        except (EngineError, MemoryError) as error:
            return dataclasses.replace(wanted, note=f"{type(error).__name__}: {error}")
        return dataclasses.replace(wanted, metrics=metrics, seconds=seconds)

    def tuned(self, dataset: Dataset) -> Row:
        """The row of what `gpu.training.tune` finds: it chooses as the grid does; fitted to the whole training part."""
        asked, began = params_for(self.name, {}), time.perf_counter()
        try:
            found = tune(dataset.inner.train, dataset.inner.test, asked, backend=self._backend)
        except (EngineError, MemoryError) as error:
            return dataclasses.replace(self.row(dataset, TUNED, {}), note=f"{type(error).__name__}: {error}")
        seconds, given = time.perf_counter() - began, dataclasses.asdict(asked)
        settings = {name: value for name, value in dataclasses.asdict(found.best).items() if given[name] != value}
        wanted = self.row(dataset, TUNED, settings)
        return dataclasses.replace(self.fitted(dataset, wanted), seconds=seconds)

    def _measured(self, task: str, fold: Fold, settings: Settings, unit: float) -> tuple[measure.Metrics, float]:
        params = params_for(self.name, settings)
        scaled = fold if unit == 1 else fold.scaled(1 / unit)
        began = time.perf_counter()
        if isinstance(params, NmfParams):
            factors = nmf.factorize(nmf.matrix_of(fold.train), params, self._backend)
            seconds = time.perf_counter() - began
            return measure.of_arrays(task, fold, {"W": factors.W, "H": factors.H}), seconds
        model = gpu.fit(scaled.train, params, backend=self._backend)
        seconds = time.perf_counter() - began
        if task == ESTIMATES:
            users, items, _ = scaled.test.coo()
            estimates = gpu.evaluate.predict(model, scaled.train.by_user, users, items, backend=self._backend)
            return measure.of_arrays(task, fold, {"estimates": estimates * unit}), seconds
        return measure.ranks(scaled, model), seconds


class Other:
    """A peer."""

    kind = PEER

    def __init__(self, peer: Peer, harness: Harness) -> None:
        self.name, self._peer, self._harness = peer.name, peer, harness

    def defaults(self, dataset: Dataset) -> Settings:
        """See `Method`."""
        return self._peer.default(dataset.facts)

    def grid(self, dataset: Dataset) -> list[Settings]:
        """See its module in `benchmarks.peers`."""
        return [self.defaults(dataset), *self._peer.grid(dataset.facts)]

    def row(self, dataset: Dataset, stage: str, settings: Settings) -> Row:
        """See `Method`."""
        return blank(self, dataset, stage, settings, self._harness.where)

    def fitted(self, dataset: Dataset, wanted: Row) -> Row:
        """See `Method`. A fit that takes too long, or ends badly, is noted.

        Raises:
            PeerMissing: the library is not installed.
        """
        fold = dataset.inner if wanted.stage == GRID else dataset.whole
        answer = self._harness.run(self._peer, fold, wanted.settings)
        if answer.note:
            return dataclasses.replace(wanted, note=answer.note)
        metrics = measure.of_arrays(dataset.task, fold, answer.arrays)
        where = f"{wanted.where}; {self._peer.package} {answer.version}"
        return dataclasses.replace(wanted, metrics=metrics, seconds=answer.seconds, where=where)


def blank(method: Method, dataset: Dataset, stage: str, settings: Settings, where: str) -> Row:
    """A row without metrics."""
    asked = (dataset.name, dataset.task, method.name, method.kind, stage, settings)
    return Row(*asked, measure.nothing(dataset.task), math.nan, where)
