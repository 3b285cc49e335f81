"""The job behind `DELETE /admin/users/{user}`: what the user did leaves the disk.

From the `forget` entry on, every history has dropped the user already. Here the rating log and the snapshots are
rewritten, with what killed processes left beside them, and the stream and its file emptied of what came before. What
the user has taught the item factors stays until the next training; the answer says so. Whoever calls has the lock of
`service.storage.exclusion` alone: no training writes meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from service.errors import CorruptSnapshot, LogUnavailable
from service.jobs.table import JobTable
from service.storage import live_versions, snapshot
from service.storage.events import StreamId
from service.storage.rating_log import RatingLog
from service.storage.stream import Stream

COMMIT_TIMEOUT_S, POLL_S = 60.0, 0.1
REMAINS = "the user's influence on item factors ends with the next training of each model"


class Places(NamedTuple):
    """Where users are named."""

    data: Path
    log: RatingLog
    stream: Stream
    jobs: JobTable


def forget(places: Places, job_id: str, user: str, position: StreamId) -> Iterator[float]:
    """Remove everything of `user` before `position`, which the log must have reached; yields the share that is done.

    Can be repeated from the start if it fails half-way. The job names the user until nothing but the file of Redis
    does; a job that is gone on with after that has the empty name.

    Raises:
        OSError: the disk is full; what is done stays done.
        CorruptLog, CorruptSnapshot, CorruptLiveFile: a file cannot be rewritten.
        LockTimeout: another process holds the lock of a file.
        StreamUnavailable, LogUnavailable: Redis is gone, or nobody archives.
    """
    if user:
        places.log.rewrite_without(user, position)
        places.log.remove_temporaries()
        yield 0.4
        snapshot.clean(places.data / "snapshots")
        forget_in_snapshots(places.data, user)
        yield 0.6
        places.jobs.drop_name(job_id, user)
    places.stream.clear_rejected()
    _trim(places, position)
    yield 0.7
    places.stream.rewrite_aof(places.data / "redis")
    yield 1.0


def _trim(places: Places, position: StreamId) -> None:
    """Leave no byte of the stream up to `position`."""
    places.stream.trim(position)
    if (further := places.stream.repack()) is None:
        return
    deadline = time.monotonic() + COMMIT_TIMEOUT_S
    while places.log.last_id() < further:
        if time.monotonic() > deadline:
            raise LogUnavailable(f"Nobody has archived the stream up to {further} within {COMMIT_TIMEOUT_S:g} s")
        places.stream.request_commit(further)
        time.sleep(POLL_S)
    places.stream.trim(further)


def forget_in_snapshots(data: Path, user: str) -> None:
    """Replace every snapshot that holds `user` by one that does not, in `live.json` too.

    One that cannot be read is removed, unless it is live. Of several revisions of a version, which a job leaves that is
    killed between writing one and removing its predecessor, the last one stays.
    """
    folder = data / "snapshots"
    for version in snapshot.versions(folder):
        _forget_in_snapshot(data, version, user)
    for version in snapshot.versions(folder):
        last = snapshot.latest_revision(folder, version)
        if last != version:
            live_versions.retire(data, version, last)


def _forget_in_snapshot(data: Path, version: str, user: str) -> str:
    """The version that has what `version` had, without `user`."""
    folder, failure = data / "snapshots", None
    try:
        if not snapshot.holds_user(folder, version, user):
            return version
        successor: str | None = snapshot.rewrite_without(folder, version, user).version
    except CorruptSnapshot as error:
        successor, failure = None, error
    if not live_versions.retire(data, version, successor) and failure is not None:
        raise failure
    return successor or version


def without_forgotten(data: Path, log: RatingLog, version: str) -> str:
    """`version`, or one without the users who were forgotten since it was trained; before it can go live.

    Their jobs wait while it is trained. This is for one that did not: of an older process, or on a disk that does
    not share its locks.
    """
    watermark = StreamId.parse(snapshot.read_manifest(data / "snapshots", version).watermark)
    for user in log.forgotten_since(watermark):
        version = _forget_in_snapshot(data, version, user)
    return version
