"""Trainings by several processes, the ranks, on the GPUs or cores of one machine or on the machines of a cluster."""

# ruff: noqa: PLC0415 (a command that trains nothing does not need these)
from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from service.extras import Parts
    from service.jobs.trainer_messages import Team
    from service.settings.settings import Settings


def register(parts: Parts) -> None:
    """Add what trains with `trainer_ranks`, in a service and on files, and `nearfield cluster`."""
    parts.trainer, parts.team = _trainer, _team
    parts.check_serve.append(_check_serve)
    parts.check_worker.append(_check_worker)
    parts.commands.append(_add_command)


def _check_serve(settings: Settings) -> None:
    if settings.worker:
        _check_worker(settings)


def _check_worker(settings: Settings) -> None:
    from service.extras.ranks import cluster

    cluster.check(settings)


def _trainer(settings: Settings, shares_gpu: bool) -> list[str]:
    from service.extras.ranks import trainer

    return trainer.module(settings, shares_gpu)


def _team(settings: Settings) -> AbstractContextManager[Team]:
    from service.extras.ranks.cluster_address import ClusterAddress
    from service.extras.ranks.commands import ranks_of

    return ranks_of(settings.trainer_ranks, ClusterAddress.of(settings))


def _add_command(app: typer.Typer) -> None:
    app.command(
        "cluster",
        short_help="Let several machines train together: scheduler, worker.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(_cluster)


def _cluster(context: typer.Context) -> int:
    """Run `nearfield cluster scheduler` or `nearfield cluster worker`."""
    from service.extras.ranks.commands import app as commands

    return commands(context.args or ["--help"], prog_name="nearfield cluster", standalone_mode=False) or 0
