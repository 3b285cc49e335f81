"""`DATA/live.json`: the live version of each model name, for every process that shares DATA and after a restart.

The file also has `sha256`, a digest of the names and versions, by which an altered file is detected. A file of an older
version lacks it and gets it when the file is next written.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from service.errors import CorruptLiveFile
from service.storage import files, snapshot, version_names

LIVE_FILE, LOCK_FILE = "live.json", ".live.lock"
_DIGEST = "sha256"
_NAME = re.compile(r"[a-z][a-z-]*")


def read(data: Path) -> dict[str, str]:
    """Name to version; empty if nothing was ever live.

    Raises:
        CorruptLiveFile: the file is torn or altered.
    """
    path = data / LIVE_FILE
    try:
        versions = msgspec.json.decode(files.read_regular(path), type=dict[str, str])
        _check(versions, versions.pop(_DIGEST, None))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise CorruptLiveFile(
            f"Invalid {path}: expected the versions that are live, as they were written, got a torn or altered file"
            f" ({error}); restore it, or remove it and activate a version of each model"
        ) from error
    return versions


def set_version(data: Path, name: str, version: str) -> None:
    """Make `version` live under `name`; it is on disk on return.

    Raises:
        CorruptLiveFile: see `read`; only an operator may remove the file.
        LockTimeout: another process holds the lock of the file.
    """
    with _locked(data):
        _write(data, {**read(data), name: version})


def seal(data: Path) -> None:
    """Add the digest to the file of an older version. Raises what `set_version` raises."""
    with _locked(data):
        if versions := read(data):
            _write(data, versions)


def activate(data: Path, name: str, version: str) -> None:
    """`set_version` for a snapshot, which no other process can remove meanwhile.

    Raises:
        UnknownVersion: it is gone.
        CorruptLiveFile, LockTimeout: see `set_version`.
    """
    with _locked(data):
        snapshot.path_of(data / "snapshots", version)
        _write(data, {**read(data), name: version})


def retire(data: Path, version: str, successor: str | None) -> bool:
    """Remove a snapshot. If it is live, make `successor` live first; without a successor a live snapshot stays.

    Returns:
        Whether it was removed.

    Raises:
        CorruptLiveFile, LockTimeout: see `set_version`.
    """
    with _locked(data):
        versions, name = read(data), version_names.name_of(version)
        if versions.get(name) == version:
            if successor is None:
                return False
            _write(data, {**versions, name: successor})
        snapshot.remove(data / "snapshots", version)
        return True


def prune(data: Path, name: str) -> list[str]:
    """Remove all versions of `name` but the live one and the two newest others; return the removed ones."""
    with _locked(data):
        version = read(data).get(name)
        return [] if version is None else snapshot.prune(data / "snapshots", name, version)


@contextlib.contextmanager
def _locked(data: Path) -> Iterator[None]:
    """Serialize writers: none may overwrite another's change, or make a version live that another removes."""
    with files.FileLock.take(data / LOCK_FILE):
        yield


def _write(data: Path, versions: dict[str, str]) -> None:
    files.replace(data / LIVE_FILE, encoded(versions))


def encoded(versions: dict[str, str]) -> bytes:
    """The content of the file for these versions by name."""
    document = versions | {_DIGEST: _digest(versions)}
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"))


def _check(versions: dict[str, str], digest: str | None) -> None:
    if digest is not None and digest != _digest(versions):
        raise ValueError(f"its {_DIGEST} is not that of its names and versions")
    for name, version in versions.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:64]!r} is no name of a model")
        if not version_names.is_version(version, name):
            raise ValueError(f"{version[:64]!r} is no version of {name}")


def _digest(versions: dict[str, str]) -> str:
    return hashlib.sha256(msgspec.json.encode(versions, order="sorted")).hexdigest()
