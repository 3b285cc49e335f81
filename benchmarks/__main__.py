"""`python -m benchmarks`: all measurements of the project, in Markdown, or raw with `--json`.

docs/benchmarks.md lists the question that each command answers. A command is a function of its name. It yields rows,
which are shown here, or prints its table itself.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any, get_type_hints

import typer

from benchmarks.results import Row, show
from service import __main__
from service.base import tuning

# Module -> its commands. Only the module of the command is imported: where kernels are measured, there may be no Redis.
MODULES = {
    "defaults": ("defaults", "table", "scale"),
    "quality": ("dislikes", "new-items", "new-users"),
    "neighbors": ("accuracy", "noise", "neighbors"),
    "learning": ("stream", "newcomers", "prequential", "half-life", "trend", "repeat", "ab"),
    "als": ("als",),
    "factors": ("factors",),
    "sgd": ("sgd", "time-to-error"),
    "nmf": ("nmf",),
    "papers": ("papers",),
    "large": ("out-of-core", "distributed", "reductions"),
    "online": ("online",),
    "topn": ("topn",),
    "engine_thread": ("growth", "catalog", "rules", "audience"),
    "plant": ("plant", "place", "lists"),
    "http": ("http", "console", "start"),
    "export": ("export",),
    "stories": ("stories",),
    "beside": ("beside",),
    "make_ratings": ("make-ratings",),
}
COMMANDS = {command: module for module, commands in MODULES.items() for command in commands}
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines, the machine first.")]


def app_of(names: Iterable[str]) -> typer.Typer:
    """An application with these commands."""
    app = typer.Typer(name="benchmarks", help=__doc__, add_completion=False, rich_markup_mode=None)
    app.callback()(lambda: None)  # else a single command would have no name
    for name in names:
        measurement = getattr(import_module(f"benchmarks.{COMMANDS[name]}"), name.replace("-", "_"))
        app.command(name)(measurement if _prints(measurement) else _shown(measurement))
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one measurement; returns the exit status."""
    name = arguments[0] if arguments else ""
    return __main__.run(arguments, app_of([name] if name in COMMANDS else COMMANDS), "python -m benchmarks")


def _prints(measurement: Callable[..., Any]) -> bool:
    return bool(inspect.signature(measurement).return_annotation == "None")


def _shown(measurement: Callable[..., Iterable[Row]]) -> Callable[..., None]:
    """A command with the measurement's options and `--json` that shows its rows."""

    @functools.wraps(measurement)
    def command(*, json: bool, **given: Any) -> None:
        show(measurement(**given), json)

    hints = {**get_type_hints(measurement, include_extras=True), "json": Json}
    own = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False)
    parameters = [*inspect.signature(measurement).parameters.values(), own]
    parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in parameters]
    command.__dict__["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = hints
    return command


if __name__ == "__main__":
    tuning.configure()
    sys.exit(run(sys.argv[1:]))
