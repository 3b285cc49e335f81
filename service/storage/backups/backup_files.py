"""Where a backup is: a folder, or one tar file if its name ends with .tar. Written completely or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Protocol

from service.storage import files
from service.storage.backups.backup_manifest import InvalidBackup
from service.storage.log.log_manifest import Sum

TAR_SUFFIX = ".tar"
CHUNK = 1 << 20
MAX_MANIFEST_BYTES = 64 << 20  # has some hundred bytes for each of its files
OnBytes = Callable[[int], None]


class BackupTarget(Protocol):
    """Takes the files of a backup."""

    def add(self, name: str, file: IO[bytes], n_bytes: int, on_bytes: OnBytes) -> Sum:
        """Copy `n_bytes` of `file` to `name`, and return the sum of what was copied."""
        ...


@contextlib.contextmanager
def target(path: Path) -> Iterator[BackupTarget]:
    """A new backup at `path`; it appears under its name, on disk, when the block ends.

    Raises:
        FileExistsError: there is something of this name.
        OSError: the disk is full or broken; nothing is left behind.
    """
    if path.exists():
        raise FileExistsError(f"Invalid --out: expected a name that is free, got {path}, which exists")
    if path.suffix == TAR_SUFFIX:
        remove_temporaries(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.new_file(path) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            yield TarTarget(tar)
    else:
        with new_folder(path) as temporary:
            yield FolderTarget(temporary)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder, which gets the name `path` when the block ends, on disk; nothing is left if it fails.

    `path` must not exist, or be an empty folder.
    """
    remove_temporaries(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.mkdir(mode=0o700, parents=True)
    try:
        yield temporary
        for folder, _, _ in os.walk(temporary, topdown=False):
            files.sync(Path(folder))
        files.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    files.sync(path.absolute().parent)


def remove_temporaries(path: Path) -> None:
    """Remove what killed processes have left of `path`."""
    for left in path.absolute().parent.glob(f".{path.name}.*.tmp"):
        pid = left.name.split(".")[-2]
        if not pid.isdecimal():
            continue
        try:
            os.kill(int(pid), 0)
        except PermissionError:  # it runs
            continue
        except ProcessLookupError:
            shutil.rmtree(left) if left.is_dir() else left.unlink()


class FolderTarget:
    """Writes the files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, file: IO[bytes], n_bytes: int, on_bytes: OnBytes) -> Sum:
        """See `BackupTarget.add`; the file is on disk on return."""
        path = self._folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        reader = Summed(file, on_bytes)
        with path.open("wb") as copy:
            shutil.copyfileobj(reader, copy, CHUNK)
            copy.flush()
            files.fsync(copy.fileno())
        return reader.sum


class TarTarget:
    """Writes the files into an archive."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar

    def add(self, name: str, file: IO[bytes], n_bytes: int, on_bytes: OnBytes) -> Sum:
        """See `BackupTarget.add`."""
        member = tarfile.TarInfo(name)
        member.size, member.mode = n_bytes, 0o600
        reader = Summed(file, on_bytes)
        self._tar.addfile(member, reader)
        return reader.sum


class Summed(io.RawIOBase):
    """Reads a file and sums up what is read."""

    def __init__(self, file: IO[bytes], on_bytes: OnBytes) -> None:
        self._file, self._on_bytes = file, on_bytes
        self._digest, self._n_bytes = hashlib.sha256(), 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self._file.read(size)
        self._digest.update(data)
        self._n_bytes += len(data)
        self._on_bytes(len(data))
        return data

    @property
    def sum(self) -> Sum:
        """The sum of what was read so far."""
        return Sum(self._n_bytes, self._digest.hexdigest())


Opener = Callable[[str, int | None], IO[bytes]]


@contextlib.contextmanager
def source(path: Path) -> Iterator[Opener]:
    """Opens the files of the backup at `path` by name, each of which must be as long as the manifest says.

    Nothing is unpacked by the names, kinds and sizes that an archive gives: only a plain member of the name of a file,
    of its size, is read. The manifest itself, whose size nothing says, may have `MAX_MANIFEST_BYTES`.

    Raises:
        InvalidBackup: it is no backup, or a file is missing, is none, or has another size.
        FileNotFoundError: there is nothing at `path`.
    """
    if path.is_dir():
        yield lambda name, n_bytes: file_in(path, name, n_bytes)
        return
    files.open_regular(path).close()
    try:
        with tarfile.open(path, "r:", tarinfo=_Member) as tar:
            yield lambda name, n_bytes: member_of(tar, path, name, n_bytes)
    except tarfile.TarError as error:
        raise InvalidBackup(
            f"Invalid backup {path}: expected a folder or a tar file that can be read: {error}"
        ) from None


class _Member(tarfile.TarInfo):
    """A member whose size is not negative: Python before 3.11.14 reads such an archive for ever (CVE-2025-8194)."""

    def _block(self, count: int) -> int:
        if count < 0:
            raise tarfile.HeaderError("a member with a negative size")
        return super()._block(count)  # type: ignore[misc,no-any-return]


def file_in(folder: Path, name: str, n_bytes: int | None) -> IO[bytes]:
    """A file of a backup that is a folder; raises what `source` raises."""
    try:
        file = files.open_regular(folder / name)
    except OSError as error:
        raise InvalidBackup(f"Invalid backup {folder}: {name} cannot be read: {error}") from None
    try:
        check_size(folder, name, os.fstat(file.fileno()).st_size, n_bytes)
    except InvalidBackup:
        file.close()
        raise
    return file


def member_of(tar: tarfile.TarFile, path: Path, name: str, n_bytes: int | None) -> IO[bytes]:
    """A file of a backup that is a tar file; raises what `source` raises."""
    try:
        member = tar.getmember(name)
    except KeyError:
        raise InvalidBackup(f"Invalid backup {path}: expected the file {name} in it, got none") from None
    except (ValueError, OverflowError, RecursionError, IndexError) as error:  # of headers that say nonsense
        raise tarfile.ReadError(str(error)) from None
    kinds = {
        "a sparse one": member.issparse(),
        "a link": member.issym() or member.islnk(),
        "a folder": member.isdir(),
        "a device": member.isdev(),
        "something else": member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE),
    }
    if kind := next((kind for kind, is_it in kinds.items() if is_it), None):
        raise InvalidBackup(f"Invalid backup {path}: expected {name} as a plain file, got {kind}")
    check_size(path, name, member.size, n_bytes)
    file = tar.extractfile(member)
    if file is None:  # not of a plain file
        raise AssertionError(name)
    return file


def check_size(backup: Path, name: str, n_bytes: int, expected: int | None) -> None:
    """Check the size before a byte is read: a file with holes may claim to have any."""
    if expected is None and n_bytes > MAX_MANIFEST_BYTES:
        raise InvalidBackup(
            f"Invalid backup {backup}: expected {name} with at most {MAX_MANIFEST_BYTES:,} bytes, got {n_bytes:,}"
        )
    if expected is not None and n_bytes != expected:
        raise InvalidBackup(
            f"Invalid backup {backup}: expected {name} with {expected:,} bytes, got {n_bytes:,}: it is torn or altered"
        )
