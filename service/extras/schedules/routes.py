"""Schedules: trainings and lists at set times."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query

from service.api.dependencies import TheService, answers
from service.api.door.route import Route
from service.api.openapi import examples
from service.api.requests import NoParameters
from service.api.serving import Serving
from service.extras.schedules.operations import ListSchedules, ScheduleList

router = APIRouter(route_class=Route, prefix="/admin/schedules", tags=["admin"])


@router.get("", responses=answers(ScheduleList))
async def list_schedules(query: Annotated[NoParameters, Query()], serving: TheService) -> bytes:
    """The lines of the setting `schedules`: when each is due next, and what became of the last time."""
    return await serving.operate(ListSchedules())


async def schedules_of(serving: Serving) -> ScheduleList:
    """What `list_schedules` answers, for the console."""
    return msgspec.json.decode(await serving.operate(ListSchedules()), type=ScheduleList)


_schedule = {
    "schedule": "0 3 * * * train culsh",
    "next_ms": 1795316400000,
    "last_ms": 1795230000000,
    "job": examples.JOB,
    "error": None,
}
examples.COMPONENTS |= {"ListedSchedule": _schedule, "ScheduleList": {"schedules": [_schedule]}}
