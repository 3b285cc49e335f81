"""`DataLock`: one `serve` with an embedded Redis per folder. The kernel frees it with its process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from service.errors import DataInUse

NAME = ".lock"


class DataLock:
    """An exclusive lock on DATA/.lock, which holds the pid of whoever has it."""

    def __init__(self, data: Path) -> None:
        """Take the lock; the folder is made where it is missing.

        Raises:
            DataInUse: another process has it; the message names its pid.
        """
        data.mkdir(parents=True, exist_ok=True)
        self._file = os.open(data / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise DataInUse(
                f"Invalid data folder {data}: expected one that nobody serves, got process {pid}; stop it first"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Give it back."""
        os.close(self._file)
