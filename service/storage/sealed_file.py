"""Sealed files: small JSON documents in DATA with secrets, shared by all processes of a service.

A file is `{"content": …, "sha256": …}`. The digest shows damage: without it, a lost line would be a revoked key, and an
altered one a new right. It does not protect against a process that may write to DATA.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from service.base.errors import Unavailable
from service.storage import files

KEYS_FILE, WEBHOOKS_FILE = NAMES = "keys.json", "webhooks.json"  # all sealed files of a data folder
_Content = TypeVar("_Content")


class CorruptFile(Unavailable):
    """A sealed file is torn or altered; the message names the file."""

    slug, title, retry_after_s = "corrupt-file", "Corrupt file", 30


class _Sealed(msgspec.Struct, forbid_unknown_fields=True):
    content: msgspec.Raw
    sha256: str


def read(path: Path, kind: type[_Content]) -> _Content | None:
    """The content of a sealed file as a `kind`; None if there is no file.

    Raises:
        CorruptFile: it is torn or altered, or cannot be read.
    """
    try:
        sealed = msgspec.json.decode(files.read_regular(path), type=_Sealed)
        content = msgspec.json.decode(sealed.content, type=kind)
        if sealed.sha256 != _digest(msgspec.json.encode(content)):
            raise ValueError("its sha256 is not that of its content")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise CorruptFile(
            f"Invalid {path}: expected it as it was written, got a torn or altered file ({error}); restore it from a"
            " backup, or remove it and make its content again"
        ) from error
    return content


def all_names() -> list[str]:
    """The names of all sealed files and of their locks."""
    return [name for file in NAMES for name in (file, lock_of(Path(file)).name)]


def all_of(data: Path) -> dict[str, bytes]:
    """The sealed files in `data` by name, for a backup. Raises `CorruptFile`."""
    paths = (data / name for name in NAMES)
    return {path.name: files.read_regular(path) for path in paths if read(path, object) is not None}


def write(path: Path, content: object) -> None:
    """Replace the file atomically, readable for its owner alone; it is on disk on return. The caller has it `locked`.

    Raises:
        OSError: the disk is full or broken; the old file is unchanged.
    """
    text = msgspec.json.encode(content)
    document = b'{"content":%b,"sha256":"%b"}' % (text, _digest(text).encode())
    files.replace(path, msgspec.json.format(document) + b"\n")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Serialize the writers of a file. Raises `LockTimeout` if another one holds the lock for too long."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with files.FileLock.take(lock_of(path)):
        yield


def lock_of(path: Path) -> Path:
    """The lock file of a sealed file."""
    return path.with_name(f".{path.stem}.lock")


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
