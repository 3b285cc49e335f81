"""`ArchiveLock`: the lock of the process that archives, beside which it says up to which format it reads entries.

A version without this file would archive entries that it does not know as bad ones, or stop before them. So an entry of
a later format waits until such a version has gone.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from service.storage.data_format import FORMAT, format_of
from service.storage.errors import LogUnavailable
from service.storage.events import Fields
from service.storage.files import FileLock

LOCK, MARK = ".lock", ".archiver"
LOOK_EVERY_S = 1.0  # seconds; how long the answer that a format can be archived holds
_FIRST = 1  # of holders that write none


class ArchiveLock:
    """The locked files `LOCK` and `MARK` of the rating log; the second one has the holder's format."""

    def __init__(self, lock: FileLock, mark: FileLock) -> None:
        """Own two locked files; use `try_take`."""
        self._lock, self._mark = lock, mark

    @classmethod
    def try_take(cls, folder: Path) -> ArchiveLock | None:
        """The lock of the log in `folder`, or None while another process holds it. Raises what `FileLock` raises."""
        lock = FileLock.try_take(folder / LOCK)
        if lock is None:
            return None
        try:
            mark = FileLock.take(folder / MARK)  # who looks at it holds it for an instant
            os.ftruncate(mark.descriptor, 0)
            os.pwrite(mark.descriptor, str(FORMAT).encode(), 0)
        except BaseException:
            lock.release()
            raise
        return cls(lock, mark)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        self._lock.release()
        self._mark.release()

    def __enter__(self) -> ArchiveLock:
        """Return the lock itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Release the lock."""
        self.release()


class ArchivableFormat:
    """Tells whether the process that archives, of whatever version, knows the entries that are about to be written."""

    def __init__(self, folder: Path) -> None:
        """`folder`: of the rating log."""
        self._folder, self._format, self._looked_s = folder, _FIRST, 0.0

    def check(self, fields: Fields) -> None:
        """Check that an entry would be archived.

        Raises:
            LogUnavailable: an older version archives, which does not know the kind of the entry.
        """
        wanted = format_of(fields)
        if (wanted <= self._format and time.monotonic() - self._looked_s < LOOK_EVERY_S) or wanted <= _FIRST:
            return
        self._format, self._looked_s = format_of_holder(self._folder), time.monotonic()
        if wanted > self._format:
            names = ", ".join(sorted(name.decode() for name in fields if format_of({name: b""}) > self._format))
            raise LogUnavailable(
                f"The process that archives is of an older version, which does not know {names}: it reads entries up"
                f" to format {self._format}, and this one is of format {wanted}; upgrade or stop that process first"
            )


def format_of_holder(folder: Path) -> int:
    """Up to which format the process that archives reads entries; `FORMAT` if none does."""
    if not folder.is_dir():
        return FORMAT
    mark = FileLock.try_take(folder / MARK, shared=True)
    if mark is None:
        text = (folder / MARK).read_text("ascii", errors="replace")
        return int(text) if text.isdecimal() else _FIRST
    with mark:
        lock = FileLock.try_take(folder / LOCK, shared=True)
    if lock is None:
        return _FIRST
    lock.release()
    return FORMAT
