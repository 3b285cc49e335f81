"""`python -m benchmarks`: all measurements of the project, in Markdown, or raw with `--json`.

Further commands: `benchmarks.engine_commands`, `benchmarks.scale_commands`, `benchmarks.service_commands`.
"""

# ruff: noqa: PLC0415 - a measurement imports only what it needs
from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from benchmarks import engine_commands, options, scale_commands, service_commands
from benchmarks.options import Names, Where, chosen
from service import __main__
from service.base import tuning

if TYPE_CHECKING:
    from benchmarks.rows import Store
    from gpu.backend import Backend

app = typer.Typer(name="benchmarks", help=__doc__, add_completion=False, rich_markup_mode=None)

Data = Annotated[
    Path,
    typer.Option("--data", help="Folder with one subfolder for each set.", metavar="DIR", exists=True),
]
Json = Annotated[
    Path | None,
    typer.Option("--json", help="File of JSON lines for raw rows; its rows are not computed again.", metavar="FILE"),
]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Name of a set; may be repeated.", metavar="NAME")]


@app.command()
def defaults(
    data: Data,
    sets: Sets = None,
    part: Annotated[str, typer.Option(help="Part: ours (with trivial baselines), grid, tune, peers, all.")] = "ours",
    peers_python: Annotated[
        Path, typer.Option(help="Interpreter with the peers installed.", metavar="PATH", exists=True)
    ] = Path(sys.executable),
    peer_threads: Annotated[int, typer.Option(help="Threads of a peer.", min=1)] = 1,
    backend: Where = "auto",
    json: Json = None,
) -> None:
    """Compare the shipped defaults on every set with the best of a fixed grid, a trivial method, and peers."""
    from benchmarks import defaults as measurement
    from benchmarks import tables
    from benchmarks.datasets import SOURCES
    from benchmarks.harness import Harness
    from benchmarks.rows import Store

    _check(sets or [], SOURCES, "--set")
    _check([part], (*measurement.PARTS, "all"), "--part")
    parts = measurement.PARTS if part == "all" else (part,)
    store, harness = Store(json), Harness(peers_python.absolute(), peer_threads)
    measurement.run(data, sets or [], parts, chosen(backend), harness, store)
    print(tables.defaults_table(store))


@app.command()
def table(
    files: Annotated[list[Path], typer.Argument(help="Files that --json wrote; their rows are merged.", exists=True)],
) -> None:
    """Print the table of `defaults` from files of raw rows, without computing anything."""
    from benchmarks import tables
    from benchmarks.rows import Store

    print(tables.defaults_table(Store.joined(files)))


@app.command()
def scale(data: Data, algorithms: Names = "als,sgd,culsh,esgd", backend: Where = "auto", json: Json = None) -> None:
    """Test RMSE of the defaults for ratings × 1, × 1/4, × 20 and − 3, in units of the scale, on ml-100k and jester."""
    from benchmarks import scale as measurement

    _measure(measurement, data, algorithms, backend, json)


@app.command()
def dislikes(
    data: Data,
    algorithms: Names = "als-implicit,culsh-implicit,culsh,als,sgd,esgd",
    backend: Where = "auto",
    json: Json = None,
) -> None:
    """Share of a disliked item's nearest neighbors in the next list, and NDCG@10 of liked items, on ml-1m."""
    from benchmarks import dislikes as measurement

    _measure(measurement, data, algorithms, backend, json)


@app.command()
def stream(data: Data, algorithms: Names = "als,sgd,culsh,esgd", backend: Where = "auto", json: Json = None) -> None:
    """Test RMSE after half of ml-1m was learned online, and of the static and the retrained model; ms per batch."""
    from benchmarks import stream as measurement

    _measure(measurement, data, algorithms, backend, json)


@app.command("new-items")
def new_items(
    data: Data,
    algorithms: Names = "als-implicit,als",
    seed: Annotated[int, typer.Option(help="Seed of the new films.")] = 42,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines, the machine first.")] = False,
) -> None:
    """HR@10 and Recall@20 of films of ml-1m that the model was not trained on, with and without their tags."""
    from benchmarks import new_items as table
    from benchmarks.report import show

    show(list(table.run(data, options.algorithms(algorithms), seed)), json)


@app.command()
def explore(
    data: Data,
    sets: Sets = None,
    algorithms: Names = "als-implicit,als,culsh,culsh-implicit",
    seed: Annotated[int, typer.Option(help="Seed of the items with few ratings.")] = 42,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines, the machine first.")] = False,
) -> None:
    """Hits of the first explored items, by score, with the bonus, and by fewest ratings, on ml-100k and lastfm."""
    from benchmarks import explore as table
    from benchmarks.report import show

    _check(sets or [], table.SETS, "--set")
    show(list(table.run(data, sets or list(table.SETS), options.algorithms(algorithms), seed)), json)


class Measurement(Protocol):
    """A module with one row for each set and algorithm."""

    STAGE: str

    def run(self, data: Path, algorithms: Sequence[str], backend: Backend, store: Store) -> None:
        """Put the rows into `store`."""


def _measure(measurement: Measurement, data: Path, algorithms: str, backend: str, json: Path | None) -> None:
    from benchmarks import tables
    from benchmarks.rows import Store

    store = Store(json)
    measurement.run(data, options.algorithms(algorithms), chosen(backend), store)
    print(tables.metrics_table(store, measurement.STAGE))


def _check(names: Sequence[str], choices: Collection[str], option: str) -> None:
    for name in names:
        if name not in choices:
            raise typer.BadParameter(f"expected one of {', '.join(choices)}, got {name!r}", param_hint=option)


for more in (engine_commands.app, scale_commands.app, service_commands.app):
    app.add_typer(more)  # without a name, so that its commands are at the top level too


def run(arguments: Sequence[str]) -> int:
    """Run one measurement; returns the exit status."""
    return __main__.run(arguments, app, "python -m benchmarks")


if __name__ == "__main__":
    tuning.configure()
    sys.exit(run(sys.argv[1:]))
