"""`nearfield bench`: one command a table of docs/performance.md; a Markdown table, or JSON lines with `--json`."""

# ruff: noqa: PLC0415 - a measurement imports only what it needs
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from service.bench.report import show

app = typer.Typer(
    name="nearfield bench", help=__doc__, no_args_is_help=True, add_completion=False, rich_markup_mode=None
)

File = Annotated[Path, typer.Option("--ratings", help="File of ratings.", metavar="FILE", exists=True)]
Json = Annotated[bool, typer.Option("--json", help="JSON lines; the machine first.")]
Names = Annotated[str, typer.Option("--algorithms", help="Comma-separated names.")]


@app.command()
def accuracy(
    ratings: File,
    test_fraction: Annotated[float, typer.Option(help="Share held out.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 42,
    size: Annotated[int, typer.Option(help="F and K of the comparison.")] = 32,
    folds: Annotated[int, typer.Option(help="Instead: the defaults on so many disjoint test sets.")] = 0,
    json: Json = False,
) -> None:
    """Test RMSE of CULSH-MF by each way of finding neighbours, without any, and with the shipped defaults."""
    from service.bench import accuracy as table

    if folds:
        show(list(table.folds(ratings, folds)), json)
    else:
        show(list(table.run(ratings, test_fraction, seed, {"n_factors": size, "n_neighbours": size})), json)


@app.command()
def epoch(
    ratings: File,
    n_factors: Annotated[int, typer.Option(help="F.")] = 64,
    n_epochs: Annotated[int, typer.Option(help="Epochs to take the median of.")] = 7,
    json: Json = False,
) -> None:
    """Seconds per epoch of CUSGD++ beside LIBMF, where the package `libmf` is installed."""
    from service import offline, ratings_file
    from service.bench import epoch as table

    data = offline.Data.split(ratings_file.read(ratings), 0.0, 0)
    show(list(table.run(data.train, n_factors, n_epochs)), json)


@app.command()
def ranking(
    ratings: File,
    seed: Annotated[int, typer.Option(help="Seed of the splits.")] = 42,
    algorithms: Names = "culsh,culsh-implicit",
    json: Json = False,
) -> None:
    """NDCG@10, Recall@20 and HR@10 of the most popular items, of each algorithm, and of what is served by default."""
    from service.bench import ranking as table

    show(list(table.run(ratings, seed, algorithms.split(","))), json)


@app.command()
def prequential(
    ratings: File,
    algorithm: Annotated[str, typer.Option(help="What to train.")] = "culsh",
    json: Json = False,
) -> None:
    """RMSE of estimates made before each rating is known: online learning between none and full retraining."""
    from service.bench import prequential as table

    show(list(table.run(ratings, algorithm)), json)


@app.command()
def http(
    ratings: File,
    algorithms: Names = "culsh-implicit",
    seconds: Annotated[float, typer.Option(help="Length of a round.")] = 4.0,
    rounds: Annotated[int, typer.Option(help="Rounds to take the median of.")] = 5,
    json: Json = False,
) -> None:
    """Throughput of GET /recommend and POST /ratings beside bare routes of the same libraries."""
    from service.bench import http as table

    show(table.run(ratings, algorithms.split(","), seconds, rounds), json)


@app.command()
def start(ratings: File, algorithms: Names = "culsh-implicit,culsh", json: Json = False) -> None:
    """Seconds until ready with an empty and a warm compile cache, and resident memory of API and Redis."""
    from service.bench import start as table

    show(list(table.run(ratings, algorithms.split(","))), json)


def main(arguments: Sequence[str]) -> int:
    """Run one measurement; errors are handled by the caller."""
    return app(list(arguments), prog_name="nearfield bench", standalone_mode=False) or 0
