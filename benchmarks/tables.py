"""Formats rows as Markdown tables, with the machines of their measurement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from benchmarks import measure
from benchmarks.datasets import SOURCES
from benchmarks.peers.contract import ESTIMATES, FACTORS, LISTS
from benchmarks.rows import BEST, DEFAULT, GRID, OURS, TUNED, Row, Store

MEASURES = {ESTIMATES: "RMSE", LISTS: "NDCG@10, Recall@20", FACTORS: "relative error"}
HEADER = (
    *("set", "measure", "method", "defaults", "best of a grid", "gap"),
    *("found by tune", "chosen among", "settings of the best"),
)
NONE = "–"
UNITS = (
    "Settings of ours are for values in units of their standard deviation (lists: of their mean). *Gap*: by how much"
    " the defaults are worse than the best. *Chosen among*: settings compared on a tenth of the training part."
)


def defaults_table(store: Store) -> str:
    """One line for each method on each set: its defaults, and the best of its grid if that was measured."""
    lines = [_line(HEADER), _line("---" for _ in HEADER)]
    for name in SOURCES:
        of_set = [row for row in store.rows if row.dataset == name and row.stage in (DEFAULT, GRID, BEST, TUNED)]
        lines += [_line(_cells(method, of_set)) for method in dict.fromkeys(row.method for row in of_set)]
    return "\n".join([*_machines(store), *lines, "", UNITS])


def metrics_table(store: Store, stage: str) -> str:
    """One line for each row of `stage`, with a column for each of its metrics."""
    rows = list({(row.dataset, row.method): row for row in store.rows if row.stage == stage}.values())
    names = list(dict.fromkeys(name for row in rows for name in row.metrics))
    lines = [_line(["set", "algorithm", *names]), _line("---" for _ in range(len(names) + 2))]
    for row in rows:
        lines.append(_line([row.dataset, row.method, *(_measured(row, name) for name in names)]))
    return "\n".join([*_machines(store), *lines])


def number(value: float) -> str:
    """The value with one digit from 100 up, else with four; NaN becomes `NONE`."""
    if math.isnan(value):
        return NONE
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.4f}"


def _measured(row: Row, name: str) -> str:
    value = row.metrics.get(name, math.nan)
    return "failed" if row.note and math.isnan(value) else number(value)


def _cells(method: str, of_set: Sequence[Row]) -> list[str]:
    rows = [row for row in of_set if row.method == method]
    newest = {row.stage: row for row in rows}
    one, best = newest.get(DEFAULT), newest.get(BEST)
    return [
        rows[0].dataset,
        MEASURES[rows[0].task],
        f"**{method}**" if rows[0].kind == OURS else method,
        _values(one),
        _values(best),
        _gap(one, best),
        _values(newest.get(TUNED)),
        _number_of(rows) if best else NONE,
        _settings(best.settings) if best else NONE,
    ]


def _number_of(rows: Sequence[Row]) -> str:
    """Number of compared settings, and of failed ones."""
    tried = {_settings(row.settings): row.note for row in rows if row.stage == GRID}
    failed = sum(map(bool, tried.values()))
    return f"{len(tried)} ({failed} failed)" if failed else str(len(tried))


def _values(row: Row | None) -> str:
    if row is None:
        return NONE
    return row.note[:60] or " ".join(number(row.metrics[name]) for name in measure.METRICS[row.task])


def _gap(one: Row | None, best: Row | None) -> str:
    if one is None or best is None:
        return NONE
    name = measure.METRICS[one.task][0]
    value, goal = one.metrics[name], best.metrics[name]
    if math.isnan(value) or math.isnan(goal) or not goal:
        return NONE
    lost = 1 - value / goal if measure.IS_MORE_BETTER[one.task] else value / goal - 1
    return f"{100 * lost:+.2f} %"


def _settings(settings: dict[str, Any]) -> str:
    return " ".join(_named(settings)) or "the defaults"


def _named(settings: dict[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        yield from _named(value) if isinstance(value, dict) else [f"{name}={value}"]


def _machines(store: Store) -> list[str]:
    lines = [*store.machines, *({"computed on": row.where} for row in store.rows)]
    return list(dict.fromkeys(f"<!-- {line} -->" for line in lines))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
