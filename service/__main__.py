"""The command line `nearfield`: to run a service, fill it, and train models on files.

`service.cli.data_commands` adds the commands on the data of a service. Each command imports its modules when it runs,
so that `nearfield --help` and `serve` start fast.
"""

# ruff: noqa: PLC0415 (see above)
from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.exceptions import TyperException

from service.base import tuning
from service.cli import arguments, data_commands
from service.cli.console import Printer, complain, progress
from service.cli.options import (
    ALGORITHM_LINES,
    ALGORITHM_NAMES,
    OF_ONE_PROCESS,
    Backend,
    BackendOption,
    Data,
    EventsToLearn,
    FileOptions,
    Folds,
    Json,
    Memory,
    RatingsToLearn,
    Redis,
    Scheduler,
    Split,
    SplitBy,
    TlsCa,
    TlsCert,
    TlsKey,
    reads_a_file,
)
from service.processes.parts import parts

if TYPE_CHECKING:
    from service.jobs.trainer_messages import Team

app = typer.Typer(
    name="nearfield",
    help="A recommendation service that learns while it serves.",
    epilog="Every setting of serve and worker is also an environment variable: NEARFIELD_PORT, NEARFIELD_DATA, …",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib import metadata

        print(f"nearfield {metadata.version('nearfield')}")
        raise typer.Exit


@app.callback()
def nearfield(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A recommendation service that learns while it serves."""


@app.command(short_help="Serve the API, learn, log and train.")
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; needs keys unless it is loopback.")] = None,
    port: Annotated[int | None, typer.Option(help="TCP port; 0 takes a free one.")] = None,
    data: Data = None,
    redis: Redis = None,
    backend: BackendOption = None,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Leave trainings to `nearfield worker`.")] = False,
) -> int:
    """Serve the API, learn from ratings, keep the log and train. Prints one line with the address when it is ready."""
    options = {"host": host, "port": port, "data": data, "redis": redis, "backend": backend}
    if no_worker:
        options["worker"] = False
    settings = arguments.settings(options)
    from service.processes.process import run

    return run(settings)


@app.command(short_help="Run trainings for a service.")
def worker(
    data: Data = None,
    redis: Redis = None,
    backend: BackendOption = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="With a store: the folder that was published before is lost.")
    ] = False,
) -> int:
    """Run the trainings of a service in separate processes; needs the same Redis, and the same DIR or store."""
    settings = arguments.settings({"data": data, "redis": redis, "backend": backend})
    from service.processes.process import run_worker

    return run_worker(settings, take_over=take_over)


@app.command(short_help="Check this machine before a service runs on it.")
def doctor(
    data: Data = None,
    redis: Redis = None,
    backend: BackendOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> int:
    """Check the machine and the settings for `serve`, a line each: ok, warn or fail. The status is 1 if one fails."""
    from service.cli import doctor
    from service.processes import http_server, process

    options = {"data": data, "redis": redis, "backend": backend}
    return doctor.report(doctor.examine(options, process.check_start, http_server.within_files), as_json=json)


@app.command(short_help="Train a model on a file.", epilog=ALGORITHM_LINES)
@reads_a_file
def train(
    algorithm: Annotated[str, typer.Option(help=f"One of {ALGORITHM_NAMES}.", metavar="NAME")],
    ratings: RatingsToLearn = None,
    events: EventsToLearn = None,
    test: Annotated[Path | None, typer.Option(help="File of ratings to measure on.", metavar="FILE")] = None,
    test_fraction: Annotated[
        float | None, typer.Option(help="Share of RATINGS to hold out and measure on.", min=0, max=0.99)
    ] = None,
    split: SplitBy = "random",
    folds: Folds = 1,
    seed: Annotated[int, typer.Option(help="Seed of the split.", min=0)] = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the algorithm.", metavar="NAME=VALUE")
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True, metavar="NAME=VALUE")] = None,
    backend: Backend = "auto",
    ranks: Annotated[int, typer.Option(help=f"Processes that train together; not for {OF_ONE_PROCESS}.", min=1)] = 1,
    cluster: Scheduler = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write the model to.", metavar="DIR")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show how GPUs would share the training, and exit.")] = False,
    shape: Annotated[
        str | None, typer.Option(help="Numbers to plan for without a file.", metavar=arguments.SHAPE)
    ] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs to plan for. Default: those here.", min=1, max=64)] = None,
    memory: Memory = None,
    *,
    reading: FileOptions,
    json: Json = False,
) -> None:
    """Train a model on a file: a line per epoch, then the best metric, that of a trivial model, and the peak memory."""
    arguments.check_split(split, test_fraction, test, folds)
    files = {"--ratings": ratings, "--events": events, "--test": test, "--test-fraction": test_fraction}
    arguments.check_plan(plan, {"--gpus": gpus, "--shape": shape}, files)
    pairs = [*(set_ or []), *(more or [])]
    if shape is not None:
        return Printer(json).report(*arguments.plan_of_shape(algorithm, pairs, shape, gpus, memory))
    if ratings is None and events is None:
        raise typer.BadParameter("expected --ratings or --events, or --plan with --shape, got none")
    params = arguments.params(algorithm, pairs)
    arguments.check_events(events, params)
    from gpu.algorithms import check_ranks
    from gpu.als.division import size_of
    from service.cli import closing_line, offline
    from service.cli.plan import shown

    check_ranks(algorithm, ranks)
    if cluster is not None and ranks == 1:
        raise typer.BadParameter("expected --ranks 2 or more with --cluster, got 1")
    forming: contextlib.AbstractContextManager[Team | None] = contextlib.nullcontext()
    if ranks > 1:
        if (team_of := parts().team) is None:
            raise typer.BadParameter(f"expected --ranks 1, because this service has no extra for ranks, got {ranks}")
        tls = {"cluster_tls_ca": tls_ca, "cluster_tls_cert": tls_cert, "cluster_tls_key": tls_key}
        forming = team_of(arguments.settings({"trainer_ranks": ranks, "cluster": cluster} | tls))
    chosen = arguments.backend(backend, memory)
    printer = Printer(json)
    with progress(f"Training {algorithm}", params.n_epochs) as bar:
        bar.begin("reading")
        sources = arguments.sources(ratings, events, test, reading)
        divided = offline.Data.parts(*sources, test_fraction or 0.0, seed, split, folds)
        if folds > 1:
            return printer.line(offline.train_folds(divided, folds, params, chosen, printer.line, out))
        data = next(divided)
        if plan:
            return printer.report(*shown(size_of(data.train), params, gpus, memory))

        def on_line(line: dict[str, Any]) -> None:
            metrics = "  ".join(f"{name} {line[name]:.4f}" for name in closing_line.BEST if name in line)
            bar.advance(note=f"epoch {line['epoch']} of {params.n_epochs}  {metrics}")
            printer.line(line)

        with forming as team:
            return printer.line(offline.train(data, params, chosen, on_line, out, team, bar.begin))


@app.command(short_help="Find the best parameters for a file.", epilog=ALGORITHM_LINES)
@reads_a_file
def tune(
    algorithm: Annotated[str, typer.Option(help=f"One of {ALGORITHM_NAMES}.", metavar="NAME")],
    ratings: RatingsToLearn = None,
    events: EventsToLearn = None,
    test: Annotated[Path | None, typer.Option(help="File of ratings to judge by.", metavar="FILE")] = None,
    test_fraction: Annotated[
        float, typer.Option(help="Share of RATINGS to judge by, unless --test is used.", min=0.001, max=0.9)
    ] = 0.1,
    split: Annotated[
        Split | None,
        typer.Option(help="Ratings to judge by: random, time or last. Default: time with --events, else random."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split.", min=0)] = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter to search around.", metavar="NAME=VALUE")
    ] = None,
    backend: Backend = "auto",
    *,
    reading: FileOptions,
    json: Json = False,
) -> None:
    """Search for the best parameters for a file, with a line per training and a closing line with the best."""
    if ratings is None and events is None:
        raise typer.BadParameter("expected --ratings or --events, got none")
    if test is not None and split is not None:
        raise typer.BadParameter("expected --test or --split, got both")
    params = arguments.params(algorithm, set_ or [])
    arguments.check_events(events, params)
    from service.cli import offline, search

    chosen = arguments.backend(backend)
    sources = arguments.sources(ratings, events, test, reading)
    by = split or ("time" if events is not None and test is None else "random")
    data = next(offline.Data.parts(*sources, test_fraction, seed, by, 1))
    printer = Printer(json)
    with progress(f"Tuning {algorithm}", 1) as bar:

        def on_line(line: dict[str, Any]) -> None:
            bar.reach(line["trial"] / line["of"], note=f"training {line['trial']} of {line['of']}")
            printer.line(line)

        printer.report(*search.tune(data, params, chosen, on_line))


@app.command(short_help="Measure a model on a file.")
@reads_a_file
def evaluate(
    model: Annotated[Path, typer.Option(help="Folder that `train --out` wrote.", metavar="DIR")],
    test: Annotated[
        Path | None, typer.Option(help="File of held-out ratings. Default: those that train held out.", metavar="FILE")
    ] = None,
    negatives: Annotated[
        Path | None, typer.Option(help="user,item,item,… lines to rank against.", metavar="FILE")
    ] = None,
    relevant: Annotated[float | None, typer.Option(help="Lowest rating of a relevant item.")] = None,
    k: Annotated[str, typer.Option(help="Lengths of lists to measure.", metavar="K,K,…")] = "10,20",
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Measure also with the times of each user's ratings shuffled.")
    ] = False,
    folds: Annotated[int, typer.Option(help="Newest versions to measure, each on what it held out.", min=1)] = 1,
    backend: Backend = "auto",
    *,
    reading: FileOptions,
    json: Json = False,
) -> None:
    """Measure a model: RMSE, MAE and its lists, beside the list of the most popular items."""
    from service.cli import evaluation, pair_counts

    cuts = arguments.cuts(k)
    lists = None if negatives is None else evaluation.read_negatives(negatives)
    measured = None if test is None else arguments.reader(reading)(test)
    if folds > 1:
        if test is not None or negatives is not None:
            raise typer.BadParameter("expected --folds, or --test and --negatives, got both")
        result = evaluation.evaluate_folds(model, folds, relevant, arguments.backend(backend), cuts, shuffles=shuffle)
    else:
        result = evaluation.evaluate(
            model, measured, lists, relevant, arguments.backend(backend), cuts, shuffles=shuffle
        )
    for remark in pair_counts.remarks(result):
        complain(remark, 0)
    Printer(json).report(result, evaluation.table(result, cuts))


app.add_typer(data_commands.app)
for add in parts().commands:
    add(app)


def main() -> None:
    """Entry point of the console script."""
    tuning.configure()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str], commands: typer.Typer = app, name: str = "nearfield") -> int:
    """Run one of `commands`; return the exit status: 0, 1 for a failure, 2 for bad usage or bad input.

    An unforeseen error keeps its traceback.
    """
    try:
        return commands(list(arguments) or ["--help"], prog_name=name, standalone_mode=False) or 0
    except TyperException as error:
        return complain(error.format_message(), error.exit_code)
    except Exception as error:
        from service.cli import complaints

        code = complaints.exit_code(error)
        if code is None:
            raise
        return complain(complaints.message(error), code)


if __name__ == "__main__":
    main()
