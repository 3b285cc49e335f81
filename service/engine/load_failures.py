"""`LoadFailures`: the versions that this process could not load, and those that ended earlier starts.

A process writes a file before it loads a version, holds a lock on it, and removes it afterward. A file that nobody
holds is from a process that ended meanwhile: by a signal, for want of memory, or by force. A version with two of them
is left out, as the third start would end like the others.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Collection, Iterator
from pathlib import Path

import structlog

from gpu.base.errors import NotEnoughMemory
from service.storage.errors import CorruptSnapshot
from service.storage.files import FileLock
from service.storage.snapshots.version_names import shown
from service.telemetry.metrics import Metrics

FOLDER = "loading"  # in DATA
MOST_ENDS = 2  # processes that may end while they load a version

_log = structlog.get_logger(__name__)


class LoadFailures:
    """Belongs to the thread of hot swap, but for `reason_of`, `left_out`, `try_again` and `end`.

    Attributes:
        wanted: the versions that should be live.
    """

    def __init__(self, data: Path, metrics: Metrics) -> None:
        """Prepare; `data` is DATA."""
        self._folder, self._metrics = data / FOLDER, metrics
        self.wanted: Collection[str] = ()
        self._reasons: dict[str, str] = {}
        self._without_room: set[str] = set()  # failed versions that did not fit into memory
        self._marks: dict[Path, FileLock] = {}  # of this process

    def reason_of(self, version: str) -> str | None:
        """Why `version` could not be loaded; None if it was not tried or is live."""
        return self._reasons.get(version)

    def left_out(self) -> list[str]:
        """The wanted versions that could not be loaded, without revisions, in order."""
        return sorted(shown(version) for version in self.wanted if version in self._reasons)

    def lacks_room(self, version: str) -> bool:
        """Whether it failed for want of memory, which another process may free."""
        return version in self._without_room

    def is_due(self, version: str, *, has_other: bool) -> bool:
        """Whether to load it: `has_other` says whether another version of its name answers meanwhile."""
        return version not in self._reasons or (self.lacks_room(version) and not has_other)

    def note(self, name: str, version: str, error: Exception, still_live: str | None) -> None:
        """Keep the failure of `version`, which should be live under `name`; log and count it once for all attempts."""
        if version not in self._reasons:
            self._metrics.swaps.labels(name, "failed").inc()
            _log.error("model cannot be loaded", version=version, still_live=still_live, error=str(error))
        self._reasons[version] = f"{type(error).__name__}: {error}"
        if isinstance(error, NotEnoughMemory):
            self._without_room.add(version)

    def try_again(self, version: str) -> None:
        """Forget why `version` could not be loaded, and the processes that ended meanwhile."""
        self._reasons.pop(version, None)
        for path in self._ends(version):
            path.unlink(missing_ok=True)

    def end(self) -> None:
        """Take back the marks of this process, which ends in order, perhaps while it loads a version."""
        for path in list(self._marks):
            self._take_back(path)

    @contextlib.contextmanager
    def attempt(self, version: str) -> Iterator[None]:
        """Mark that this process loads `version`, until the block ends.

        Raises:
            CorruptSnapshot: too many processes ended while they loaded it.
        """
        if len(self._ends(version)) >= MOST_ENDS:
            raise CorruptSnapshot(
                f"snapshot {version}: {MOST_ENDS} processes ended while they loaded it, so it is left out;"
                f" POST /admin/models/{shown(version)}/activate tries it again"
            )
        path = self._folder / f"{version}~{secrets.token_hex(4)}"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            mark = FileLock.try_take(path)
        except OSError as error:  # the disk is full: to load the version is worth more than to count
            _log.warning("a mark of loading a model cannot be written", error=str(error))
            mark = None
        if mark is not None:
            self._marks[path] = mark
        try:
            yield
        finally:
            self._take_back(path)

    def _take_back(self, path: Path) -> None:
        if (mark := self._marks.pop(path, None)) is not None:
            path.unlink(missing_ok=True)
            mark.release()

    def _ends(self, version: str) -> list[Path]:
        """The marks of processes that ended while they loaded `version`."""
        return [path for path in self._folder.glob(f"{version}~*") if _is_free(path)]


def _is_free(path: Path) -> bool:
    """Whether no process holds the lock of a file that is there."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # its process has taken it back
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
