"""Output of the command line: results on stdout, as text or JSON lines; progress and errors on stderr."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

stderr = Console(stderr=True, highlight=False)
BAD_USAGE, FAILED = 2, 1
TOLD_EVERY_S = 2.0  # of lines that stand for a bar
N_BAD_SHOWN = 10  # bad lines that are named one by one


class Printer:
    """Prints records, one per line, as JSON or as text."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def line(self, record: Mapping[str, Any]) -> None:
        """Print `record` and flush, so that a reader of a pipe sees it at once."""
        cells = []
        for name, value in record.items():
            if isinstance(value, list):
                cells.append(f"{name} {', '.join(map(str, value))}")
            else:
                cells.append(f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {value}")
        self.report(record, "  ".join(cells))

    def report(self, record: Mapping[str, Any], text: str) -> None:
        """Print `record` as JSON, or else `text`, which says the same in several lines."""
        if self.as_json:  # which has no NaN: it becomes null
            is_nan = {name: isinstance(value, float) and math.isnan(value) for name, value in record.items()}
            text = json.dumps({name: None if is_nan[name] else value for name, value in record.items()})
        print(text, flush=True)


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Bar]:
    """Show a progress bar on stderr while the block runs, if stderr is a terminal. `total` None: it is not known."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    shares_terminal = sys.stdout.isatty()  # a pipe must get the printed lines unchanged
    with Progress(
        *columns, console=stderr, transient=True, disable=not stderr.is_terminal, redirect_stdout=shares_terminal
    ) as bars:
        yield Bar(bars, bars.add_task(title, total=total, note=""))


class Bar:
    """One bar of `progress`."""

    def __init__(self, bars: Progress, task: Any) -> None:
        self._bars, self._task = bars, task
        self._n_bytes, self._told, self._told_s = 0, "", -TOLD_EVERY_S

    def advance(self, n: int = 1, note: str = "") -> None:
        """Advance by `n` and show `note` after the bar."""
        self._bars.update(self._task, advance=n, note=note)

    def expect(self, total: int) -> None:
        """Make the bar end at `total`."""
        self._bars.update(self._task, total=total)

    def advance_of(self, n: int, total: int | None) -> None:
        """Advance by `n` of `total`, which may have become known by now."""
        self._bars.update(self._task, advance=n, total=total)

    def advance_bytes(self, n: int) -> None:
        """Show how many bytes there are, `n` more than before."""
        self._n_bytes += n
        self._bars.update(self._task, advance=n, note=f"{self._n_bytes / 2**20:,.0f} MiB")

    def reach(self, n: float, note: str = "") -> None:
        """Advance to `n` and show `note` after the bar."""
        self._bars.update(self._task, completed=n, note=note)

    def begin(self, phase: str) -> None:
        """Show that a phase begins: after the bar, or as a line of its own if stderr is no terminal."""
        if self._bars.disable:
            print(f"{self._bars.tasks[0].description.strip()}: {phase}", file=sys.stderr, flush=True)
        self._bars.update(self._task, note=phase)

    def tell(self, n: float, note: str) -> None:
        """Advance to `n` and show `note`: after the bar, or as a line of its own if stderr is no terminal."""
        now_s = time.monotonic()
        if self._bars.disable and note != self._told and now_s - self._told_s >= TOLD_EVERY_S:
            print(f"{self._bars.tasks[0].description.strip()}: {note}", file=sys.stderr, flush=True)
            self._told, self._told_s = note, now_s
        self.reach(n, note)


def describe(name: str, columns: str, bad: Sequence[Any]) -> None:
    """Show on stderr what the columns of a file mean, and its bad lines (`service.cli.files.ratings_text.BadLine`)."""
    stderr.print(f"{name}: {columns}", style="dim", markup=False, soft_wrap=True)
    for line in bad[:N_BAD_SHOWN]:
        complain(f"left out line {line.number} of {name}: {line.reason}", 0)
    if len(bad) > N_BAD_SHOWN:
        complain(f"left out {len(bad):,} lines of {name} in all", 0)


def complain(message: str, code: int) -> int:
    """Print `message` as one line on stderr; return `code`, the exit status."""
    print(f"nearfield: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return code
