"""How results are said: rows as a Markdown table or as JSON lines, and files of fits that a later run continues."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from service.cli.console import stderr

NONE = "–"
Row = dict[str, Any]  # name -> figure; docs/benchmarks.md says what each is


def say(text: str) -> None:
    """Print a line about progress on stderr."""
    stderr.print(text, style="dim", markup=False)


def put(text: str) -> None:
    """Print a result on stdout."""
    print(text, flush=True)  # noqa: T201 - the result itself


class ForPictures(Row):
    """A row that JSON lines have, and tables have not."""


def show(rows: Iterable[Row], as_json: bool) -> None:
    """Print rows: as a JSON line each as they come, after one about the machine; or as Markdown.

    Rows with the same figures are in one table.
    """
    if as_json:
        put(json.dumps(machine()))
        for row in rows:
            put(json.dumps(row))
        return
    tables: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if not isinstance(row, ForPictures):
            tables.setdefault(tuple(row), []).append(row)
    for names, of_table in tables.items():
        put("\n".join([f"<!-- {machine()} -->", *markdown(names, (row.values() for row in of_table))]))


def markdown(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    """The lines of a table."""
    cells = [list(header)]
    cells += [["---"] * len(cells[0]), *([readable(value) for value in row] for row in rows)]
    return [f"| {' | '.join(row)} |" for row in cells]


def readable(value: Any) -> str:
    """A value as a table has it: four digits of small numbers, five of tiny ones, one of large ones."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NONE
    if isinstance(value, float):
        digits = 5 if 0 < abs(value) < 0.01 else 4 if abs(value) < 10 else 1
        return f"{value:,.{digits}f}"
    return " ".join(map(readable, value)) if isinstance(value, tuple) else str(value)


def machine() -> dict[str, str]:
    """The conditions of a measurement: command, processor, cores, Python, commit."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    except FileNotFoundError:
        commit = ""
    return {
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
        "processor": names[0] if names else platform.machine(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "commit": commit or "not a checkout",
    }


class Fit(NamedTuple):
    """One fit of a method to a set.

    `kind` is trivial, ours or peer. `stage` is defaults, grid (a setting of the grid, measured on the tenth that
    chooses), best (of these), tuned (by `gpu.training.tune`), or another measurement. `settings` replace defaults.
    `parameters` has all of ours, so that changed defaults invalidate the row. `metrics` are NaN after a failure, which
    `note` explains. `seconds` are those of this fit, or of the whole search. `where` is the hardware.
    """

    dataset: str
    task: str
    method: str
    kind: str
    stage: str
    settings: dict[str, Any]
    metrics: dict[str, float]
    seconds: float
    where: str
    parameters: dict[str, Any]
    note: str = ""

    @property
    def key(self) -> str:
        """Fits with equal keys are computed once."""
        return json.dumps([self.dataset, self.method, self.stage, self.settings, self.parameters], sort_keys=True)


class Store:
    """The fits of files, and those computed in this run, which are appended to the first file at once.

    Attributes:
        rows: all fits in the order of the files.
        machines: a record of the machine for each run that has computed a fit.
    """

    def __init__(self, path: Path | None, *others: Path) -> None:
        self.rows: list[Fit] = []
        self.machines: list[dict[str, str]] = []
        self._path, self._is_named = path, False
        for file in (path, *others):
            for line in file.read_text("utf-8").splitlines() if file is not None and file.exists() else ():
                record = json.loads(line)
                if "machine" in record:
                    self.machines.append(record["machine"])
                else:
                    numbers = {name: math.nan if value is None else value for name, value in record["metrics"].items()}
                    seconds = math.nan if record["seconds"] is None else record["seconds"]  # JSON has no NaN
                    self.rows.append(Fit(**{**record, "metrics": numbers, "seconds": seconds}))
        self._computed = {row.key: row for row in self.rows}

    def get(self, blank: Fit, compute: Callable[[], Fit]) -> Fit:
        """The stored fit with the key of `blank`; without one, compute it and store it."""
        if blank.key not in self._computed:
            self._computed[blank.key] = self.add(compute())
        return self._computed[blank.key]

    def add(self, row: Fit) -> Fit:
        """Store a fit, even if one with the same key exists."""
        if not self._is_named:
            self.machines.append(machine())
            self._write({"machine": self.machines[-1]})
            self._is_named = True
        self.rows.append(row)
        numbers = {name: None if math.isnan(value) else value for name, value in row.metrics.items()}
        self._write({**row._asdict(), "metrics": numbers, "seconds": None if math.isnan(row.seconds) else row.seconds})
        return row

    def conditions(self) -> list[str]:
        """A comment for each machine, for the head of a table."""
        lines = [*self.machines, *({"computed on": row.where} for row in self.rows)]
        return list(dict.fromkeys(f"<!-- {line} -->" for line in lines))

    def put_metrics(self, stage: str) -> None:
        """Print a line for each fit of `stage`, with a column for each of its metrics; failed ones have none."""
        rows: Sequence[Fit] = list({(row.dataset, row.method): row for row in self.rows if row.stage == stage}.values())
        names = list(dict.fromkeys(name for row in rows for name in row.metrics))
        cells = [(row.dataset, row.method, *(row.metrics.get(name) for name in names)) for row in rows]
        put("\n".join([*self.conditions(), *markdown(["set", "algorithm", *names], cells)]))

    def _write(self, record: dict[str, Any]) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
