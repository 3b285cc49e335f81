"""Turns arguments of commands into settings, ratings, parameters and backends."""

# ruff: noqa: PLC0415 (commands import what they need when they run)
from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from service.cli.console import complain, describe, stderr

if TYPE_CHECKING:
    import gpu
    from service.cli.files.events_file import EventsFile
    from service.cli.files.ratings_file import RatingsFile
    from service.cli.options import FileOptions
    from service.settings.event_types import EventTypes
    from service.settings.settings import Settings

SHAPE = "users,items,ratings,factors"


def settings(options: dict[str, Any], data_set: str | None = None) -> Settings:
    """Settings from the options that are given and the environment; complains of variables that name no setting.

    Args:
        options: values by setting; None: not given.
        data_set: name of a further data set whose settings are wanted.
    """
    from service.settings.data_sets import check_name
    from service.settings.settings import Settings, unknown_variables

    settings = Settings(**{name: value for name, value in options.items() if value is not None})
    if unknown := unknown_variables(settings.data_sets):
        complain(f"ignored: {', '.join(unknown)}; no setting has this name", 0)
    return settings if data_set is None else settings.of(check_name(data_set))


def reader(reading: FileOptions, *, has_events: bool = False) -> Callable[[Path], RatingsFile]:
    """Reads the ratings of a file; shows what was understood, and the bad lines that were left out.

    `has_events` is whether there is a file of events too, which alone has types.
    """
    from service.cli.files import ratings_file

    how = (reading._replace(type=None) if has_events else reading).how()

    def read(path: Path) -> RatingsFile:
        file = ratings_file.read(path, how)
        describe(str(path), file.columns, file.bad)
        return file

    return read


def sources(
    ratings: Path | None, events: Path | None, test: Path | None, reading: FileOptions
) -> tuple[RatingsFile | None, tuple[EventsFile, EventTypes] | None, RatingsFile | None]:
    """What a command learns from and measures on: ratings; events and the weights of types in the environment; a test
    file. Shows what was understood.
    """
    from service.cli.files import events_file

    read, came = reader(reading, has_events=events is not None), None
    learned = None if ratings is None else read(ratings)
    if events is not None:
        file = events_file.read(events, reading.how(of_events=True))
        describe(str(events), file.columns, file.bad)
        came = file, settings({}).event_types
    return learned, came, None if test is None else read(test)


def check_events(events: Path | None, params: gpu.Params) -> None:
    """Refuse a file of events for an algorithm that learns estimates."""
    if events is not None and not params.is_implicit:
        raise typer.BadParameter(f"expected --events with an algorithm that learns them, got {params.algorithm}")


def params(algorithm: str, pairs: Sequence[str]) -> gpu.Params:
    """The parameters of an algorithm, from NAME=VALUE pairs."""
    from gpu.algorithms import params_for

    for pair in pairs:
        if "=" not in pair:
            raise typer.BadParameter(f"expected NAME=VALUE, got {pair!r}")
    return params_for(algorithm, dict(pair.split("=", 1) for pair in pairs))


def cuts(text: str) -> list[int]:
    """The lengths of lists in `text`, such as 10,20."""
    from gpu.ranking.topn import MAX_N

    parts = text.split(",")
    if not all(part.isascii() and part.isdecimal() and 1 <= int(part) <= MAX_N for part in parts):
        raise typer.BadParameter(f"expected --k as numbers from 1 to {MAX_N} such as 10,20, got {text!r}")
    return sorted(set(map(int, parts)))


def check_split(split: str, fraction: float | None, test: Path | None, n_folds: int = 1) -> None:
    """Refuse combinations of `--split`, `--test-fraction`, `--folds` and `--test` that say two things, or nothing."""
    if n_folds > 1 and split != "time":
        raise typer.BadParameter(f"expected --folds with --split time, got --split {split}")
    if test is not None and (fraction is not None or split != "random"):
        raise typer.BadParameter(f"expected --test or {'--split' if fraction is None else '--test-fraction'}, got both")
    if split == "last" and fraction is not None:
        raise typer.BadParameter("expected --test-fraction with --split random or time, got last, which takes no share")
    if split == "time" and not fraction:
        raise typer.BadParameter("expected --test-fraction with --split time, got none")


def check_plan(is_plan: bool, of_plan: dict[str, Any], files: dict[str, Any]) -> None:
    """Refuse options `of_plan` without `--plan`, and any of `files` beside `--shape`; None: not given."""
    for option, value in of_plan.items():
        if not is_plan and value is not None:
            raise typer.BadParameter(f"expected --plan with {option}, got none")
    for option, value in files.items():
        if value is not None and of_plan["--shape"] is not None:
            raise typer.BadParameter(f"expected --shape or {option}, got both")


def plan_of_shape(
    algorithm: str, pairs: Sequence[str], text: str, n_gpus: int | None, memory_gb: float | None
) -> tuple[dict[str, Any], str]:
    """The plan of a training of the numbers in `text`, such as 480189,17770,99e6,100: see `service.cli.plan.shown`."""
    from gpu.data.param_kinds import with_changes
    from gpu.data.param_ranges import converted
    from gpu.data.ratings import MAX_ROWS
    from service.cli.plan import shown

    if text.count(",") != SHAPE.count(","):
        raise typer.BadParameter(f"expected four numbers, {SHAPE}, got {text!r}")
    if any(pair.startswith("n_factors=") for pair in pairs):
        raise typer.BadParameter("expected the number of factors by --shape or by --set, got both")
    numbers = zip(SHAPE.split(","), text.split(","), strict=True)
    n_users, n_items, n_ratings, n_factors = (converted(f"{name} of --shape", part, int) for name, part in numbers)
    most = {"users": (n_users, MAX_ROWS), "items": (n_items, MAX_ROWS), "ratings": (n_ratings, n_users * n_items)}
    for name, (number, end) in most.items():
        if not 1 <= number <= end:
            raise typer.BadParameter(f"expected 1 to {end:,} {name} in --shape, got {number:,}")
    chosen = params(algorithm, pairs)
    if hasattr(chosen, "n_factors"):
        chosen = with_changes(chosen, n_factors=n_factors)
    return shown((n_users, n_items, n_ratings), chosen, n_gpus, memory_gb)


def backend(name: str, memory_gb: float | None = None) -> gpu.Backend:
    """The backend of that name; shows which one it is, and why. `memory_gb` bounds it."""
    from gpu.als.division import GB
    from gpu.base.backend import choose

    backend = choose(name)  # type: ignore[arg-type] # `choose` refuses an unknown name
    stderr.print(f"backend: {backend.name} ({backend.reason})", style="dim", markup=False)
    return backend if memory_gb is None else backend.within(int(memory_gb * GB))
