"""`Records`: what became of the last time of each schedule, in Redis, for all processes of a data set.

nearfield:schedules  hash, line of the setting -> a `Record` as JSON

This is the name of the default data set (`service.settings.keyspace`).
"""

from __future__ import annotations

import time

import msgspec

from service.extras.schedules.operations import ListedSchedule, ScheduleList
from service.settings.schedules import parse_schedules
from service.settings.settings import Settings
from service.storage.streams.redis_client import connect, translated
from service.storage.streams.redis_server import url_of


class Record(msgspec.Struct, omit_defaults=True):
    """What became of a schedule; times in Unix seconds.

    Attributes:
        upto_s: all times up to this one are done with.
        last_s, job, error: see `ListedSchedule`.
    """

    upto_s: int
    last_s: int | None = None
    job: str | None = None
    error: str | None = None


class Records:
    """The records of the schedules of a data set. Methods raise `StreamUnavailable`."""

    def __init__(self, settings: Settings) -> None:
        """Prepare; the first call connects."""
        self.schedules = parse_schedules(settings.schedules or "")
        self._client, self._key = connect(url_of(settings)), settings.keyspace.schedules

    def all(self) -> dict[str, Record]:
        """The records by line, also of lines that the setting has no more."""
        with translated():
            stored = self._client.hgetall(self._key)
        return {line.decode(): msgspec.json.decode(text, type=Record) for line, text in stored.items()}

    def put(self, line: str, record: Record) -> None:
        """Replace the record of a line."""
        with translated():
            self._client.hset(self._key, line, msgspec.json.encode(record))

    def listed(self) -> ScheduleList:
        """The schedules of the setting, as clients see them."""
        records, now_s = self.all(), int(time.time())
        listed = []
        for schedule in self.schedules:
            record = records.get(schedule.line, Record(now_s))
            last_ms = None if record.last_s is None else 1000 * record.last_s
            next_ms = 1000 * schedule.next(now_s)
            listed.append(ListedSchedule(schedule.line, next_ms, last_ms, record.job, record.error))
        return ScheduleList(listed)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
