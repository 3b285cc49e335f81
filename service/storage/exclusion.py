"""Training and forgetting exclude each other: the lock `DATA/snapshots/.lock`.

Who trains, makes the result live or removes old snapshots holds it shared, who forgets has it alone. A trainer process
inherits it, so that it lasts until supervisor and trainer are both gone, however they end.
"""

from __future__ import annotations

from pathlib import Path

from service.storage import snapshot
from service.storage.files import FileLock

LOCK_FILE = ".lock"


def try_take(data: Path, *, shared: bool) -> FileLock | None:
    """The lock of the snapshots in `data`; None while somebody has it who excludes us."""
    folder = data / "snapshots"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock.try_take(folder / LOCK_FILE, shared=shared)


def clean(data: Path) -> None:
    """Remove what dead writers of snapshots left, unless a process is writing one: then the next forgetting does it.

    Raises:
        OSError: something cannot be removed.
    """
    if (lock := try_take(data, shared=False)) is not None:
        with lock:
            snapshot.clean(data / "snapshots")
