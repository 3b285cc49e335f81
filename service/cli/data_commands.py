"""Commands on the data of a service and on models: `nearfield import | backup | restore | deploy | replay | topics`."""

# ruff: noqa: PLC0415 (commands import what they need when they run)
from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli import arguments
from service.cli.console import FAILED, Printer, complain, describe, progress
from service.cli.options import (
    URL_VARIABLE,
    Backend,
    Data,
    DataSet,
    DryRun,
    Events,
    FileOptions,
    FileToImport,
    Format,
    Items,
    Json,
    Patch,
    Redis,
    Undo,
    Url,
    reads_a_file,
)
from service.settings.data_sets import folders_in

PRIVATE = 0o077  # umask: no other user can read what these commands write

app = typer.Typer()


@app.command("import", short_help="Post a file of ratings to a service.")
@reads_a_file
def import_(
    file: FileToImport,
    url: Url = "http://127.0.0.1:8000",
    data_set: DataSet = None,
    events: Events = False,
    items: Items = False,
    patch: Patch = False,
    format_: Format = None,
    dry_run: DryRun = False,
    undo: Undo = False,
    *,
    reading: FileOptions,
) -> int:
    """Post ratings, events or items of a file to a service, with NEARFIELD_WRITE_KEY or NEARFIELD_API_KEY if set.

    --undo takes back what the file has sent, with NEARFIELD_ADMIN_KEY if set; with --dry-run it only counts.
    """
    from service.base.limits import MAX_RATING
    from service.cli import importer
    from service.cli.client import Client
    from service.cli.files import events_file, items_file, ratings_file, standard_input

    items = items or patch
    if items and (events or undo):
        raise typer.BadParameter(f"expected --items or {'--events' if events else '--undo'}, got both")
    how = reading.how(largest=MAX_RATING, of_events=events)
    if items and how.choice:
        raise typer.BadParameter("expected names of columns with a file of ratings, got --items")
    content: Any
    with standard_input.opened(file, format_) as path:
        source = "" if items else f"import:{ratings_file.digest_of(path, how)}"
        if undo:
            return _undone(source, url, data_set, dry_run=dry_run)
        if events:
            content = events_file.read(path, how)
        else:
            content = items_file.read(path, how) if items else ratings_file.read(path, how)
    name = standard_input.name_of(file)
    describe(name, content.columns, content.bad)
    noun = "event" if events else "item" if items else "rating"
    n = len(content.events if events else content.elements if items else content.values)
    if dry_run:
        typer.echo(f"{n:,} {noun}s read, none sent")
        return 0
    with Client(url, arguments.settings({}).own_key("write_key"), data_set) as client:
        importer.check_answers(client)
        if items and not patch:
            complain(importer.replaces(content.elements), 0)
        with progress("Importing", n) as bar:
            if items:
                receipt = importer.send_items(client, content.elements, bar.advance, patch=patch)
            elif events:
                sent = (event.element for event in content.events)
                receipt = importer.send_file(client, "/events", source, sent, bar.advance)
            else:
                receipt = importer.send_file(client, "/ratings", source, importer.records(content), bar.advance)
    named: list[Any] = []
    if receipt.reasons and not items:  # these were sent in the order of their times
        named = [event.element for event in content.events] if events else [*importer.records(content)]
    for position, reason in receipt.reasons:
        whose = " (user {user}, item {item})".format(**named[position]) if named else ""
        complain(f"{noun} {position + 1} of {name}{whose}: {reason}", FAILED)
    skipped = f", {receipt.skipped:,} of an earlier import of the file skipped" if receipt.skipped else ""
    typer.echo(f"{receipt.accepted:,} {noun}s accepted, {receipt.rejected:,} rejected{skipped}")
    return FAILED if receipt.rejected else 0


def _undone(source: str, url: str, data_set: str | None, *, dry_run: bool) -> int:
    from service.cli import importer
    from service.cli.client import Client

    with Client(url, arguments.settings({}).own_key("admin_key"), data_set) as client:
        importer.check_answers(client)
        with progress("Undoing", 1) as bar:
            job = importer.undo(
                client, source, lambda job: bar.tell(job["progress"], job["phase"] or job["state"]), dry_run=dry_run
            )
    if not (told := importer.told(job, dry_run=dry_run)):
        return complain(
            f"the service has nothing of this file ({source}): expected the file and the options of the import", FAILED
        )
    typer.echo(told)
    return 0


