"""`python -m benchmarks scale`: test RMSE of the defaults on the same ratings in other units.

Errors are divided by the unit, so that they are equal if a model does not depend on the scale.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import gpu
from benchmarks import datasets
from benchmarks.datasets import Dataset
from benchmarks.methods import Ours
from benchmarks.peers.contract import ESTIMATES
from benchmarks.rows import Row, Store
from service.cli.console import progress

STAGE = "scale"
SETS = ("ml-100k", "jester")
CHANGES = {"× 1": (1.0, 0.0), "× 1/4": (0.25, 0.0), "× 20": (20.0, 0.0), "− 3": (1.0, -3.0)}  # factor, shift


def run(data: Path, algorithms: Sequence[str], backend: gpu.Backend, store: Store) -> None:
    """Put a row for each set and algorithm into `store`."""
    names = datasets.available(data, list(SETS))
    with progress("scale", len(names) * len(algorithms)) as bar:
        for name in names:
            fold = datasets.estimates_fold(data / datasets.SOURCES[name].file)
            dataset = Dataset(name, ESTIMATES, fold, fold, datasets.facts_of(fold.train))
            for algorithm in algorithms:
                measure_one(dataset, Ours(algorithm, backend), store)
                bar.advance(note=algorithm)


def measure_one(dataset: Dataset, method: Ours, store: Store) -> None:
    """Measure the RMSE after each change, divided by its factor."""
    blank = method.row(dataset, STAGE, {})

    def computed() -> Row:
        rows = {name: _changed(dataset, method, blank, *change) for name, change in CHANGES.items()}
        errors = {name: row.metrics["rmse"] / CHANGES[name][0] for name, row in rows.items()}
        notes = "; ".join(f"{name}: {row.note}" for name, row in rows.items() if row.note)
        return dataclasses.replace(blank, metrics=errors, note=notes)

    store.get(blank, computed)


def _changed(dataset: Dataset, method: Ours, blank: Row, factor: float, shift: float) -> Row:
    return method.fitted(dataclasses.replace(dataset, whole=dataset.whole.scaled(factor, shift)), blank)
