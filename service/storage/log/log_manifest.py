"""`LogManifest`: the segments of the rating log with their checksums, `manifest.json` in its folder.

The manifest lists every segment, in order, with its size and SHA-256; `sha256` is the digest of the list. While a
segment is rewritten under its name, the manifest lists two sums for it, and either is valid. A writer that adds, merges
or rewrites segments holds `.manifest.lock` while it changes the segment file and the manifest.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

import msgspec

from service.storage import files
from service.storage.errors import CorruptLog

MANIFEST_FILE, LOCK_FILE = "manifest.json", ".manifest.lock"
FORMAT = 1


class Sum(msgspec.Struct, frozen=True):
    """Size and digest of a segment."""

    n_bytes: int
    sha256: str

    @classmethod
    def of(cls, file: BufferedReader) -> Sum:
        """The sum of an open file; rewinds the file."""
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        n_bytes = file.tell()
        file.seek(0)
        return cls(n_bytes, digest)

    def __str__(self) -> str:
        """The sum as text for people."""
        return f"{self.n_bytes:,} bytes with SHA-256 {self.sha256[:12]}…"


Sums = dict[str, list[Sum]]  # by file name


class _Document(msgspec.Struct):
    format: int
    sha256: str
    segments: Sums


class LogManifest:
    """The manifest of one folder of segments. Any process may read it; a lock serializes changes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / MANIFEST_FILE
        self._lock = folder / LOCK_FILE

    def read(self) -> Sums:
        """All listed segments; empty if an older version wrote the log.

        Raises:
            CorruptLog: the manifest is torn or altered, or a newer version wrote it.
        """
        try:
            document = msgspec.json.decode(files.read_regular(self.path), type=_Document)
            if document.format > FORMAT:
                raise ValueError(f"format {document.format} is newer than {FORMAT}: upgrade")
            if document.sha256 != digest_of(document.segments):
                raise ValueError("its sha256 is not that of its segments")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise CorruptLog(
                f"Invalid {self.path}: expected the list of segments as it was written, got: {error}; restore it from"
                f" a backup, or remove it if you trust the segments: it is made again from them"
            ) from error
        return document.segments

    @contextlib.contextmanager
    def changing(self) -> Iterator[Sums]:
        """The list, for changes that end with `store`. No other process changes it or its files meanwhile.

        Raises:
            LockTimeout: another process holds the lock for too long.
            CorruptLog: see `read`.
        """
        with files.FileLock.take(self._lock):
            yield self.read()

    def store(self, sums: Sums) -> None:
        """Write `sums` as the new list; it is on disk on return. Call it only within `changing`.

        Raises:
            OSError: the disk is full; the old list is unchanged.
        """
        files.replace(self.path, encoded(sums))


def encoded(sums: Sums) -> bytes:
    """The content of a manifest that lists `sums`."""
    document = _Document(FORMAT, digest_of(sums), dict(sorted(sums.items())))
    return msgspec.json.format(msgspec.json.encode(document), indent=1)


def digest_of(sums: Sums) -> str:
    """The digest of a list, which the manifest has beside it."""
    return hashlib.sha256(msgspec.json.encode(sums, order="sorted")).hexdigest()
