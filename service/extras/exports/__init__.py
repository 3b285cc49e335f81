"""Exports: everything of one kind at one position, over HTTP and by a command; and lists of all users, as files."""

# ruff: noqa: PLC0415 (a command that serves nothing does not need the framework)
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from service.api.app import Application
    from service.extras import Parts


def register(parts: Parts) -> None:
    """Add the routes of exports, `nearfield export` and `nearfield lists`."""
    parts.routes.append(_add_routes)
    parts.commands.append(_add_command)


def _add_routes(app: Application) -> None:
    from service.extras.exports import routes

    app.add(routes.router)


def _add_command(app: typer.Typer) -> None:
    from service.extras.exports import commands

    app.add_typer(commands.app)
