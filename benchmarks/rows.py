"""Raw results: a row for each fit, in a file of JSON lines, so that a measurement goes on where it was interrupted."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import report

# Stages; a grid is measured on the tenth that settings are chosen by.
DEFAULT, GRID, BEST, TUNED = "defaults", "grid", "best", "tuned"
TRIVIAL, OURS, PEER = "trivial", "ours", "peer"  # kinds of methods


@dataclass(frozen=True)
class Row:
    """One fit.

    Attributes:
        dataset, task: see `benchmarks.datasets`.
        method, kind: what was trained, and whether it is trivial, ours or a peer.
        stage: its defaults, a setting of its grid, the best of these, or what `gpu.training.tune` finds.
        settings: as given, over the defaults.
        parameters: of our algorithms, all of them: a row counts as computed only while the defaults are the same.
        metrics: NaN where `note` says why there are none.
        seconds: of this one fit; of the whole search, where `gpu.training.tune` made one.
        where: what computed it.
        note: what went wrong, or nothing.
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
        """Equal for rows of which one need not be computed."""
        return json.dumps([self.dataset, self.method, self.stage, self.settings, self.parameters], sort_keys=True)


class Store:
    """Rows of a file and those computed since, which are appended to it at once.

    Attributes:
        rows: in the order of the file.
        machines: what the rows were measured on; a record for each run that computed one.
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
        """The rows of several files, to be read only."""
        store = cls(None)
        for path in paths:
            store._read(path)
        return store

    def get(self, wanted: Row, compute: Callable[[], Row]) -> Row:
        """The row with the key of `wanted`, computed if there is none."""
        if wanted.key not in self._computed:
            self._append(compute())
            self._computed[wanted.key] = self.rows[-1]
        return self._computed[wanted.key]

    def add(self, row: Row) -> Row:
        """Store a row, even if there is one with the same key."""
        self._append(row)
        return row

    def has(self, wanted: Row) -> bool:
        """Whether `get` would compute nothing."""
        return wanted.key in self._computed

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
    """JSON has no NaN: null instead."""
    metrics = {name: None if math.isnan(value) else value for name, value in record["metrics"].items()}
    seconds = None if math.isnan(record["seconds"]) else record["seconds"]
    return {**record, "metrics": metrics, "seconds": seconds}


def _with_nan(record: dict[str, Any]) -> dict[str, Any]:
    metrics = {name: math.nan if value is None else value for name, value in record["metrics"].items()}
    return {**record, "metrics": metrics, "seconds": math.nan if record["seconds"] is None else record["seconds"]}
