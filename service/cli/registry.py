"""`nearfield push` and `nearfield pull`: copy a snapshot to a store, and from a store into a data folder."""

from __future__ import annotations

from pathlib import Path

from service.cli.deploy import folder_of, locked
from service.jobs.export_rows import log_of
from service.jobs.forget import without_forgotten
from service.storage import snapshot_transfer
from service.storage.object_store import ObjectStore, OnBytes


def push(model: Path, target: str, on_total: OnBytes, on_bytes: OnBytes) -> tuple[str, bool]:
    """Send a snapshot; return its URL, and whether it was missing there. Raises what `snapshot_transfer.push` raises.

    Args:
        model: the folder of a version, or a folder of several versions; then the newest is used.
        target: URL of the folder of all versions.
        on_total, on_bytes: see `snapshot_transfer.push`.
    """
    store, folder = ObjectStore(target), folder_of(model)
    is_new = snapshot_transfer.push(folder.parent, folder.name, store, on_total, on_bytes)
    return f"{store.url}/{folder.name}", is_new


def pull(source: str, data: Path, on_bytes: OnBytes) -> Path:
    """Fetch a snapshot into `data`, and return its folder. Raises what `snapshot_transfer.pull` raises.

    Users who were forgotten in `data` are removed from it.

    Args:
        source: URL of the folder of a version.
        data: the folder of a service, which may run or not, or none yet.
        on_bytes: see `snapshot_transfer.pull`.

    Raises:
        LockTimeout: a user is being forgotten.
    """
    url, _, version = source.rstrip("/").rpartition("/")
    store = ObjectStore(url)
    with locked(data):
        version = snapshot_transfer.pull(store, version, data / "snapshots", on_bytes)
        if (data / "ratings").is_dir():
            version = without_forgotten(data, log_of(data), version)
    return data / "snapshots" / version
