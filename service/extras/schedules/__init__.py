"""Schedules: trainings and lists at set times, by the setting `schedules`."""

# ruff: noqa: PLC0415 (a command that serves nothing does not need the framework)
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.extras.schedules.operations import ListSchedules

if TYPE_CHECKING:
    from service.api.app import Application
    from service.api.serving import Serving
    from service.engine.engine import Engine
    from service.extras import OnFailure, Parts
    from service.extras.schedules.scheduler import Scheduler
    from service.jobs.jobs import Jobs
    from service.processes.runtime import Runtime
    from service.settings.settings import Settings


def register(parts: Parts) -> None:
    """Add the route and the page of the console that show schedules, and what submits jobs by them."""
    parts.routes.append(_add_route)
    parts.operations.append(ListSchedules)
    parts.engine.append(_add_call)
    parts.schedule = _scheduler
    parts.pages["schedules"] = _page


def _add_route(app: Application) -> None:
    from service.extras.schedules import routes

    app.add(routes.router)


def _add_call(runtime: Runtime, _: Engine) -> None:
    from service.extras.schedules.records import Records

    records = Records(runtime.settings)
    runtime.to_stop.callback(records.close)
    runtime.calls[ListSchedules] = lambda _: runtime.blocking(records.listed)


def _scheduler(settings: Settings, jobs: Jobs, on_failure: OnFailure) -> Scheduler:
    from service.extras.schedules.records import Records
    from service.extras.schedules.scheduler import Scheduler

    return Scheduler(settings, jobs, Records(settings), on_failure)


async def _page(serving: Serving, _: str | None) -> dict[str, Any]:
    from service.extras.schedules import routes

    return {"schedules": (await routes.schedules_of(serving)).schedules}