@app.command(short_help="Copy ratings and live models to a folder or a tar file.")
def backup(
    out: Annotated[Path, typer.Option(help="Folder to make, or a file if it ends with .tar.", metavar="PATH")],
    data: Data = None,
    redis: Redis = None,
    data_set: DataSet = None,
) -> None:
    """Back up the data folder of a service, which may run or not, at one position."""
    from service.cli.audited import audited
    from service.storage.backups import backup as backups

    settings = arguments.settings({"data": data, "redis": redis}, data_set)
    os.umask(PRIVATE)
    with audited(settings, "backup", f"to {out}"), progress("Copying", None) as bar:
        backups.complete_log(settings)
        manifest = backups.back_up(settings.data, out, bar.expect, bar.advance)
    line = {"backup": out, "as_of": manifest.position, "files": len(manifest.files), "bytes": manifest.n_bytes}
    if others := folders_in(settings.data):
        line["without"] = f"the data sets {', '.join(others)}: back up each with --data-set"
    Printer(as_json=False).line(line)


@app.command(short_help="Make a data folder from a backup.")
def restore(
    backup: Annotated[Path, typer.Argument(help="Folder or .tar file of `nearfield backup`.", metavar="PATH")],
    data: Data = None,
    data_set: DataSet = None,
) -> None:
    """Make a data folder from a backup, after checking every file of it. The folder must be empty or missing."""
    from service.cli.audited import audited
    from service.storage.backups import backup as backups

    settings = arguments.settings({"data": data}, data_set)
    os.umask(PRIVATE)
    with audited(settings, "restore", f"from {backup}"), progress("Checking and copying", None) as bar:
        manifest = backups.restore(backup, settings.data, bar.expect, bar.advance)
    Printer(as_json=False).line({"restored": settings.data, "as_of": manifest.position, "files": len(manifest.files)})


@app.command(short_help="Take a trained model into a service.")
def deploy(
    model: Annotated[Path, typer.Argument(help="Folder that `train --out` wrote, or a snapshot.", metavar="MODEL_DIR")],
    data: Data = None,
    url: Annotated[
        str | None, typer.Option(help="Address of the service. Default: live.json is written.", envvar=URL_VARIABLE)
    ] = None,
    data_set: DataSet = None,
) -> None:
    """Copy a model into the data folder of a service and make it live, with NEARFIELD_ADMIN_KEY if set."""
    from service.cli import deploy as deployment
    from service.cli.audited import audited
    from service.cli.client import Client

    settings = arguments.settings({"data": data}, data_set)
    os.umask(PRIVATE)
    if url is None:
        with audited(settings, "deploy", f"model {model}"):
            version = deployment.deploy(model, settings.data, None)
    else:
        with Client(url, settings.own_key("admin_key"), data_set) as client:
            version = deployment.deploy(model, settings.data, client)
    Printer(as_json=False).line({"live": version})


@app.command(short_help="Rebuild the state of a service at a position.")
def replay(
    to: Annotated[str, typer.Option(help="Stream id of the last entry, such as `as_of` of an answer.", metavar="ID")],
    source: Annotated[str, typer.Option("--from", help="Version or folder of a snapshot.", metavar="SNAPSHOT")],
    out: Annotated[Path, typer.Option(help="Folder for report.json and lists.ndjson.", metavar="DIR")],
    user: Annotated[list[str] | None, typer.Option(help="A user whose list to answer; may be repeated.")] = None,
    n: Annotated[int, typer.Option("--n", help="Length of the lists.", min=1, max=1000)] = 10,
    data: Data = None,
    data_set: DataSet = None,
    backend: Backend = "auto",
) -> None:
    """Rebuild history and model as they were at a position, and write digests of them and lists."""
    from service.cli import replay as replays

    settings = arguments.settings({"data": data}, data_set)
    report = replays.replay(settings, source, to, arguments.backend(backend), out, users=user or [], n=n)
    Printer(as_json=False).line({"as_of": to, "sha256": report["sha256"]["all"], "out": out})


@app.command(short_help="Show the items and users of each factor of an nmf model.")
def topics(
    model: Annotated[Path, typer.Option(help="Folder that `train --algorithm nmf --out` wrote.", metavar="DIR")],
    top: Annotated[int, typer.Option(help="Items and users of each topic.", min=1)] = 10,
    json: Json = False,
) -> None:
    """Show the strongest items and users of each factor of an nmf model, strongest factor first."""
    from service.cli import offline

    printer = Printer(json)
    for topic in offline.topics(offline.saved_model(model), top):
        printer.line(topic)
