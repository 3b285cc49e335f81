"""Files that several processes share: locks with deadlines, atomic replacement, reading of regular files only.

`NEARFIELD_FAULT_AT` is for tests: `rename:3` ends the process by SIGKILL just before its third rename, `fsync:2:ENOSPC`
fails its second fsync as a full disk would. Every rename and fsync of durable files goes through this module.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import signal
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO

from service.storage.errors import DataInUse, LockTimeout

LOCK_TIMEOUT_S = 10.0
DATA_LOCK = ".lock"  # in DATA: one `serve` with an embedded Redis per folder
_POLL_S = 0.02
_FAULT_AT = os.environ.get("NEARFIELD_FAULT_AT", "")
_reached: Counter[str] = Counter()


class FileLock:
    """A lock on a file, exclusive or shared. The kernel frees it when the last process that holds it ends.

    Attributes:
        descriptor: file descriptor; a child process that inherits it holds the lock too.
    """

    def __init__(self, descriptor: int) -> None:
        """Own the descriptor of a locked file; use `take` or `try_take`."""
        self.descriptor = descriptor

    @classmethod
    def try_take(cls, path: Path, *, shared: bool = False) -> FileLock | None:
        """The lock on `path`, or None while another process holds it. Creates a missing file.

        Raises:
            OSError: `path` is not a regular file, or cannot be opened.
        """
        # O_NONBLOCK: opening a pipe of that name would wait for a writer that never comes.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        try:
            _check_regular(descriptor, path)
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    @classmethod
    def take(cls, path: Path, timeout_s: float = LOCK_TIMEOUT_S, *, shared: bool = False) -> FileLock:
        """Wait for the lock on `path`.

        Raises:
            LockTimeout: another process holds it for longer than `timeout_s`.
            OSError: see `try_take`.
        """
        deadline = time.monotonic() + timeout_s
        while (lock := cls.try_take(path, shared=shared)) is None:
            if time.monotonic() > deadline:
                raise LockTimeout(
                    f"Lock {path}: another process has held it for {timeout_s:g} s; find that process (fuser {path})"
                    f" and stop it"
                )
            time.sleep(_POLL_S)
        return lock

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> FileLock:
        """Return the lock itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Release the lock."""
        self.release()


def open_regular(path: Path) -> BufferedReader:
    """Open `path` for reading.

    Raises:
        OSError: it is missing, or not a regular file: reading a pipe or a device might never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _check_regular(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, most: int | None = None) -> bytes:
    """All bytes of `path`, at most `most` if it is given. Raises what `open_regular` raises.

    Raises:
        OSError: also if the file is longer than `most`.
    """
    with open_regular(path) as file:
        if most is not None and (n_bytes := os.fstat(file.fileno()).st_size) > most:
            raise OSError(f"Invalid file {path}: expected at most {most:,} bytes, got {n_bytes:,}")
        return file.read()


def sha256_of(path: Path) -> str:
    """SHA-256 of `path` in hexadecimal digits. Raises what `open_regular` raises."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace(path: Path, content: bytes) -> None:
    """Replace the content of `path` atomically: readers see the old file or the new one. It is on disk on return.

    Only its owner may read the new file, whatever the umask is.

    Two processes must not replace a file at the same time: take a lock.

    Raises:
        OSError: the disk is full or broken; the old file is unchanged.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
        file.flush()
        fsync(file.fileno())
    rename(temporary, path)
    sync(path.parent)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which replaces `path` when the block ends, on disk; nothing is left of it if the block fails.

    Raises:
        OSError: the disk is full or broken; `path` is unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            fsync(file.fileno())
        rename(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.absolute().parent)


def sync(path: Path) -> None:
    """Return when the file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync(descriptor: int) -> None:
    """Return when the open file or folder is on the disk."""
    _fault_point("fsync")
    os.fsync(descriptor)


def rename(source: Path, target: Path) -> None:
    """Rename `source` to `target` atomically; the rename is on disk after `sync` of the folder."""
    _fault_point("rename")
    source.rename(target)


def _fault_point(kind: str) -> None:
    if not _FAULT_AT:
        return
    _reached[kind] += 1
    if f"{kind}:{_reached[kind]}" == _FAULT_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    if f"{kind}:{_reached[kind]}:ENOSPC" == _FAULT_AT:
        raise OSError(errno.ENOSPC, "No space left on device (NEARFIELD_FAULT_AT)")


def open_to_others(data: Path, names: Iterable[str]) -> list[Path]:
    """The files of `names` in `data` that other users can read, if they know the way to it."""
    open_paths = []
    for path in (data / name for name in names):
        with contextlib.suppress(OSError):
            open_paths += [path] if path.stat().st_mode & 0o077 else []
    return open_paths


def close_to_others(data: Path, ours: frozenset[str]) -> None:
    """Create the folder DATA if needed, and deny all other users access to it.

    If the folder has other files too, it may be a home or a shared folder: then only our files are closed.

    Args:
        data: the folder.
        ours: names of the files and folders of the service in it.

    Raises:
        OSError: the folder cannot be created.
    """
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = {entry.name for entry in data.iterdir()}
    paths = [data / name for name in names & ours]
    for path in [data, *paths] if names <= ours else paths:
        with contextlib.suppress(PermissionError):  # another user owns it, as with a mounted volume
            mode = stat.S_IMODE(path.lstat().st_mode)
            if mode & 0o077 and not path.is_symlink():
                path.chmod(mode & 0o700)


def _check_regular(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(f"Invalid file {path}: expected a regular file, got a pipe, a device or a folder")


class DataLock:
    """An exclusive lock on DATA/.lock, a file with the pid of the process that holds it."""

    def __init__(self, data: Path) -> None:
        """Take the lock; create the folder if needed.

        Raises:
            DataInUse: another process holds it; the message names its pid.
        """
        data.mkdir(parents=True, exist_ok=True)
        self._file = os.open(data / DATA_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise DataInUse(
                f"The data folder {data} is in use by process {pid}: stop that process first, or choose another folder"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._file)
