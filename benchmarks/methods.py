"""The methods that are fitted to a set: trivial ones, our algorithms, and peers. Each fit gives a row."""

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
from gpu.training.nmf_matrix import matrix_of
from gpu.training.tune import tune

NMF_ITERATIONS = {"n_epochs": 100, "tolerance": 0.0}  # equal to the iterations of `peers.sklearn_nmf`


class Method(Protocol):
    """One method.

    Attributes:
        name: its name in the tables.
        kind: `TRIVIAL`, `OURS` or `PEER`.
    """

    name: str
    kind: str

    def defaults(self, dataset: Dataset) -> Settings:
        """The settings that are passed when its defaults are measured."""

    def grid(self, dataset: Dataset) -> list[Settings]:
        """The settings to choose its best from; they include the defaults."""

    def row(self, dataset: Dataset, stage: str, settings: Settings) -> Row:
        """The row of a fit before it runs: its settings, and NaN as metrics."""

    def fitted(self, dataset: Dataset, blank_row: Row) -> Row:
        """Fit; returns the row with its metrics, or with the reason of a failure."""


class Trivial:
    """Popularity or shrunk biases."""

    kind = TRIVIAL

    def __init__(self, task: str) -> None:
        self.name = "shrunk biases" if task == ESTIMATES else "popularity"

    def defaults(self, dataset: Dataset) -> Settings:
        """No settings."""
        del dataset
        return {}

    def grid(self, dataset: Dataset) -> list[Settings]:
        """No settings."""
        del dataset
        return []

    def row(self, dataset: Dataset, stage: str, settings: Settings) -> Row:
        """See `Method`."""
        return blank(self, dataset, stage, settings, "host")

    def fitted(self, dataset: Dataset, blank_row: Row) -> Row:
        """See `Method`."""
        fold, began = dataset.whole, time.perf_counter()
        if dataset.task == ESTIMATES:
            users, items, _ = fold.test.coo()
            arrays: dict[str, Any] = {"estimates": trivial.shrunk_biases(fold.train, users, items)}
        else:
            arrays = trivial.popularity(fold.train)
        seconds = time.perf_counter() - began
        return dataclasses.replace(blank_row, metrics=measure.of_arrays(dataset.task, fold, arrays), seconds=seconds)


class Ours:
    """One of `gpu.ALGORITHMS`. Settings of a grid are trained on values in the unit of the grid."""

    kind = OURS

    def __init__(self, algorithm: str, backend: gpu.Backend) -> None:
        self.name, self._backend = algorithm, backend

    def defaults(self, dataset: Dataset) -> Settings:
        """Factorizations get the number of iterations that all methods use; other algorithms get no settings."""
        return dict(NMF_ITERATIONS) if dataset.task == FACTORS else {}

    def grid(self, dataset: Dataset) -> list[Settings]:
        """See `benchmarks.grids`."""
        base = self.defaults(dataset)
        return [base, *({**base, **settings} for settings in grids.grid(self.name, dataset.facts))]

    def row(self, dataset: Dataset, stage: str, settings: Settings) -> Row:
        """See `Method`; the row has all parameters, so that changed defaults make another row."""
        parameters = dataclasses.asdict(params_for(self.name, settings))
        where = self._backend.name if self._backend.name == "host" else f"device: {self._backend.reason}"
        return dataclasses.replace(blank(self, dataset, stage, settings, where), parameters=parameters)

    def fitted(self, dataset: Dataset, blank_row: Row) -> Row:
        """See `Method`. Errors of the engine and a lack of memory become notes."""
        fold = dataset.inner if blank_row.stage == GRID else dataset.whole
        unit = grids.unit(dataset.task, dataset.facts) if blank_row.stage in (GRID, BEST) else 1.0
        try:
            metrics, seconds = self._measured(dataset.task, fold, blank_row.settings, unit)
        except (EngineError, MemoryError) as error:
            return dataclasses.replace(blank_row, note=f"{type(error).__name__}: {error}")
        return dataclasses.replace(blank_row, metrics=metrics, seconds=seconds)

    def tuned(self, dataset: Dataset) -> Row:
        """The row of the parameters that `gpu.training.tune` finds, by the same split as the grid."""
        defaults, began = params_for(self.name, {}), time.perf_counter()
        try:
            outcome = tune(dataset.inner.train, dataset.inner.test, defaults, backend=self._backend)
        except (EngineError, MemoryError) as error:
            return dataclasses.replace(self.row(dataset, TUNED, {}), note=f"{type(error).__name__}: {error}")
        seconds, default = time.perf_counter() - began, dataclasses.asdict(defaults)
        settings = {name: value for name, value in dataclasses.asdict(outcome.best).items() if default[name] != value}
        fitted = self.fitted(dataset, self.row(dataset, TUNED, settings))
        return dataclasses.replace(fitted, seconds=seconds)

    def _measured(self, task: str, fold: Fold, settings: Settings, unit: float) -> tuple[measure.Metrics, float]:
        params = params_for(self.name, settings)
        scaled = fold if unit == 1 else fold.scaled(1 / unit)
        began = time.perf_counter()
        if isinstance(params, NmfParams):
            factors = nmf.factorize(matrix_of(fold.train), params, self._backend)
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
    """A model of another library."""

    kind = PEER

    def __init__(self, peer: Peer, harness: Harness) -> None:
        self.name, self._peer, self._harness = peer.name, peer, harness

    def defaults(self, dataset: Dataset) -> Settings:
        """See `Method`."""
        return self._peer.default(dataset.facts)

    def grid(self, dataset: Dataset) -> list[Settings]:
        """The defaults and the grid of its module in `benchmarks.peers`."""
        return [self.defaults(dataset), *self._peer.grid(dataset.facts)]

    def row(self, dataset: Dataset, stage: str, settings: Settings) -> Row:
        """See `Method`."""
        return blank(self, dataset, stage, settings, self._harness.where)

    def fitted(self, dataset: Dataset, blank_row: Row) -> Row:
        """See `Method`. Time-outs and failed fits become notes.

        Raises:
            PeerMissing: the library is not installed.
        """
        fold = dataset.inner if blank_row.stage == GRID else dataset.whole
        answer = self._harness.run(self._peer, fold, blank_row.settings)
        if answer.note:
            return dataclasses.replace(blank_row, note=answer.note)
        metrics = measure.of_arrays(dataset.task, fold, answer.arrays)
        where = f"{blank_row.where}; {self._peer.package} {answer.version}"
        return dataclasses.replace(blank_row, metrics=metrics, seconds=answer.seconds, where=where)


def blank(method: Method, dataset: Dataset, stage: str, settings: Settings, where: str) -> Row:
    """A row without metrics."""
    columns = (dataset.name, dataset.task, method.name, method.kind, stage, settings)
    return Row(*columns, measure.nothing(dataset.task), math.nan, where)
