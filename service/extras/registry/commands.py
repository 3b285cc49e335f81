"""The commands `nearfield push` and `nearfield pull`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from service.cli import arguments
from service.cli.audited import audited, shown
from service.cli.console import Printer, progress
from service.cli.data_commands import PRIVATE
from service.cli.options import Data, DataSet

app = typer.Typer()


@app.command(short_help="Send a model to an object store.")
def push(
    model: Annotated[Path, typer.Argument(help="Folder that `train --out` wrote, or a snapshot.", metavar="MODEL_DIR")],
    target: Annotated[
        str,
        typer.Argument(
            help="s3://, gs:// or az:// with bucket and prefix, file:///PATH, or models:/NAME@ALIAS.", metavar="URL"
        ),
    ],
) -> None:
    """Copy a model to a store, below its version, after checking every file. Stores need the extra registry.

    models:/NAME registers it at the MLflow server of MLFLOW_TRACKING_URI; an alias such as @champion then names it.
    """
    from service.extras.registry import transfer  # noqa: PLC0415 (needs Arrow)

    keys = arguments.settings({}).keys("model_key")
    with progress("Sending", None) as bar:
        url, is_new = transfer.push(model, target, keys, bar.expect, bar.advance)
    Printer(as_json=False).line(
        {"pushed" if is_new else "unchanged": url, "next": shlex.join(["nearfield", "pull", url])}
    )


@app.command(short_help="Fetch a model from an object store.")
def pull(
    source: Annotated[
        str, typer.Argument(help="URL that `nearfield push` printed; http:// and https:// too.", metavar="URL")
    ],
    data: Data = None,
    data_set: DataSet = None,
) -> None:
    """Copy a model into the data folder of a service, after checking every file. It is not live yet.

    Stores need the extra registry. models:/NAME@ALIAS or models:/NAME/NUMBER is a model of MLFLOW_TRACKING_URI.
    """
    from service.extras.registry import transfer  # noqa: PLC0415 (needs Arrow)

    settings = arguments.settings({"data": data}, data_set)
    os.umask(PRIVATE)
    with progress("Fetching", None) as bar, audited(settings, "pull", f"from {shown(source)}"):
        path = transfer.pull(source, settings.data, settings.keys("model_key"), bar.advance_bytes)
    following = shlex.join(["nearfield", "deploy", str(path), "--data", str(settings.data)])
    Printer(as_json=False).line({"pulled": path, "next": following})
