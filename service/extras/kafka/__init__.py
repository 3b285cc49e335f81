"""The bridge from Kafka to a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from service.extras import Parts


def register(parts: Parts) -> None:
    """Add `nearfield bridge kafka`."""
    parts.commands.append(_add_command)


def _add_command(app: typer.Typer) -> None:
    app.command(
        "bridge",
        short_help="Carry messages of a queue to a service: kafka.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(_bridge)


def _bridge(context: typer.Context) -> int:
    """Run `nearfield bridge kafka`."""
    from service.extras.kafka.bridge import app as commands  # noqa: PLC0415 (only this command needs it)

    return commands(context.args or ["--help"], prog_name="nearfield bridge", standalone_mode=False) or 0
