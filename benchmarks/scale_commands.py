"""Commands that measure trainings on several devices, or on more ratings than fit into memory."""

# ruff: noqa: PLC0415 - a measurement imports only what it needs
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks import options
from benchmarks.options import Json, Parameters, Where, chosen
from benchmarks.report import show

app = typer.Typer()


@app.command()
def distributed(
    ratings: Annotated[Path, typer.Option(help="Folder of raw arrays as cuMF reads them.", metavar="DIR", exists=True)],
    algorithm: Annotated[str, typer.Option(help="Of those that train on several ranks.", metavar="NAME")] = "als",
    ranks: Annotated[str, typer.Option(help="Comma-separated numbers of ranks; the first is the base.")] = "1,2",
    factors: Annotated[str, typer.Option(help="Comma-separated F.")] = "100",
    epochs: Annotated[int, typer.Option(help="Epochs; the median leaves the first out.", min=2)] = 10,
    modes: Annotated[str, typer.Option(help="Of the halves of ALS, items first: gather or reduce.")] = "gather,gather",
    copies: Annotated[int, typer.Option(help="Copies of each user.", min=1)] = 1,
    memory: Annotated[float, typer.Option(help="GB that a rank may take of its device; 0: no bound.", min=0)] = 0.0,
    target: Annotated[float, typer.Option(help="Test RMSE, to tell when it is reached; 0: none.", min=0)] = 0.0,
    set_: Parameters = None,
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Milliseconds of an epoch on several ranks, one device each, its error, and a checksum of what it has learned."""
    from benchmarks import distributed as table

    given = {**options.parameters(set_), "n_epochs": epochs}
    sizes = options.whole(factors), given, options.whole(ranks)
    extent = table.Extent(copies, memory, target)
    show(list(table.run(ratings, algorithm, *sizes, backend, table.modes_of(modes), extent)), json)


@app.command()
def reductions(
    shape: Annotated[str, typer.Option(help="Rows, and numbers of a row: A and b.", metavar="ROWS,N")] = "17770,5150",
    ranks: Annotated[str, typer.Option(help="Comma-separated numbers of ranks.")] = "2,4",
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Milliseconds to add up partial sums of ALS on several ranks in one phase, in two, and by an all-reduce."""
    from benchmarks import reductions as table

    n_rows, n = options.whole(shape)
    show(list(table.run((n_rows, n), options.whole(ranks), backend)), json)


@app.command("out-of-core")
def out_of_core(
    memories: Annotated[str, typer.Option("--memory", help="Comma-separated GB; 0: no bound.")] = "0,8",
    copies: Annotated[int, typer.Option(help="Copies of each user.", min=1)] = 10,
    ratings: Annotated[
        Path | None,
        typer.Option(help="Folder of raw arrays as cuMF reads them. Default: Netflix's shape is drawn.", exists=True),
    ] = None,
    algorithm: Annotated[str, typer.Option(help="als or als-implicit.", metavar="NAME")] = "als",
    factors: Annotated[str, typer.Option(help="Comma-separated F.")] = "100",
    epochs: Annotated[int, typer.Option(help="Epochs; the median leaves the first out.", min=2)] = 6,
    set_: Parameters = None,
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Milliseconds of an epoch of ALS with ratings in memory, and in batches that are loaded within a bound."""
    from benchmarks import out_of_core as table

    given = {**options.parameters(set_), "n_epochs": epochs}
    sizes = options.whole(factors), options.numbers(memories)
    show(list(table.run(ratings, copies, algorithm, *sizes, given, chosen(backend))), json)
