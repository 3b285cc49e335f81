"""Snapshots without users who were forgotten.

A model that was trained with a user keeps what the user did to *item* factors; the rows of the user go.
"""

from __future__ import annotations

from pathlib import Path

from service.storage import files
from service.storage.errors import CorruptSnapshot
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot


def forget_in_snapshots(data: Path, user: str) -> None:
    """Replace every snapshot that holds `user` by one without, in `live.json` too; no power cut brings one back.

    A snapshot that cannot be read is removed, unless it is live. A killed job may leave several revisions of a version;
    the last one stays.
    """
    folder = data / "snapshots"
    for version in snapshot.versions(folder):
        forget_in_snapshot(data, version, user)
    for version in snapshot.versions(folder):
        last = snapshot.latest_revision(folder, version)
        if last != version:
            live_versions.retire(data, version, last)
    if folder.is_dir():
        files.sync(folder)


def forget_in_snapshot(data: Path, version: str, user: str) -> str:
    """Replace `version` by a copy without `user`, and return the version of the copy."""
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
    """`version`, or a copy without the users who were forgotten since its training. Call it before it goes live.

    Forgettings normally wait for a training. Those of an older process, or on a disk without shared locks, do not.
    """
    watermark = StreamId.parse(snapshot.read_manifest(data / "snapshots", version).watermark)
    for user in log.forgotten_since(watermark):
        version = forget_in_snapshot(data, version, user)
    return version
