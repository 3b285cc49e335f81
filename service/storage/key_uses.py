"""`KeyUses`: when each key that was made was used last, for every process that shares DATA.

`DATA/key-uses/ID` is an empty file whose time of change is the last use. It is apart from `keys.json`, because it
changes often, and losing it harms nobody. A backup leaves it out.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

FOLDER = "key-uses"
EVERY_S = 3600.0  # seconds between two writes of one key; a use in between is not noted


class KeyUses:
    """The uses of made keys. Nothing waits for the disk: a crash may lose the last hour."""

    def __init__(self, data: Path) -> None:
        self._folder = data / FOLDER
        self._noted: dict[str, float] = {}

    def note(self, key: str) -> None:
        """Note that a key is used now; writes at most once an hour, whatever the number of processes."""
        now = time.time()
        if 0 <= now - self._noted.get(key, 0.0) < EVERY_S:
            return
        self._noted[key] = now
        if (last := self.last(key)) is not None and 0 <= now - last < EVERY_S:
            self._noted[key] = last  # of another process
            return
        with contextlib.suppress(OSError):  # a full disk must not close the service
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._folder / key, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.utime(self._folder / key)

    def last(self, key: str) -> float | None:
        """Unix seconds of the last use that was noted; None if none was."""
        with contextlib.suppress(OSError):
            return (self._folder / key).stat().st_mtime
        return None

    def forget(self, key: str) -> None:
        """Remove what was noted of a revoked key."""
        with contextlib.suppress(OSError):
            (self._folder / key).unlink()
