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
    parts.trainer, parts.team = trainer_module, _team
    parts.check_serve.append(_check_serve)
    parts.check_worker.append(_check_worker)
    parts.commands.append(_add_command)


def _check_serve(settings: Settings) -> None:
    if settings.worker:
        _check_worker(settings)


def _check_worker(settings: Settings) -> None:
    from service.extras.ranks import cluster

    cluster.check(settings)


def trainer_module(settings: Settings, shares_gpu: bool) -> list[str]:
    """See `service.jobs.trainer_process.TrainerModule`. It imports no trainer: a thread of the service calls it."""
    import msgspec

    from service.extras.ranks.cluster_address import ClusterAddress
    from service.jobs.trainer_process import trainer_alone

    if settings.trainer_ranks == 1:
        return trainer_alone(settings, shares_gpu)
    arguments = ["service.extras.ranks.trainer", "--ranks", str(settings.trainer_ranks)]
    if (cluster := ClusterAddress.of(settings)) is not None:
        arguments += ["--cluster", msgspec.json.encode(cluster).decode()]
    return arguments + ["--shares-gpu"] * shares_gpu


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
