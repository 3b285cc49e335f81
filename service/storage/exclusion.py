"""The lock `DATA/snapshots/.lock`, by which training and forgetting exclude each other.

Training, activating a result and removing old snapshots hold the lock shared; forgetting holds it exclusively. A
trainer process inherits the lock, so that it lasts until both supervisor and trainer are gone, even if they are killed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from service.storage.files import FileLock
from service.storage.snapshots import snapshot

LOCK_FILE = ".lock"
WORK = "work"  # folder in DATA: a folder for each running training on several ranks, and for lists


def try_take(data: Path, *, shared: bool) -> FileLock | None:
    """The lock of the snapshots in `data`; None while another process has it in an excluding mode."""
    folder = data / "snapshots"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock.try_take(folder / LOCK_FILE, shared=shared)


def clean(data: Path) -> None:
    """Remove leftovers of killed trainers. Does nothing while a process writes; the next forgetting removes them.

    Raises:
        OSError: something cannot be removed.
    """
    if (lock := try_take(data, shared=False)) is not None:
        with lock:
            remove_leftovers(data)


def remove_leftovers(data: Path) -> None:
    """Remove leftovers of killed trainers; the caller holds the exclusive lock.

    Raises:
        OSError: something cannot be removed.
    """
    snapshot.clean(data / "snapshots")
    if (work := data / WORK).is_dir():
        shutil.rmtree(work)
