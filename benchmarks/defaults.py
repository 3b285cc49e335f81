"""`python -m benchmarks defaults`: quality of the shipped defaults on every set of a data folder.

Each algorithm's defaults are compared with the best of a fixed grid, with the result of `nearfield tune`, with a
trivial method, and with peers at their defaults and at their best. Settings are chosen on a tenth of the training part.
They are then trained once on all of it and measured on the test part, which is used for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import gpu
from benchmarks import datasets, grids, measure
from benchmarks.datasets import Dataset
from benchmarks.harness import Harness, PeerMissing
from benchmarks.methods import Method, Other, Ours, Trivial
from benchmarks.peers import peers
from benchmarks.peers.contract import FACTORS
from benchmarks.report import say
from benchmarks.rows import BEST, DEFAULT, GRID, TUNED, Row, Store
from service.cli.console import progress

PARTS = ("ours", "grid", "tune", "peers")
Plan = list[tuple[Method, tuple[str, ...]]]  # method, and the stages to measure


STAGES = {"ours": DEFAULT, "grid": BEST, "tune": TUNED}  # part -> stage of our algorithms


def run(
    data: Path, names: Sequence[str], parts: Sequence[str], backend: gpu.Backend, harness: Harness, store: Store
) -> None:
    """Put every row of `parts` into `store`, set by set.

    Args:
        data: see `benchmarks.datasets`.
        names: names of sets; an empty list means all sets in `data`.
        parts: some of `PARTS`.
        backend: backend of our algorithms.
        harness: runs the peers.
    """
    for name in datasets.available(data, list(names)):
        dataset = datasets.load(data, name)
        say(f"{name}: {len(dataset.whole.train):,} to train on, {len(dataset.whole.test):,} to test")
        _run(dataset, plan(dataset.task, parts, backend, harness), store)


def plan(task: str, parts: Sequence[str], backend: gpu.Backend, harness: Harness) -> Plan:
    """Every method of a task with the stages to measure."""
    methods: Plan = []
    if "ours" in parts and task != FACTORS:
        methods.append((Trivial(task), (DEFAULT,)))
    stages = tuple(stage for part, stage in STAGES.items() if part in parts and (part != "tune" or task != FACTORS))
    if stages:
        methods += [(Ours(name, backend), stages) for name in grids.ALGORITHMS[task]]
    if "peers" in parts:
        methods += [(Other(peer, harness), (DEFAULT, BEST)) for peer in peers().values() if peer.task == task]
    return methods


def rows_of(method: Method, dataset: Dataset, stages: Sequence[str], store: Store) -> Iterator[Row]:
    """The rows of one method: defaults, each setting of its grid, the best of these, and the result of a search.

    A search always runs again, even if the store has its row.
    """

    def get(stage: str, settings: dict[str, object]) -> Row:
        blank = method.row(dataset, stage, settings)
        return store.get(blank, lambda: method.fitted(dataset, blank))

    if DEFAULT in stages:
        yield get(DEFAULT, method.defaults(dataset))
    if BEST in stages:
        of_grid = []
        for settings in method.grid(dataset):
            of_grid.append(get(GRID, settings))
            yield of_grid[-1]
        yield get(BEST, best_of(of_grid).settings)
    if TUNED in stages and isinstance(method, Ours):
        yield store.add(method.tuned(dataset))


def best_of(rows: Sequence[Row]) -> Row:
    """The best row by the first metric of the task; the first one of equal rows."""
    best = rows[0]
    for row in rows[1:]:
        best = row if measure.is_better(row.task, row.metrics, best.metrics) else best
    return best


def _run(dataset: Dataset, methods: Plan, store: Store) -> None:
    total = sum(len(stages) + (BEST in stages) * len(method.grid(dataset)) for method, stages in methods)
    with progress(dataset.name, total) as bar:
        for method, stages in methods:
            _run_one(method, rows_of(method, dataset, stages, store), bar.advance)


def _run_one(method: Method, rows: Iterator[Row], advance: Callable[[int, str], None]) -> None:
    try:
        for row in rows:
            advance(1, method.name)
            if row.stage != GRID:
                say(f"  {method.name}, {row.stage}: {_summary(row)}")
    except PeerMissing as error:
        say(f"  {method.name}: left out. {error}")


def _summary(row: Row) -> str:
    return row.note or "  ".join(f"{name} {value:.4f}" for name, value in row.metrics.items()) + f"  {row.settings}"
