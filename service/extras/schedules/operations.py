"""What the route of schedules asks of the engine's process, and the answer."""

from __future__ import annotations

from msgspec import Struct


class ListSchedules(Struct, frozen=True, tag=True):
    """Asks for a `ScheduleList`."""


class ListedSchedule(Struct):
    """One line of the setting `schedules`, and what became of it.

    Attributes:
        schedule: the line.
        next_ms: Unix milliseconds of the next time.
        last_ms: the last time that was due; null if none was since the line is known.
        job: the id of the job of that time; null if there is none.
        error: why there is none; null if there is one. A job has the reason why it failed itself.
    """

    schedule: str
    next_ms: int
    last_ms: int | None
    job: str | None
    error: str | None


class ScheduleList(Struct):
    """All lines of the setting `schedules`, in its order."""

    schedules: list[ListedSchedule]
