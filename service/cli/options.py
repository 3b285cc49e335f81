"""Options that several commands of `nearfield` have, or that have long texts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, cast, get_type_hints

import typer

from gpu.algorithms import ALGORITHMS
from service.settings.settings import Settings

if TYPE_CHECKING:
    from service.cli.files.how import How

URL_VARIABLE = "NEARFIELD_URL"

Data = Annotated[Path | None, typer.Option(help="Folder of all state.", metavar="DIR")]
Redis = Annotated[str | None, typer.Option(help="Redis to use instead of an embedded one.", metavar="URL")]
BackendOption = Annotated[str | None, typer.Option("--backend", help="auto, host or device.", metavar="NAME")]
# By ranking quality, as in the setting; then those that it leaves out.
ALGORITHM_NAMES = ", ".join(dict.fromkeys([*Settings.model_fields["default_models"].default, *ALGORITHMS]))
ALGORITHM_LINES = "\b\nAlgorithms:\n" + "\n".join(f"  {name}: {one.learns}" for name, one in ALGORITHMS.items())
OF_ONE_PROCESS = ", ".join(name for name, record in ALGORITHMS.items() if not record.has_ranks)
Backend = Annotated[str, typer.Option(help="auto, host or device.", metavar="NAME")]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON lines on stdout.")]
RatingsToLearn = Annotated[Path | None, typer.Option(help="File of ratings to learn from.", metavar="FILE")]
EventsToLearn = Annotated[
    Path | None, typer.Option(help="File of events to learn from, weighed by NEARFIELD_EVENTS.", metavar="FILE")
]
Split = Literal["random", "time", "last"]  # which ratings are held out to measure on
SplitBy = Annotated[
    Split,
    typer.Option("--split", help="Ratings to hold out: random ones, the newest, or each user's last."),
]
Folds = Annotated[
    int, typer.Option(help="Parts of the newest ratings, each held out from all before; with --split time.", min=1)
]
Memory = Annotated[float | None, typer.Option(help="GB to take, of each GPU.", min=0.001, max=1_000_000, metavar="GB")]
Scheduler = Annotated[
    str | None, typer.Option(help="tls://HOST:PORT of the scheduler whose workers hold the ranks.", metavar="URL")
]
TlsCa = Annotated[Path | None, typer.Option(help="Certificate of the cluster's authority.", metavar="FILE")]
TlsCert = Annotated[Path | None, typer.Option(help="Certificate of this machine.", metavar="FILE")]
TlsKey = Annotated[Path | None, typer.Option(help="Private key of this machine.", metavar="FILE")]
FileToImport = Annotated[
    Path,
    typer.Argument(help="Text, JSON, Parquet or a matrix, or a folder of parts; - is standard input.", metavar="FILE"),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Of standard input: csv, jsonl, parquet, npz, mat or mtx.", metavar="NAME"),
]
Items = Annotated[bool, typer.Option("--items", help="The file has items: CSV, TSV, movies.dat, JSONL or Parquet.")]
Events = Annotated[bool, typer.Option("--events", help="The file has events: text, JSON or Parquet.")]
Patch = Annotated[
    bool, typer.Option("--patch", help="As --items, but keep the attributes that the file does not name.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Read and judge the file, and send nothing.")]
Undo = Annotated[
    bool, typer.Option("--undo", help="Take back what an import of the file with the same options has sent.")
]
DataSet = Annotated[
    str | None, typer.Option(help="Data set of the service; default: the one without a name.", metavar="NAME")
]
Url = Annotated[str, typer.Option(help="Address of the service.", envvar=URL_VARIABLE)]

Command = TypeVar("Command", bound=Callable[..., Any])


class FileOptions(NamedTuple):
    """The options of commands that read a file, each as it was given; `service.cli.files.how` judges them."""

    key: Annotated[str | None, typer.Option(help="Variable of a .mat or .npz file.", metavar="NAME")] = None
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip bad lines instead of stopping.")] = False
    delimiter: Annotated[
        str | None, typer.Option(help="What separates columns: a character, tab, space or ::.", metavar="TEXT")
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="Of text, such as latin-1 or utf-16. Default: UTF-8.", metavar="NAME")
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(help="user=NAME,item=NAME,… of a header; or all in order: user,item,-,rating.", metavar="LIST"),
    ] = None
    user: Annotated[str | None, typer.Option(help="The column of users, by its name.", metavar="COL")] = None
    item: Annotated[str | None, typer.Option(help="The column of items.", metavar="COL")] = None
    rating: Annotated[str | None, typer.Option(help="The column of ratings, or values of events.", metavar="COL")] = (
        None
    )
    time: Annotated[str | None, typer.Option(help="The column of times.", metavar="COL")] = None
    type: Annotated[str | None, typer.Option(help="The column of types of events.", metavar="COL")] = None
    time_unit: Annotated[str, typer.Option(help="Of times that are numbers: s, ms, us or ns.", metavar="UNIT")] = "s"

    def how(self, **more: Any) -> How:
        """How to read a file; `more` are further choices of `How.of`. Raises InvalidSetting."""
        from service.cli.files.how import How  # noqa: PLC0415 (not for `--help`)

        return How.of(**self._asdict(), **more)


def reads_a_file(command: Command) -> Command:
    """Give `command`, which takes `reading`, the fields of `FileOptions` as options in its place."""
    hints, of_file = (get_type_hints(one, include_extras=True) for one in (command, FileOptions))
    own = [
        one.replace(annotation=hints[name])
        for name, one in inspect.signature(command).parameters.items()
        if name != "reading"
    ]
    defaults = FileOptions._field_defaults
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=hint)
        for name, hint in of_file.items()
    ]

    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        reading = FileOptions(**{name: options.pop(name) for name in of_file})
        return command(*args, reading=reading, **options)

    wrapped.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in (*own, *more)}
    return cast("Command", wrapped)
