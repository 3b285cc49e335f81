"""Stores a row for each fit in a file of JSON lines, so that an interrupted measurement can continue."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import report

# Stages; rows of a grid are measured on the tenth that chooses settings.
DEFAULT, GRID, BEST, TUNED = "defaults", "grid", "best", "tuned"
TRIVIAL, OURS, PEER = "trivial", "ours", "peer"  # kinds of methods


@dataclass(frozen=True)
class Row:
    """One fit.

    Attributes:
        dataset, task: see `benchmarks.datasets`.
        method, kind: name of the method; whether it is trivial, ours or a peer.
        stage: the defaults, a setting of the grid, the best of these, or the result of `gpu.training.tune`.
        settings: parameters that replace defaults.
        parameters: all parameters of one of our algorithms, so that changed defaults invalidate the row.
        metrics: NaN after a failure, which `note` explains.
        seconds: time of this fit, or of the whole search of `gpu.training.tune`.
        where: hardware of the fit.
        note: the failure, or "".
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
    parameters: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def key(self) -> str:
        """Rows with equal keys are computed once."""
        return json.dumps([self.dataset, self.method, self.stage, self.settings, self.parameters], sort_keys=True)


class Store:
    """The rows of a file, and rows computed in this run, which are appended to the file at once.

    Attributes:
        rows: all rows in the order of the file.
        machines: a record of the machine for each run that has computed a row.
    """

    def __init__(self, path: Path | None) -> None:
        self.rows: list[Row] = []
        self.machines: list[dict[str, str]] = []
        self._path, self._is_named = path, False
        if path is not None and path.exists():
            self._read(path)
        self._computed = {row.key: row for row in self.rows}

    @classmethod
    def joined(cls, paths: Iterable[Path]) -> Store:
        """A store of the rows of several files that writes to none of them."""
        store = cls(None)
        for path in paths:
            store._read(path)
        return store

    def get(self, blank: Row, compute: Callable[[], Row]) -> Row:
        """The stored row with the key of `blank`; without one, compute it and store it."""
        if blank.key not in self._computed:
            self._append(compute())
            self._computed[blank.key] = self.rows[-1]
        return self._computed[blank.key]

    def add(self, row: Row) -> Row:
        """Store a row, even if one with the same key exists."""
        self._append(row)
        return row

    def has(self, blank: Row) -> bool:
        """Whether a row with the key of `blank` is stored."""
        return blank.key in self._computed

    def _append(self, row: Row) -> None:
        if not self._is_named:
            self.machines.append(report.machine())
            self._write({"machine": self.machines[-1]})
            self._is_named = True
        self.rows.append(row)
        self._write(_without_nan(dataclasses.asdict(row)))

    def _write(self, record: dict[str, Any]) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def _read(self, path: Path) -> None:
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            if "machine" in record:
                self.machines.append(record["machine"])
            else:
                self.rows.append(Row(**_with_nan(record)))


def _without_nan(record: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN by None, because JSON has no NaN."""
    metrics = {name: None if math.isnan(value) else value for name, value in record["metrics"].items()}
    seconds = None if math.isnan(record["seconds"]) else record["seconds"]
    return {**record, "metrics": metrics, "seconds": seconds}


def _with_nan(record: dict[str, Any]) -> dict[str, Any]:
    metrics = {name: math.nan if value is None else value for name, value in record["metrics"].items()}
    return {**record, "metrics": metrics, "seconds": math.nan if record["seconds"] is None else record["seconds"]}
