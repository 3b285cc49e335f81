"""`nearfield deploy`: takes a snapshot into a data folder, and makes it live."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from service.base.errors import InvalidRequest
from service.cli.client import Client
from service.storage import exclusion, files
from service.storage.archiver import COMMIT_EVERY_S
from service.storage.backups.backup_files import new_folder
from service.storage.errors import LockTimeout
from service.storage.events import StreamId
from service.storage.files import FileLock
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot, snapshot_files, version_names
from service.storage.snapshots.forgetting import without_forgotten
from service.storage.snapshots.manifest import check_known

LIVE_TIMEOUT_S, POLL_S = 120.0, 0.2


def deploy(source: Path, data: Path, client: Client | None) -> str:
    """Copy the snapshot `source` into `data`, make it live, and return its version.

    Users who were forgotten in `data` are removed from it first.

    Args:
        source: the folder of a version, or a folder of several versions; then the newest is used.
        data: the folder of a service, which may run or not.
        client: of the running service, which is asked to make it live; None writes `live.json`, which it follows.

    Raises:
        InvalidRequest: no snapshot, or one that does not fit to `data`; nothing has changed.
        CorruptSnapshot: it is torn, altered, or of a newer version; nothing has changed.
        LockTimeout: a user is being forgotten.
        RequestFailed: the service refuses it.
    """
    folder = folder_of(source)
    manifest = snapshot.verify(folder.parent, folder.name)
    log = RatingLog.of(data)
    # It must be a model of this log, and of items that the log has.
    check_known(manifest)
    if (watermark := StreamId.parse(manifest.watermark)) > (last := log.last_id()):
        raise InvalidRequest(
            f"Invalid {folder.name}: expected a model of this log, up to {last}, got one trained up to {watermark}"
        )
    items = set(snapshot_files.read_ids(folder / snapshot_files.ITEMS_FILE))
    columns = (batch.column("item") for batch in log.read(columns=["item"]))
    if all(items.isdisjoint(column.dictionary.to_pylist()) for column in columns):
        raise InvalidRequest(
            f"Invalid {folder.name}: expected a model of items that the log has, got {len(items):,} unknown ones;"
            f" what was just posted is in the log after {COMMIT_EVERY_S:g} seconds"
        )
    with locked(data):
        target = data / "snapshots" / folder.name
        if not target.exists():  # else an earlier attempt has copied it; it is verified again
            with new_folder(target) as temporary:
                for path in sorted(folder.iterdir()):
                    shutil.copyfile(path, temporary / path.name)
                    files.sync(temporary / path.name)
        snapshot.verify(data / "snapshots", folder.name)
        version = without_forgotten(data, log, folder.name)
        if client is None:
            live_versions.activate(data, version_names.name_of(version), version)
    if client is not None:
        # Make it live, and wait until it answers.
        shown = version_names.shown(version)
        client.post(f"/admin/models/{shown}/activate", None)
        deadline = time.monotonic() + LIVE_TIMEOUT_S
        while not (model := next(m for m in client.get("/admin/models")["models"] if m["version"] == shown))["live"]:
            if model["error"]:
                raise InvalidRequest(f"Invalid {shown}: the service cannot use it: {model['error']}")
            if time.monotonic() > deadline:
                raise LockTimeout(f"{shown} is not live after {LIVE_TIMEOUT_S:g} s; GET /admin/models tells when it is")
            time.sleep(POLL_S)
    return version


def locked(data: Path) -> FileLock:
    """The lock by which nobody is forgotten in the snapshots of `data`; raises `LockTimeout` if somebody is now."""
    lock = exclusion.try_take(data, shared=True)
    if lock is None:
        raise LockTimeout(f"Lock of {data / 'snapshots'}: a user is being forgotten; try again when this job has ended")
    return lock


def folder_of(source: Path) -> Path:
    """The folder of a version: `source`, or the newest one in it; raises `InvalidRequest` if there is none."""
    if (source / snapshot.MANIFEST_FILE).exists():
        return source.resolve()
    versions = snapshot.versions(source)
    if not versions:
        raise InvalidRequest(f"Invalid MODEL_DIR: expected a folder of `nearfield train --out`, got {source}")
    return (source / versions[0]).resolve()
