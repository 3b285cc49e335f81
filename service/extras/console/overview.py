"""`/console/overview`: whether all is well, sizes of the service, and curves that the page draws from `Counts`."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheService
from service.api.operations import GetMetrics, GetReadiness, GetStats, ListJobs, Ready
from service.api.parsers.bodies import JSON
from service.api.serving import Serving
from service.engine.quotas import Quota
from service.engine.statistics import Stats
from service.extras.console import points
from service.extras.console.alerts import ALERTS, LONGEST_S, Alert
from service.extras.console.counts import Counts, counts_of
from service.extras.console.jobs import Job
from service.extras.console.pages import page, part
from service.extras.console.visit import console_router
from service.settings.settings import Settings

N_DRAWN = 300  # points of the file in curves
SPANS = {1: "Hour", 24: "Day", 168: "Week"}  # hours of the curves
Hours = Annotated[int, Query(ge=1, le=168)]

router = console_router()


class State(NamedTuple):
    """Whether all is well.

    Attributes:
        errors: why the service is not ready, or does not tell.
        failed: jobs that failed, and of whose kind and name no later one has succeeded.
        alerts: those that fire.
    """

    errors: list[str]
    failed: list[Job]
    alerts: list[Alert]


@router.get("/overview")
async def get_overview(request: Request, serving: TheService, hours: Hours = 1) -> Response:
    """The page; its script then asks for counts every few seconds."""
    sizes = await sizes_of(serving)
    return page(request, "overview.html", state=await state_of(serving), hours=hours, spans=SPANS, **sizes)


@router.get("/state")
async def get_state(request: Request, serving: TheService) -> Response:
    """Whether all is well, alone."""
    return page(request, "state.html", state=await state_of(serving))


@router.get("/sizes")
async def get_sizes(request: Request, serving: TheService) -> Response:
    """The sizes alone."""
    return page(request, "sizes.html", **await sizes_of(serving))


@router.get("/counts")
async def get_counts(serving: TheService) -> Response:
    """The present counts as JSON."""
    text = (await serving.operate(GetMetrics())).decode()
    return Response(msgspec.json.encode(await asyncio.to_thread(counts_of, text)), media_type=JSON.decode())


@router.get("/history")
async def get_history(serving: TheService, hours: Hours = 1) -> Response:
    """Counts of the last hours as JSON, the oldest first."""
    recorded = await asyncio.to_thread(points.read, serving.settings.data, hours * 3600)
    return Response(msgspec.json.encode(drawn(recorded, hours, time.time())), media_type=JSON.decode())


def drawn(all_points: list[Counts], hours: int, now_s: float) -> list[Counts]:
    """At most `N_DRAWN` points of the last hours, as even as they are."""
    within = [one for one in all_points if 0 <= now_s - one.at_s <= hours * 3600]
    every = -(-len(within) // N_DRAWN) or 1
    return within[::-every][::-1]  # with the newest


async def sizes_of(serving: Serving) -> dict[str, Any]:
    """What the template of sizes needs."""
    stats = await part(serving.operate(GetStats()), Stats)
    return {"stats": stats, "quotas": [] if stats.error else chosen(stats.value.quotas)}


def chosen(quotas: list[Quota]) -> list[Quota]:
    """Those that somebody has set: the defaults are so large that bars of them would say nothing."""
    return [one for one in quotas if one.quota != Settings.model_fields[f"quota_{one.name}"].default]


async def state_of(serving: Serving) -> State:
    """Whether all is well now."""
    ready, jobs, recorded = await asyncio.gather(
        part(serving.operate(GetReadiness()), Ready),
        part(serving.operate(ListJobs()), dict[str, list[Job]]),
        asyncio.to_thread(points.read, serving.settings.data, LONGEST_S),
    )
    errors = dict.fromkeys(one.error for one in (ready, jobs) if one.error is not None)
    return State(list(errors), [] if jobs.error else failed(jobs.value["jobs"]), firing(recorded, time.time()))


def failed(jobs: list[Job]) -> list[Job]:
    """Those that failed, and of whose kind and name no later one has succeeded; `jobs` has the newest first."""
    well, found = set[tuple[str, str | None]](), []
    for job in jobs:
        if job.state == "succeeded":
            well.add((job.kind, job.name))
        elif job.state == "failed" and (job.kind, job.name) not in well:
            found.append(job)
    return found


def firing(recorded: list[Counts], now_s: float) -> list[Alert]:
    """The alerts whose conditions have held for as long as their rules say; none if nothing was recorded lately."""
    if not recorded or now_s - recorded[-1].at_s > 2 * points.EVERY_S:
        return []
    newest = recorded[-1]
    since = dict.fromkeys(newest.alerts, newest.at_s)
    holds = set(newest.alerts)
    for point in reversed(recorded):
        holds &= set(point.alerts)
        if not holds:
            break
        since |= dict.fromkeys(holds, point.at_s)
    return [one for one in ALERTS if one.name in since and newest.at_s - since[one.name] >= 60 * one.lasts]
