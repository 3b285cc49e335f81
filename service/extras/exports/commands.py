"""The command `nearfield export`."""

# ruff: noqa: PLC0415 (the command imports what it needs when it runs)
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli import arguments
from service.cli.console import Printer, progress
from service.cli.options import DataSet, Url

app = typer.Typer()


@app.command(short_help="Write ratings, events, items or all of one user to a file.")
def export(
    out: Annotated[Path, typer.Option(help="File to write.", metavar="FILE")],
    what: Annotated[str, typer.Option(help="ratings, events or items.", metavar="NAME")] = "ratings",
    user: Annotated[str | None, typer.Option(help="All of this user, instead of --what.", metavar="ID")] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="ndjson, parquet or arrow. Default: by the suffix.", metavar="NAME")
    ] = None,
    url: Url = "http://127.0.0.1:8000",
    data: Annotated[
        Path | None, typer.Option(help="Read the log in this folder instead of asking a service.", metavar="DIR")
    ] = None,
    data_set: DataSet = None,
) -> None:
    """Export from a service, with NEARFIELD_ADMIN_KEY or NEARFIELD_API_KEY if set, or from its folder."""
    from service.cli.audited import audited
    from service.cli.client import Client
    from service.extras.exports import file_export

    kind, chosen = file_export.check_what(what), file_export.format_of(out, format_)
    shown = kind if user is None else "all of one user"  # whose id no log has
    with progress(f"Exporting {shown}", None) as bar:
        if data is not None:
            settings = arguments.settings({"data": data}, data_set)
            with audited(settings, "export", f"{shown} to {out}"):
                as_of = file_export.from_folder(settings.data, kind, user, chosen, out, bar.advance_of)
        else:
            with Client(url, arguments.settings({}).own_key("admin_key"), data_set) as client:
                as_of = file_export.from_service(client, kind, user, chosen, out, bar.advance_bytes)
    Printer(as_json=False).line({"wrote": out, "what": shown, "as_of": as_of})
