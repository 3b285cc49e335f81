"""Commands that measure the service as it runs: lists, growth, load, exports, throughput, start."""

# ruff: noqa: PLC0415 - a measurement imports only what it needs
from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import options
from benchmarks.options import File, Json, Names, Parameters, Where, chosen
from benchmarks.report import show

app = typer.Typer()


@app.command()
def topn(
    items: Annotated[str, typer.Option(help="Comma-separated sizes of the catalog.")] = "10000,100000,1000000",
    users: Annotated[str, typer.Option(help="Comma-separated numbers of users per call.")] = "1,64,1024",
    n: Annotated[str, typer.Option("--n", help="Comma-separated lengths of the lists.")] = "10",
    factors: Annotated[str, typer.Option(help="Comma-separated numbers of factors F.")] = "64",
    neighbors: Annotated[str, typer.Option(help="Comma-separated numbers of neighbors K; 0 for none.")] = "0",
    rated: Annotated[
        str, typer.Option(help="Comma-separated numbers of rated items per user; lists exclude them.")
    ] = "50",
    eligible: Annotated[
        str, typer.Option(help="Comma-separated shares of the items that pass a filter; 1 for no filter.")
    ] = "1",
    backend: Where = "auto",
    devices: Annotated[
        str,
        typer.Option(help="Comma-separated devices that share the items, measured beside one; 0,0: two parts on one."),
    ] = "",
    json: Json = False,
) -> None:
    """Milliseconds of a batch of exact lists from random factors; on the host also of `implicit`."""
    from benchmarks import topn as table

    axes = [options.whole(text) for text in (items, factors, neighbors, users, n, rated)]
    shapes = [
        table.Shape(size, batch, length, f, k, history, share)
        for size, f, k, batch, length, history in itertools.product(*axes)
        for share in options.numbers(eligible)
    ]
    shared, selected = tuple(options.whole(devices)), chosen(backend)
    if shared and selected.name != "device":
        raise typer.BadParameter("--devices needs the backend device")
    show(list(table.run(shapes, selected, shared)), json)


@app.command()
def ab(
    ratings: File,
    models: Annotated[str, typer.Option(help="Comma-separated algorithms, the arms.")] = "als-implicit,culsh-implicit",
    like: Annotated[float, typer.Option(help="Lowest rating that is a like.")] = 4.0,
    trained: Annotated[float, typer.Option(help="Share of the ratings, the oldest, that are learned first.")] = 0.5,
    json: Json = False,
) -> None:
    """Shares of users with hits in the lists of two models, in the order of time, by the service's own figures."""
    from benchmarks import ab as table

    show(list(table.run(ratings, models.split(","), like, trained)), json)


@app.command()
def growth(
    algorithm: Annotated[str, typer.Option(help="Algorithm of the model.")] = "als-implicit",
    n_factors: Annotated[int, typer.Option(help="Number of factors F.")] = 64,
    n_users: Annotated[int, typer.Option(help="Users at the end.", min=1)] = 1_000_000,
    n_items: Annotated[int, typer.Option(help="Items at the end.", min=1)] = 100_000,
    n_ratings: Annotated[int, typer.Option(help="Ratings at the end.", min=1)] = 10_000_000,
    json: Json = False,
) -> None:
    """Milliseconds that the engine is blocked by each batch while users, items and ratings are added."""
    from benchmarks import growth as table

    show(list(table.run(algorithm, n_factors, n_users, n_items, n_ratings, 5)), json)


@app.command()
def catalog(
    items: Annotated[int, typer.Option(help="Items with attributes.", min=1)] = 1_000_000, json: Json = False
) -> None:
    """Milliseconds of the engine for changes of items, and to compile and use filters."""
    from benchmarks import catalog as table

    show(list(table.run(items)), json)


