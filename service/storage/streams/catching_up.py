"""`archive_up_to`: waits until the rating log has all entries of the stream up to a position."""

from __future__ import annotations

import time

from service.storage.errors import LogUnavailable
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.streams.stream import Stream

TIMEOUT_S, POLL_S = 60.0, 0.05  # seconds


def archive_up_to(stream: Stream, log: RatingLog, position: StreamId, timeout_s: float = TIMEOUT_S) -> StreamId:
    """Ask the process that archives to commit up to `position`, wait until it is on the disk, and return `position`.

    Redis may have come back as an older copy: until the service has written again what was lost, the log lacks it.

    Raises:
        LogUnavailable: not within `timeout_s`.
        StreamUnavailable: Redis is gone.
    """
    deadline = time.monotonic() + timeout_s
    # All is archived also if Redis has given out further ids, whose entries were removed.
    while log.last_id() < position and (stream.newest() > log.last_id() or stream.last_id() < position):
        if time.monotonic() > deadline:
            raise LogUnavailable(f"No process has archived the stream up to {position} within {timeout_s:g} s")
        stream.request_commit(position)
        time.sleep(POLL_S)
    log.files.settle()
    return position
