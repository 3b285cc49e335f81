"""Options that several commands of `nearfield` have, or that have long texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gpu.algorithms import ALGORITHMS
from service.settings.settings import Settings

URL_VARIABLE = "NEARFIELD_URL"

Data = Annotated[Path | None, typer.Option(help="Folder of all state.", metavar="DIR")]
Redis = Annotated[str | None, typer.Option(help="Redis to use instead of an embedded one.", metavar="URL")]
BackendOption = Annotated[str | None, typer.Option("--backend", help="auto, host or device.", metavar="NAME")]
# By ranking quality, as in the setting; then those that it leaves out.
ALGORITHM_NAMES = ", ".join(dict.fromkeys([*Settings.model_fields["default_models"].default, *ALGORITHMS]))
OF_ONE_PROCESS = ", ".join(name for name, record in ALGORITHMS.items() if not record.has_ranks)
Backend = Annotated[str, typer.Option(help="auto, host or device.", metavar="NAME")]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON lines on stdout.")]
Key = Annotated[str | None, typer.Option(help="Variable of a .mat or .npz file.", metavar="NAME")]
Delimiter = Annotated[str | None, typer.Option(help="What separates columns: a character, tab or ::.", metavar="TEXT")]
Columns = Annotated[
    str | None,
    typer.Option(help="user=NAME,item=NAME,… of a header; or all in order: user,item,-,rating.", metavar="LIST"),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip bad lines instead of stopping.")]
SplitBy = Annotated[
    Literal["random", "time", "last"],
    typer.Option("--split", help="Ratings to hold out: random ones, the newest, or each user's last."),
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
    typer.Argument(help="CSV, TSV, MovieLens, JSONL, Parquet, .npz or .mat; - is standard input.", metavar="FILE"),
]
Format = Annotated[
    str | None, typer.Option("--format", help="Of standard input: csv, jsonl, parquet, npz or mat.", metavar="NAME")
]
Items = Annotated[bool, typer.Option("--items", help="The file has items: CSV, TSV, movies.dat, JSONL or Parquet.")]
Patch = Annotated[
    bool, typer.Option("--patch", help="As --items, but keep the attributes that the file does not name.")
]
DataSet = Annotated[
    str | None, typer.Option(help="Data set of the service; default: the one without a name.", metavar="NAME")
]
Url = Annotated[str, typer.Option(help="Address of the service.", envvar=URL_VARIABLE)]
