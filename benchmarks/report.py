"""Prints measurements as a Markdown table or JSON lines, with the command, the machine and the commit."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from service.cli.console import stderr


def say(text: str) -> None:
    """Print a line about progress on stderr."""
    stderr.print(text, style="dim", markup=False)


def show(rows: Sequence[Any], as_json: bool) -> None:
    """Print dataclass rows as a Markdown table, or as a JSON line each, after a line about the machine."""
    records = [dataclasses.asdict(row) for row in rows]
    if as_json:
        for record in [machine(), *records]:
            print(json.dumps(record), flush=True)  # noqa: T201 - the result itself
        return
    lines = [f"<!-- {machine()} -->", _line(records[0]), _line("---" for _ in records[0])]
    lines += [_line(_readable(value) for value in record.values()) for record in records]
    print("\n".join(lines), flush=True)  # noqa: T201 - the result itself


def machine() -> dict[str, str]:
    """The conditions of a measurement: command, processor, cores, Python, commit."""
    return {
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError:
        return "no git"
    return answer.stdout.strip() or "not a checkout"


def _line(cells: Any) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _readable(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        digits = 5 if 0 < abs(value) < 0.01 else 4 if abs(value) < 10 else 1
        return f"{value:,.{digits}f}"
    if isinstance(value, tuple):
        return " ".join(_readable(part) for part in value)
    return str(value)
