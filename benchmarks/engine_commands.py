"""Commands that measure the engine: each prints a table of docs/performance.md, or JSON lines with `--json`."""

# ruff: noqa: PLC0415 - a measurement imports only what it needs
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks import options
from benchmarks.options import File, Json, Names, Parameters, Seeds, Source, Where, chosen
from benchmarks.report import show
from gpu.errors import InvalidInput

if TYPE_CHECKING:
    import gpu

app = typer.Typer()


@app.command()
def accuracy(
    ratings: Source,
    factors: Annotated[str, typer.Option(help="Comma-separated numbers of factors F.")] = "32,128",
    neighbors: Annotated[int, typer.Option(help="Number of neighbors K.")] = 32,
    seeds: Seeds = "0,1,2",
    folds: Annotated[
        int, typer.Option(help="Number of disjoint test sets of a file: measures the defaults on each of them instead.")
    ] = 0,
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Test RMSE of CULSH-MF with each similarity, its time and memory, of SGD without neighbors, and of ALS.

    A tenth of a file is held out.
    """
    from benchmarks import accuracy as table

    if folds:
        show(list(table.folds(_folds(ratings, folds), backend)), json)
    else:
        train, test = _train_and_test(ratings)
        show(list(table.run(train, test, options.whole(factors), neighbors, options.whole(seeds), backend)), json)


@app.command()
def noise(ratings: Source, seeds: Seeds = "0,1,2,3,4", backend: Where = "auto", json: Json = False) -> None:
    """Shift of the test RMSE of `sgd` and `culsh` if 1 %, 0.5 % or 0.1 % of the training ratings are random.

    A tenth of a file is held out.
    """
    from benchmarks import noise as table

    show(list(table.run(*_train_and_test(ratings), options.whole(seeds), backend)), json)


@app.command()
def newcomers(
    ratings: Source,
    algorithms: Names = "culsh",
    factors: Annotated[str, typer.Option(help="Comma-separated numbers of factors F.")] = "128,32",
    seeds: Seeds = "0,1,2,3,4",
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Test RMSE after 1 % of the users and items were learned online, and after retraining on everything.

    A tenth of a file is held out.
    """
    from benchmarks import newcomers as table

    train, test = _train_and_test(ratings)
    show(
        list(
            table.run(
                train, test, options.algorithms(algorithms), options.whole(factors), options.whole(seeds), backend
            )
        ),
        json,
    )


@app.command()
def sgd(
    ratings: Source,
    algorithms: Names = "sgd,culsh,culsh-implicit,esgd",
    factors: Annotated[str, typer.Option(help="Comma-separated numbers of factors F.")] = "32,128",
    epochs: Annotated[int, typer.Option(help="Epochs; the median excludes the first.", min=2)] = 20,
    target: Annotated[float, typer.Option(help="RMSE, or HR@10, whose time is measured.")] = float("nan"),
    set_: Parameters = None,
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Milliseconds of an epoch of each algorithm, their floor on an H100, and its error; on the host also LIBMF.

    A tenth of a file is held out; implicit models learn all but one rating of each user.
    """
    from benchmarks import sgd as table

    settings = {**options.parameters(set_), "n_epochs": epochs}
    data = lambda: table.Estimates(*_train_and_test(ratings)), lambda: table.Lists(_matrix(ratings, None))
    sizes = options.whole(factors)
    show(list(table.run(*data, options.algorithms(algorithms), sizes, settings, backend, target)), json)


@app.command("time-to-error")
def time_to_error(
    ratings: Source,
    factors: Annotated[str, typer.Option(help="Comma-separated numbers of factors F.")] = "32,128",
    epochs: Annotated[int, typer.Option(help="Maximum of epochs.", min=2)] = 30,
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Seconds to the same test RMSE with hashed neighbors (`culsh`) and without (`sgd`), each with its best λ.

    A tenth of a file is held out; λ is chosen on a tenth of the rest.
    """
    from benchmarks import time_to_error as table

    train, test = _train_and_test(ratings)
    show(list(table.run(train, test, options.whole(factors), epochs, chosen(backend))), json)


@app.command()
def als(
    ratings: Source,
    implicit: Annotated[bool, typer.Option("--implicit", help="Measure als-implicit instead of als.")] = False,
    factors: Annotated[str, typer.Option(help="Comma-separated numbers of factors F.")] = "100",
    epochs: Annotated[int, typer.Option(help="Iterations; the median excludes the first.", min=2)] = 10,
    shares: Annotated[str, typer.Option(help="Comma-separated shares of the ratings, such as 0.25,0.5,1.")] = "1",
    user_shares: Annotated[str, typer.Option(help="Further runs: shares of the users, with all their ratings.")] = "",
    set_: Parameters = None,
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Milliseconds of both half-iterations of ALS, their floors on an H100, and on the host also `implicit`.

    A tenth of a file is held out. With --implicit the objective is that of `implicit` (regularization_exponent=0)
    unless it is set.
    """
    from benchmarks import als as table

    algorithm = "als-implicit" if implicit else "als"
    parts = table.parts_of(*_train_and_test(ratings), options.numbers(shares), options.numbers(user_shares))
    settings = {**options.parameters(set_), "n_epochs": epochs}
    results = list(table.run(parts, algorithm, options.whole(factors), settings, chosen(backend)))
    iterations, halves = ([row for rows in kind for row in rows] for kind in zip(*results, strict=True))
    show(iterations, json)
    show(halves, json)


@app.command()
def nmf(
    matrix: Annotated[
        Path,
        typer.Option(help="Matrix in .mat or .npz, ratings, or folder of raw arrays.", metavar="PATH", exists=True),
    ],
    factors: Annotated[str, typer.Option(help="Comma-separated numbers of factors K.")] = "80,160,240",
    epochs: Annotated[int, typer.Option(help="Iterations of each solver and of each tile size T.", min=2)] = 6,
    to: Annotated[int, typer.Option(help="Iterations of the comparison with scikit-learn.", min=1)] = 100,
    transpose: Annotated[bool, typer.Option("--transpose", help="Factorize the transposed matrix.")] = False,
    key: Annotated[str | None, typer.Option(help="Variable in the file.", metavar="NAME")] = None,
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Seconds of an iteration of NMF by solver and tile size, and seconds to the error of scikit-learn's NMF."""
    from benchmarks import nmf as table

    ratings = _matrix(matrix, key)
    ratings = table.transposed(ratings) if transpose else ratings
    results = list(table.run(ratings, options.whole(factors), (epochs, to), chosen(backend)))
    *tables, points = ([row for rows in kind for row in rows] for kind in zip(*results, strict=True))
    for rows in [*tables, points] if json else tables:
        show(rows, json)


@app.command()
def neighbors(
    ratings: Source,
    n_neighbors: Annotated[int, typer.Option(help="Number of neighbors K.")] = 32,
    n_bits: Annotated[int, typer.Option(help="Bits of a signature.")] = 2432,
    runs: Annotated[int, typer.Option(help="Runs to take the median of.", min=1)] = 5,
    backend: Where = "auto",
    json: Json = False,
) -> None:
    """Milliseconds of each step of finding neighbors, by simLSH and by each comparator, and their memory."""
    from benchmarks import neighbors as table
    from gpu.params import CulshParams

    params = CulshParams(n_neighbors=n_neighbors, n_bits=n_bits)
    show(list(table.run(_matrix(ratings, None), params, chosen(backend), runs)), json)


@app.command()
def ranking(
    ratings: File,
    seed: Annotated[int, typer.Option(help="Seed of the splits.")] = 42,
    algorithms: Names = "culsh,culsh-implicit,als-implicit",
    json: Json = False,
) -> None:
    """NDCG@10, Recall@20 and HR@10 of the most popular items, of each algorithm, and of the service's default."""
    from benchmarks import ranking as table

    show(list(table.run(ratings, seed, options.algorithms(algorithms))), json)


@app.command("als-lists")
def als_lists(
    ratings: File, seed: Annotated[int, typer.Option(help="Seed of the splits.")] = 42, json: Json = False
) -> None:
    """HR@10 and NDCG@10 of als-implicit, and of the package `implicit` if it is installed."""
    from benchmarks import als_lists as table

    show(list(table.run(ratings, seed)), json)


@app.command()
def prequential(
    ratings: File,
    algorithm: Annotated[str, typer.Option(help="Algorithm to train.")] = "culsh",
    json: Json = False,
) -> None:
    """RMSE of estimates made before each rating arrives: without online learning, with it, and with retraining."""
    from benchmarks import prequential as table

    show(list(table.run(ratings, algorithm)), json)


@app.command("half-life")
def half_life(
    ratings: File,
    days: Annotated[str, typer.Option(help="Comma-separated half-lives in days.")] = "7,30,90,365",
    algorithm: Annotated[str, typer.Option(help="Algorithm to train.")] = "als-implicit",
    backend: Annotated[str, typer.Option(help="host, device or auto.")] = "auto",
    json: Json = False,
) -> None:
    """NDCG@10 and Recall@20, or RMSE, on the next ratings in the order of time, by half-life."""
    from benchmarks import half_life as table

    show(list(table.run(ratings, options.numbers(days), options.chosen(backend), algorithm)), json)


@app.command()
def online(
    ratings: Source,
    algorithm: Annotated[str, typer.Option(help="One of sgd, esgd, culsh and culsh-implicit.")] = "culsh",
    factors: Annotated[str, typer.Option(help="Comma-separated numbers of factors F.")] = "64,128",
    size: Annotated[int, typer.Option(help="Ratings per batch.")] = 10_000,
    users: Annotated[int, typer.Option(help="Users per batch.")] = 2000,
    new_items: Annotated[int, typer.Option(help="New items per batch.")] = 50,
    batches: Annotated[int, typer.Option(help="Batches of each measurement; eight times as many on a device.")] = 5,
    places: Annotated[str, typer.Option(help="Comma-separated: host, device. Default: all available.")] = "",
    json: Json = False,
) -> None:
    """Milliseconds of batches of events learned online, step by step, and ratings per second, on host and device."""
    from benchmarks import online as table

    data, shape = _matrix(ratings, None), table.Shape(size, users, new_items)
    params = [{"algorithm": algorithm, "n_factors": n} for n in options.whole(factors)]
    backends = table.places(places)
    show([row for settings in params for row in table.run(data, settings, shape, backends, batches)], json)


@app.command("make-ratings")
def make_ratings(
    shape: Annotated[str, typer.Argument(help="Published shape: netflix, ml10m, ml1m, yahoo or hugewiki-100th.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write.", metavar="DIR")],
) -> None:
    """Draw a synthetic matrix of a published shape, as a folder of raw arrays that `--ratings` takes."""
    from benchmarks import make_ratings as matrices

    matrices.write(shape, folder)


def _train_and_test(path: Path) -> tuple[gpu.Ratings, gpu.Ratings]:
    if path.is_dir():
        from benchmarks import als_matrix

        return als_matrix.read(path)
    from service.cli import offline
    from service.cli.files import ratings_file

    data = offline.Data.split(ratings_file.read(path), 0.1, 42)
    if data.test is None:
        raise InvalidInput(f"Invalid {path}: expected ratings of which a tenth can be held out, got {len(data.train)}")
    return data.train, data.test


def _matrix(path: Path, key: str | None) -> gpu.Ratings:
    if path.is_dir():
        from benchmarks import als_matrix

        return als_matrix.read(path)[0]
    from service.cli import offline
    from service.cli.files import ratings_file

    return offline.Data.split(ratings_file.read(path, key=key), 0.0, 0).train


def _folds(path: Path, n_folds: int) -> Iterator[tuple[gpu.Ratings, gpu.Ratings]]:
    from service.cli import offline
    from service.cli.files import ratings_file

    for data in offline.Data.folds(ratings_file.read(path), n_folds):
        assert data.test is not None  # noqa: S101 - `folds` always gives one; narrows the type
        yield data.train, data.test
