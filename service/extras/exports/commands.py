"""The commands `nearfield export` and `nearfield lists`."""

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


@app.command(short_help="Write lists of all or some users to a file.")
def lists(
    out: Annotated[Path, typer.Option(help="File to write, in Parquet.", metavar="FILE")],
    body: Annotated[
        str, typer.Option(help="Body of POST /admin/lists: n, scenario, filter, model and so on.", metavar="JSON")
    ] = "{}",
    users: Annotated[
        Path | None, typer.Option(help="Text file with the id of a user in each line. Default: all.", metavar="FILE")
    ] = None,
    url: Url = "http://127.0.0.1:8000",
    data_set: DataSet = None,
) -> None:
    """Let a service make lists in a job, and write them to a file, with NEARFIELD_ADMIN_KEY or NEARFIELD_API_KEY."""
    import json

    from service.base.errors import InvalidRequest
    from service.cli.client import Client, segment
    from service.storage import files

    try:
        asked = json.loads(body)
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        raise InvalidRequest(f'Invalid --body: expected an object of JSON such as {{"n": 20}}, got {body[:64]!r}')
    if users is not None:
        asked["users"] = [line for line in users.read_text().splitlines() if line]
    with Client(url, arguments.settings({}).own_key("admin_key"), data_set) as client, files.new_file(out) as file:
        with progress("Listing", 1) as bar:
            job_id = client.post("/admin/lists", asked)["id"]
            job = client.succeeded_job(job_id, lambda job: bar.tell(job["progress"], job["phase"] or job["state"]))
        client.download(f"/admin/exports/{segment(job_id)}", file.write)
    Printer(as_json=False).line({"wrote": out, "users": int(job["metrics"]["users"]), "version": job["version"]})
