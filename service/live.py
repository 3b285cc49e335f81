"""`DATA/live.json`: which version is live under each name, for every process that shares DATA and after a restart."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

LIVE_FILE, LOCK_FILE = "live.json", ".live.lock"


def read(data: Path) -> dict[str, str]:
    """Name to version; empty if nothing was ever live."""
    try:
        return msgspec.json.decode((data / LIVE_FILE).read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}


def set_version(data: Path, name: str, version: str) -> None:
    """Make `version` live under `name`; readers see the old file or the new one, and it is on the disk on return."""
    with (data / LOCK_FILE).open("w") as lock:  # two writers must not lose each other's names
        fcntl.flock(lock, fcntl.LOCK_EX)
        content = msgspec.json.format(msgspec.json.encode({**read(data), name: version}, order="sorted"))
        temporary = data / f".{LIVE_FILE}.tmp"
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(data / LIVE_FILE)
        folder = os.open(data, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
