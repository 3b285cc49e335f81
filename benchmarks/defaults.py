"""`python -m benchmarks defaults`: quality of the shipped defaults on every set of a data folder; its `table`; `scale`.

Each algorithm's defaults are compared with the best of a fixed grid, with the result of `nearfield tune`, with a
trivial method, and with peers at their defaults and at their best. Settings are chosen on a tenth of the training part.
They are then trained once on all of it and measured on the test part, which is used for nothing else.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import gpu
from benchmarks import datasets, grids, options
from benchmarks.datasets import SOURCES, Dataset
from benchmarks.methods import METRICS, Method, Other, Ours, PeerMissing, Trivial, is_better
from benchmarks.options import Data, Fits, Names, Sets, Where
from benchmarks.peers import ESTIMATES, FACTORS, LISTS, peers
from benchmarks.results import NONE, Fit, Store, markdown, put, readable, say
from service.cli.console import progress

STAGES = {"ours": "defaults", "grid": "best", "tune": "tuned"}  # part -> stage of our algorithms
PARTS = (*STAGES, "peers")
MEASURES = {ESTIMATES: "RMSE", LISTS: "NDCG@10, Recall@20", FACTORS: "relative error"}
HEADER = (
    *("set", "measure", "method", "defaults", "best of a grid", "gap"),
    *("found by tune", "chosen among", "settings of the best"),
)
UNITS = (
    "Settings of ours are for values in units of their standard deviation (lists: of their mean). *Gap*: by how much"
    " the defaults are worse than the best. *Chosen among*: settings compared on a tenth of the training part."
)
CHANGES = {"× 1": (1.0, 0.0), "× 1/4": (0.25, 0.0), "× 20": (20.0, 0.0), "− 3": (1.0, -3.0)}  # factor, shift
Plan = list[tuple[Method, tuple[str, ...]]]  # method, and the stages to measure


def defaults(
    data: Data,
    sets: Sets = None,
    part: Annotated[str, typer.Option(help="Part: ours (with trivial baselines), grid, tune, peers, all.")] = "ours",
    peers_python: Annotated[Path, typer.Option(help="Interpreter with peers.", exists=True)] = Path(sys.executable),
    peer_threads: Annotated[int, typer.Option(help="Threads of a peer.", min=1)] = 1,
    backend: Where = "auto",
    json: Fits = None,
) -> None:
    """Compare the shipped defaults on every set with the best of a fixed grid, a trivial method, and peers."""
    options.check(sets or [], SOURCES, "--set")
    options.check([part], (*PARTS, "all"), "--part")
    store, where, others = Store(json), options.chosen(backend), (peers_python.absolute(), peer_threads)
    for name in datasets.available(data, sets or []):
        dataset = datasets.load(data, name)
        say(f"{name}: {len(dataset.whole.train):,} to train on, {len(dataset.whole.test):,} to test")
        methods = _plan(dataset.task, PARTS if part == "all" else (part,), where, others)
        total = sum(len(stages) + ("best" in stages) * len(method.grid(dataset)) for method, stages in methods)
        with progress(name, total) as bar:
            for method, stages in methods:
                try:
                    for row in fits_of(method, dataset, stages, store):
                        bar.advance(note=method.name)
                        if row.stage != "grid":
                            values = row.note or " ".join(f"{key} {value:.4f}" for key, value in row.metrics.items())
                            say(f"  {method.name}, {row.stage}: {values}  {row.settings}")
                except PeerMissing as error:
                    say(f"  {method.name}: left out. {error}")
    put(defaults_table(store))


def table(
    files: Annotated[list[Path], typer.Argument(help="Files that --json wrote; their rows are merged.", exists=True)],
) -> None:
    """Print the table of `defaults` from files of raw rows, without computing anything."""
    put(defaults_table(Store(*files)))


def scale(data: Data, algorithms: Names = "als,sgd,culsh,esgd", backend: Where = "auto", json: Fits = None) -> None:
    """Test RMSE of the defaults for ratings × 1, × 1/4, × 20 and − 3, in units of the scale, on ml-100k and jester."""
    store, where, names = Store(json), options.chosen(backend), options.algorithms(algorithms)
    for name in datasets.available(data, ["ml-100k", "jester"]):
        dataset = Dataset.of(name, datasets.Fold(*datasets.train_and_test(data / SOURCES[name][1])))
        for algorithm in names:
            say(f"{name}: {algorithm}")
            method = Ours(algorithm, where)
            store.get(method.row(dataset, "scale", {}), functools.partial(_in_units, dataset, method))
    store.put_metrics("scale")


def _in_units(dataset: Dataset, method: Method) -> Fit:
    """The RMSE after each change, divided by its factor: equal if a model does not depend on the scale."""
    blank, errors, notes = method.row(dataset, "scale", {}), dict[str, float](), list[str]()
    for name, (factor, shift) in CHANGES.items():
        row = method.fitted(dataset._replace(whole=dataset.whole.scaled(factor, shift)), blank)
        errors[name] = row.metrics["rmse"] / factor
        notes += [f"{name}: {row.note}"] if row.note else []
    return blank._replace(metrics=errors, note="; ".join(notes))


def _plan(task: str, parts: Sequence[str], backend: gpu.Backend, others: tuple[Path, int]) -> Plan:
    """Every method of a task with the stages to measure."""
    methods: Plan = []
    if "ours" in parts and task != FACTORS:
        methods.append((Trivial(task), ("defaults",)))
    stages = tuple(stage for part, stage in STAGES.items() if part in parts and (part != "tune" or task != FACTORS))
    if stages:
        methods += [(Ours(name, backend), stages) for name in grids.ALGORITHMS[task]]
    if "peers" in parts:
        methods += [(Other(peer, *others), ("defaults", "best")) for peer in peers().values() if peer.task == task]
    return methods


def fits_of(method: Method, dataset: Dataset, stages: Sequence[str], store: Store) -> Iterator[Fit]:
    """The fits of one method: defaults, each setting of its grid, the best of these, and the result of a search.

    A search always runs again, even if the store has its row. Of equally good settings the first is the best.
    """

    def get(stage: str, settings: dict[str, Any]) -> Fit:
        blank = method.row(dataset, stage, settings)
        return store.get(blank, lambda: method.fitted(dataset, blank))

    if "defaults" in stages:
        yield get("defaults", method.defaults(dataset))
    if "best" in stages:
        best: Fit | None = None
        for settings in method.grid(dataset):
            row = get("grid", settings)
            best = row if best is None or is_better(row.task, row.metrics, best.metrics) else best
            yield row
        assert best is not None  # noqa: S101 - a grid has the defaults; narrows the type
        yield get("best", best.settings)
    if "tuned" in stages and isinstance(method, Ours):
        yield store.add(method.tuned(dataset))


def defaults_table(store: Store) -> str:
    """One line for each method on each set: its defaults, and the best of its grid if that was measured."""
    cells = []
    for name in SOURCES:
        of_set = [row for row in store.rows if row.dataset == name and row.stage in (*STAGES.values(), "grid")]
        for method in dict.fromkeys(row.method for row in of_set):
            cells.append(_cells([row for row in of_set if row.method == method]))
    return "\n".join([*store.conditions(), *markdown(HEADER, cells), "", UNITS])


def _cells(rows: Sequence[Fit]) -> list[str]:
    first, newest = rows[0], {row.stage: row for row in rows}
    one, best = newest.get("defaults"), newest.get("best")
    tried = {_named(row.settings): row.note for row in rows if row.stage == "grid"}
    failed = sum(map(bool, tried.values()))
    return [
        first.dataset,
        MEASURES[first.task],
        f"**{first.method}**" if first.kind == Ours.kind else first.method,
        _values(one),
        _values(best),
        _gap(one, best),
        _values(newest.get("tuned")),
        (f"{len(tried)} ({failed} failed)" if failed else str(len(tried))) if best else NONE,
        _named(best.settings) if best else NONE,
    ]


def _values(row: Fit | None) -> str:
    if row is None:
        return NONE
    return row.note[:60] or " ".join(readable(row.metrics[name]) for name in METRICS[row.task])


def _gap(one: Fit | None, best: Fit | None) -> str:
    if one is None or best is None:
        return NONE
    value, goal = (row.metrics[METRICS[one.task][0]] for row in (one, best))
    if math.isnan(value) or math.isnan(goal) or not goal:
        return NONE
    return f"{100 * (1 - value / goal if one.task == LISTS else value / goal - 1):+.2f} %"


def _named(settings: dict[str, Any]) -> str:
    """Settings by name, those of settings within settings too."""
    flat = ({name: value} if not isinstance(value, dict) else value for name, value in settings.items())
    return " ".join(f"{name}={value}" for part in flat for name, value in part.items()) or "the defaults"
