"""The job behind `DELETE /admin/users/{user}`: removes all data of a user from the disk.

The `forget` entry has already removed the user from every history. This job rewrites the rating log and the snapshots,
removes temporary files of killed processes, and trims the stream and its append-only file. The influence of the user on
item factors stays until the next training, and the answer states this. The caller must hold the exclusive lock of
`service.storage.exclusion`, so that no training writes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from service.jobs.table import JobTable
from service.storage import exclusion, list_files
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots.forgetting import forget_in_snapshots
from service.storage.streams.catching_up import archive_up_to
from service.storage.streams.stream import Stream

REMAINS = "the user's influence on item factors ends with the next training of each model"


class Places(NamedTuple):
    """The places that store names of users."""

    data: Path
    redis: Path  # folder of an embedded server
    log: RatingLog
    stream: Stream
    jobs: JobTable
    settle: Callable[[], None]  # returns when the store, if there is one, has what the folder has, and no more


def forget(places: Places, job_id: str, user: str, position: StreamId) -> Iterator[float]:
    """Remove all data of `user` before `position`, which the log must have reached; yields the share that is done.

    It can be repeated from the start if it fails. The job keeps the name of the user until only the append-only file of
    Redis still has it; a job that is resumed after that has an empty name.

    Raises:
        OSError: the disk is full; finished parts stay done. CorruptLog, CorruptSnapshot, CorruptLiveFile: a file cannot
            be rewritten.
        LockTimeout: another process holds the lock of a file.
        StreamUnavailable, LogUnavailable: Redis is gone, or no process archives the stream.
        StoreUnavailable: the store is away.
    """
    _archive_up_to(places, position)
    if user:
        # First: a forgetting that was killed may have had the number of this process, which is in the names.
        exclusion.remove_leftovers(places.data)
        for user_id in places.log.ids_of(user, position):  # before the log is rewritten, which tells them
            forget_in_snapshots(places.data, user_id)
        list_files.remove_all(places.data)
        yield 0.2
        places.log.rewrite_without(user, position)
        places.log.files.remove_temporaries()
        places.settle()
        yield 0.6
        places.jobs.drop_name(job_id, user)
    places.stream.clear_rejected()
    # Remove the stream up to `position` from Redis, to the last byte.
    places.stream.trim(position)
    if (further := places.stream.repack()) is not None:
        _archive_up_to(places, further)
        places.settle()
        places.stream.trim(further)
    yield 0.7
    places.stream.rewrite_aof(places.redis)
    yield 1.0


def _archive_up_to(places: Places, position: StreamId) -> None:
    """Return when the log has all entries up to `position` on the disk: nothing may leave the stream before.

    A segment that is there may be taken back, if its folder cannot be synced.
    """
    places.log.files.settle()
    while places.log.last_id() < position:
        archive_up_to(places.stream, places.log, position)
        places.log.files.settle()
