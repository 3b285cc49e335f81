"""What the command line shows: results on stdout, progress and complaints on stderr, JSON lines where asked for."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

stderr = Console(stderr=True, highlight=False)
BAD_USAGE, FAILED = 2, 1


class Printer:
    """Prints records: one JSON object a line, or readable text."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def line(self, record: Mapping[str, Any]) -> None:
        """Print `record` at once, so that a reader of a pipe sees it when it happens."""
        text = _json(record) if self.as_json else "  ".join(f"{k} {_readable(v)}" for k, v in record.items())
        print(text, flush=True)


@contextmanager
def progress(title: str, total: int) -> Iterator[Bar]:
    """A progress bar on stderr while the block runs; nothing where stderr is not a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    shares_terminal = sys.stdout.isatty()  # else what is printed meanwhile must reach stdout as it is
    with Progress(
        *columns, console=stderr, transient=True, disable=not stderr.is_terminal, redirect_stdout=shares_terminal
    ) as bars:
        yield Bar(bars, bars.add_task(title, total=total, note=""))


class Bar:
    """One bar of `progress`."""

    def __init__(self, bars: Progress, task: Any) -> None:
        self._bars, self._task = bars, task

    def advance(self, n: int = 1, note: str = "") -> None:
        """Move on by `n` and show `note` behind the bar."""
        self._bars.update(self._task, advance=n, note=note)

    def reach(self, n: float, note: str = "") -> None:
        """Move to `n` and show `note` behind the bar."""
        self._bars.update(self._task, completed=n, note=note)


def complain(message: str, code: int) -> int:
    """Say what went wrong in one line on stderr; returns `code`, the exit status."""
    print(f"nearfield: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return code


def _json(record: Mapping[str, Any]) -> str:
    """One line of JSON, which has no NaN: what could not be measured is null."""
    is_nan = {name: isinstance(value, float) and math.isnan(value) for name, value in record.items()}
    return json.dumps({name: None if is_nan[name] else value for name, value in record.items()})


def _readable(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.4f}" if isinstance(value, float) else str(value)
