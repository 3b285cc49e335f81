"""`DATA/curves.jsonl`: counts of the last week, a line each, from which every overview draws its curves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from service.api.operations import GetMetrics
from service.base.errors import ServiceError
from service.extras.console import alerts
from service.extras.console.counts import CURVES, CURVES_LOCK, Counts, counts_of
from service.storage import files

if TYPE_CHECKING:
    from service.processes.runtime import Runtime

EVERY_S = 30.0
DAY_S, WEEK_S = 86_400.0, 7 * 86_400.0
OLD_S = 600.0  # between points that are older than a day
N_KEPT = int(DAY_S / EVERY_S + (WEEK_S - DAY_S) / OLD_S)
N_MOST = 2 * N_KEPT  # lines of the file
LINE_BYTES = 2000  # at most
_log = structlog.get_logger(__name__)


def read(data: Path, seconds: float) -> list[Counts]:
    """The points of the last seconds or more, the oldest first; empty if there are none.

    Lines that a kill or a full disk has cut are left out.
    """
    n_bytes = int(seconds / EVERY_S) * LINE_BYTES
    try:
        with files.open_regular(data / CURVES) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - n_bytes))
            content = file.read()
    except OSError:
        return []
    points: list[Counts] = []
    for line in content.split(b"\n"):
        with contextlib.suppress(msgspec.MsgspecError):
            points.append(msgspec.json.decode(line, type=Counts))
    return points


def kept(points: Sequence[Counts], now_s: float) -> list[Counts]:
    """Those of the last day, and one in ten minutes of the days before, for a week. They hold sums: none is missed."""
    chosen: list[Counts] = []
    for point in points:
        is_new = not chosen or point.at_s - chosen[-1].at_s >= OLD_S or now_s - point.at_s <= DAY_S
        if is_new and now_s - point.at_s <= WEEK_S:
            chosen.append(point)
    return chosen


class Recorder:
    """Adds points to the file, for one process at a time of those that share DATA."""

    def __init__(self, data: Path) -> None:
        self._data, self._n = data, 0
        self._lock: files.FileLock | None = None
        # Counters begin at 0, so what they have at the first scrape has happened since.
        self._scrapes = [alerts.Scrape(time.time(), {})]

    def add(self, text: str) -> None:
        """Add a point: what a page of metrics counts, and the alerts whose conditions hold.

        The line is not synced: a kill costs one point, and a power cut those of the last seconds.

        Raises:
            OSError: the disk is full or broken.
        """
        point = counts_of(text)
        self._scrapes.append(alerts.Scrape.of(point.at_s, text))
        self._scrapes = [one for one in self._scrapes if one.at_s >= point.at_s - alerts.LONGEST_S]
        point.alerts = alerts.holding(self._scrapes)
        if self._lock is None:
            self._lock = files.FileLock.try_take(self._data / CURVES_LOCK)
            if self._lock is None:  # another process adds them
                return
            self._n = len(read(self._data, WEEK_S))
        path = self._data / CURVES
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b"\n" + msgspec.json.encode(point))  # first the end of a line that was cut
        finally:
            os.close(descriptor)
        self._n += 1
        if self._n > N_MOST:
            points = kept(read(self._data, WEEK_S), point.at_s)
            files.replace(path, b"\n".join(map(msgspec.json.encode, points)))
            self._n = len(points)

    def close(self) -> None:
        """Let another process add points."""
        if self._lock is not None:
            self._lock.release()


async def record(runtime: Runtime) -> None:
    """Add a point every 30 seconds, the first one after these, until it is cancelled.

    A page of the start would be that of all who ask for metrics in the second in which the service becomes ready.
    """
    recorder, told = Recorder(runtime.settings.data), ""
    try:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                page = await runtime.calls[GetMetrics](GetMetrics())
                await asyncio.to_thread(recorder.add, page.decode())
                told = ""
            except (OSError, ServiceError) as error:
                if str(error) != told:
                    _log.warning("no point for the curves of the console", error=str(error))
                told = str(error)
    finally:
        recorder.close()