@app.command()
def rules(
    items: Annotated[int, typer.Option(help="Number of items.", min=10)] = 100_000,
    n_factors: Annotated[int, typer.Option(help="Number of factors F.")] = 64,
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Milliseconds of a list with boosts, pins, max_per, diversity or exploration, beside a plain one."""
    from benchmarks import rules as table

    show(list(table.run(items, n_factors, chosen(backend))), json)


@app.command()
def events(
    n_users: Annotated[int, typer.Option(help="Number of users.", min=1)] = 20_000,
    n_items: Annotated[int, typer.Option(help="Number of items.", min=1)] = 5_000,
    n_ratings: Annotated[int, typer.Option(help="Ratings before.", min=1)] = 1_000_000,
    json: Json = False,
) -> None:
    """Processor milliseconds to parse and to learn a body of 1,000 events, with and without ids, beside ratings."""
    from benchmarks import events as table

    show(list(table.run(n_users, n_items, n_ratings)), json)


@app.command()
def plant(
    data: Annotated[Path, typer.Option(help="Folder to fill.", metavar="DIR")],
    users: Annotated[int, typer.Option(help="Number of users U.", min=1)] = 1_000_000,
    items: Annotated[int, typer.Option(help="Number of items I.", min=1)] = 1_000_000,
    ratings: Annotated[int, typer.Option(help="Ratings in the history.", min=1)] = 20_000_000,
    algorithm: Annotated[str, typer.Option(help="Algorithm of the live model.")] = "culsh",
    set_: Parameters = None,
    seed: Annotated[int, typer.Option(help="Seed of all random values.")] = 0,
    json: Json = False,
) -> None:
    """Fill a data folder with a synthetic model and history of any size, for `python -m loadtest --data`."""
    from benchmarks import plant as planting
    from gpu.params import params_for

    settings = options.parameters(set_)
    show([planting.plant(data, params_for(algorithm, settings), users, items, ratings, seed)], json)


@app.command()
def lists(
    data: Annotated[Path, typer.Option(help="Folder that `plant` has filled.", metavar="DIR", exists=True)],
    n: Annotated[int, typer.Option("--n", help="Length of the lists.", min=1)] = 50,
    users: Annotated[int, typer.Option(help="Users to list for.", min=1)] = 100_000,
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Users per second of the job that lists for all users (`POST /admin/lists`)."""
    from benchmarks import lists as table

    show([table.run(data, n, users, chosen(backend))], json)


@app.command()
def export(
    n_ratings: Annotated[int, typer.Option(help="Synthetic ratings in the history.", min=1000)] = 10_000_000,
    rate: Annotated[float, typer.Option(help="Requests per second, half of them reads.", min=1)] = 500.0,
    seconds: Annotated[float, typer.Option(help="Seconds of a phase without an export.", min=1)] = 20.0,
    formats: Annotated[str, typer.Option(help="Comma-separated formats.")] = "ndjson,parquet,arrow",
    json: Json = False,
) -> None:
    """Milliseconds of reads, writes and freshness while all ratings are exported, and before and after; rows/s."""
    from benchmarks import export as table

    show(list(table.run(n_ratings, rate, seconds, formats.split(","))), json)


@app.command()
def place(
    users: Annotated[int, typer.Option(help="Number of users U.", min=1)] = 10_000_000,
    items: Annotated[int, typer.Option(help="Number of items I.", min=1)] = 1_000_000,
    ratings: Annotated[int, typer.Option(help="Ratings in the table.", min=1)] = 5_000_000,
    new_items: Annotated[int, typer.Option(help="Items that are new to the model.", min=0)] = 0,
    changes: Annotated[int, typer.Option(help="Ratings per batch.", min=1)] = 1000,
    algorithm: Annotated[str, typer.Option(help="Algorithm of the model.")] = "culsh",
    set_: Parameters = None,
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Load a synthetic model onto a backend: seconds, memory, and milliseconds of a read and of a batch of ratings."""
    from benchmarks import place as table
    from gpu.params import params_for

    settings = options.parameters(set_)
    sizes = table.Sizes(users, items, new_items, ratings, changes)
    show([table.run(params_for(algorithm, settings), sizes, chosen(backend))], json)


@app.command()
def http(
    ratings: File,
    algorithms: Names = "als-implicit",
    seconds: Annotated[float, typer.Option(help="Seconds per round.")] = 4.0,
    rounds: Annotated[int, typer.Option(help="Number of rounds, whose median is shown.")] = 5,
    json: Json = False,
) -> None:
    """Throughput of GET /recommend and POST /ratings, and of bare routes of the same libraries."""
    from benchmarks import http as table

    show(table.run(ratings, options.algorithms(algorithms), seconds, rounds), json)


@app.command()
def console(
    ratings: File,
    algorithm: Annotated[str, typer.Option(help="Algorithm of the model.")] = "als-implicit",
    pages: Annotated[int, typer.Option(help="Open pages.", min=1)] = 1,
    seconds: Annotated[float, typer.Option(help="Seconds per round.")] = 6.0,
    rounds: Annotated[int, typer.Option(help="Number of rounds, whose median is shown.")] = 5,
    json: Json = False,
) -> None:
    """Throughput of GET /recommend without and with open overviews of the console."""
    from benchmarks import console as table

    show(table.run(ratings, algorithm, pages, seconds, rounds), json)


@app.command()
def start(ratings: File, algorithms: Names = "als-implicit,culsh", json: Json = False) -> None:
    """Seconds until ready with an empty and a warm compile cache, and resident memory of API and Redis."""
    from benchmarks import start as table

    show(list(table.run(ratings, options.algorithms(algorithms))), json)
