"""`python -m benchmarks papers`: the measurements of docs/papers.md that this machine can make, made again.

The page is the only list of them. A row is measured if its command is one of `benchmarks` and names figures, its data
exist, and a device is there if it asks for one.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from benchmarks.__main__ import run
from benchmarks.options import Data
from benchmarks.results import Row, readable, say
from benchmarks.running import BenchFailed
from gpu.base.backend import choose
from gpu.base.errors import InvalidInput

PAGE = Path(__file__).parents[1] / "docs" / "papers.md"
# Word of the page -> file or folder within the data folder; `make-ratings` draws the folders.
DATA = {
    "M1": "ml-1m/ratings.csv", "M100K": "ml-100k/u.data", "TDT2": "tdt2/TDT2_all.mat", "FACES": "faces/ORL.mat",
    "NETFLIX": "netflix", "ML10M": "ml10m", "PART": "netflix-50000x2000",
}  # fmt: skip


class Line(NamedTuple):
    """A line of a table of the page; without `commands` and `figures` if none measures it."""

    paper: str
    part: str
    measures: str
    commands: list[str]
    figures: list[str]
    theirs: str
    why: str


def papers(
    data: Data,
    names: Annotated[
        list[str] | None, typer.Argument(help="Papers, such as 003. Default: all.", metavar="PAPER")
    ] = None,
) -> Iterator[Row]:
    """The tables of docs/papers.md with figures of this machine, without the rows that it cannot measure."""
    lines = lines_of(PAGE.read_text("utf-8"))
    known = sorted({line.paper for line in lines})
    for name in names or ():
        if name not in known:
            raise InvalidInput(f"Invalid paper: expected some of {', '.join(known)}, got {name!r}")
    for line in (one for one in lines if one.paper in (names or known)):
        if reason := obstacle(line, data):
            say(f"[{line.paper}] {line.part}: not measured: {reason}")
            continue
        rows: list[dict[str, Any]] = []
        for command in line.commands:
            say(f"[{line.paper}] {line.part}: {command}")
            arguments, text = [_path(word, data) for word in shlex.split(command)], io.StringIO()
            with contextlib.redirect_stdout(text):
                status = run([*arguments, "--json"])
            if status:
                raise BenchFailed(f"`{command}` ended with status {status}")
            rows += [json.loads(row) for row in text.getvalue().splitlines()[1:]]
        yield {
            "paper": line.paper, "part": line.part, "measures": line.measures, "command": "; ".join(line.commands),
            "theirs": line.theirs, "ours": told(rows, line.figures), "why it differs": line.why,
        }  # fmt: skip


def lines_of(page: str) -> list[Line]:
    """The lines of all tables of the page."""
    lines = []
    for paper, section in re.findall(r"^## \[(\d+)\]\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL):
        for row in re.findall(r"^\|(?! part | ---)(.*)\|$", section, re.MULTILINE):
            part, measures, how, theirs, _, why = (cell.strip() for cell in row.split("|"))
            commands, _, figures = how.partition(" → ")
            found = re.findall(r"`python -m benchmarks ([^`]+)`", commands) if figures else []
            lines.append(Line(paper, part, measures, found, re.findall(r"`([^`]+)`", figures), theirs, why))
    return lines


def obstacle(line: Line, data: Path) -> str | None:
    """Why a line cannot be measured here; None if it can."""
    words = [word for command in line.commands for word in shlex.split(command)]
    if not words:
        return "no command of benchmarks measures it"
    for word in words:
        if word in DATA and not (data / DATA[word]).exists():
            return f"no {DATA[word]} in {data}"
    return "no device" if "device" in words and choose("auto").name != "device" else None


def _path(word: str, data: Path) -> str:
    return str(data / DATA[word]) if word in DATA else word


def told(rows: list[dict[str, Any]], figures: list[str]) -> str:
    """These figures of each row that has the last of them."""
    of_rows = ([readable(row[name]) for name in figures if name in row] for row in rows if figures[-1] in row)
    return "; ".join(" ".join(figures_of_row) for figures_of_row in of_rows)
