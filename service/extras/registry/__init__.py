"""Models in object stores and in the registry of MLflow: `nearfield push` and `nearfield pull`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from service.extras import Parts


def register(parts: Parts) -> None:
    """Add `nearfield push` and `nearfield pull`."""
    parts.commands.append(_add_commands)


def _add_commands(app: typer.Typer) -> None:
    from service.extras.registry import commands  # noqa: PLC0415 (only the command line needs it)

    app.add_typer(commands.app)
