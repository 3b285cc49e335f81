"""The job behind `DELETE /admin/users/{user}`: what the user did leaves the disk.

From the `forget` entry on, every history has dropped the user already. Here the rating log and the snapshots are
rewritten, and the stream and its file emptied of what came before. What the user has taught the item factors stays
until the next training; the answer says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from service import live, snapshot
from service.errors import CorruptSnapshot
from service.events import StreamId
from service.rating_log import RatingLog
from service.stream import Stream

REMAINS = "the user's influence on item factors ends with the next training of each model"


def forget(data: Path, log: RatingLog, stream: Stream, user: str, position: StreamId) -> Iterator[float]:
    """Remove everything of `user` before `position`, which the log must have reached; yields the share that is done.

    Can be repeated from the start if it fails half-way.

    Raises:
        OSError: the disk is full; what is done stays done.
        CorruptLog, CorruptSnapshot: a file cannot be rewritten.
        StreamUnavailable: Redis is gone.
    """
    log.rewrite_without(user, position)
    yield 0.4
    forget_in_snapshots(data, user)
    yield 0.6
    stream.clear_rejected()
    stream.trim(position)
    yield 0.7
    stream.rewrite_aof()
    yield 1.0


def forget_in_snapshots(data: Path, user: str) -> None:
    """Replace every snapshot that holds `user` by one that does not; a live one is replaced in `live.json` first.

    One that cannot be read is removed, unless it is live.
    """
    folder = data / "snapshots"
    for version in snapshot.versions(folder):
        is_live = version in live.read(data).values()
        try:
            if not snapshot.holds_user(folder, version, user):
                continue
            manifest = snapshot.rewrite_without(folder, version, user)
        except CorruptSnapshot:
            if is_live:
                raise
        else:
            if is_live:
                live.set_version(data, manifest.algorithm, manifest.version)
        snapshot.remove(folder, version)
