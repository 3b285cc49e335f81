"""`python -m benchmarks defaults`: how the shipped defaults do on every set of a data folder.

Beside each algorithm's defaults stand the best of a fixed grid, something trivial, and peers at their defaults and at
their best. Settings are chosen on a tenth of the training part, then trained once on all of it and measured on the test
part, which nothing else sees.
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
from benchmarks.rows import BEST, DEFAULT, GRID, Row, Store
from service.bench.report import say
from service.console import progress

PARTS = ("ours", "grid", "peers")
Plan = list[tuple[Method, bool, bool]]  # method, whether its defaults and whether its grid are wanted


def run(
    data: Path, names: Sequence[str], parts: Sequence[str], backend: gpu.Backend, harness: Harness, store: Store
) -> None:
    """Put every row that is wanted into `store`, set by set.

    Args:
        data: see `benchmarks.datasets`.
        names: of sets; none: all that are there.
        parts: some of `PARTS`.
        backend: where ours compute.
        harness: what runs peers.
    """
    for name in datasets.available(data, list(names)):
        dataset = datasets.load(data, name)
        say(f"{name}: {len(dataset.whole.train):,} to train on, {len(dataset.whole.test):,} to test")
        _run(dataset, plan(dataset.task, parts, backend, harness), store)


def plan(task: str, parts: Sequence[str], backend: gpu.Backend, harness: Harness) -> Plan:
    """Every method of a task with what is wanted of it."""
    found: Plan = []
    if "ours" in parts and task != FACTORS:
        found.append((Trivial(task), True, False))
    if {"ours", "grid"} & set(parts):
        found += [(Ours(name, backend), "ours" in parts, "grid" in parts) for name in grids.ALGORITHMS[task]]
    if "peers" in parts:
        found += [(Other(peer, harness), True, True) for peer in peers().values() if peer.task == task]
    return found


def rows_of(method: Method, dataset: Dataset, of_defaults: bool, of_grid: bool, store: Store) -> Iterator[Row]:
    """The rows of one method: defaults, each setting of its grid, the best of these."""

    def get(stage: str, settings: dict[str, object]) -> Row:
        wanted = method.row(dataset, stage, settings)
        return store.get(wanted, lambda: method.fitted(dataset, wanted))

    if of_defaults:
        yield get(DEFAULT, method.defaults(dataset))
    if of_grid:
        tried = []
        for settings in method.grid(dataset):
            tried.append(get(GRID, settings))
            yield tried[-1]
        yield get(BEST, best_of(tried).settings)


def best_of(rows: Sequence[Row]) -> Row:
    """The best by the first metric of the task; the first of equals."""
    best = rows[0]
    for row in rows[1:]:
        best = row if measure.is_better(row.task, row.metrics, best.metrics) else best
    return best


def _run(dataset: Dataset, methods: Plan, store: Store) -> None:
    total = sum(of_defaults + of_grid * (len(method.grid(dataset)) + 1) for method, of_defaults, of_grid in methods)
    with progress(dataset.name, total) as bar:
        for method, of_defaults, of_grid in methods:
            _run_one(method, rows_of(method, dataset, of_defaults, of_grid, store), bar.advance)


def _run_one(method: Method, rows: Iterator[Row], advance: Callable[[int, str], None]) -> None:
    try:
        for row in rows:
            advance(1, method.name)
            if row.stage != GRID:
                say(f"  {method.name}, {row.stage}: {_told(row)}")
    except PeerMissing as error:
        say(f"  {method.name}: left out. {error}")


def _told(row: Row) -> str:
    return row.note or "  ".join(f"{name} {value:.4f}" for name, value in row.metrics.items()) + f"  {row.settings}"
