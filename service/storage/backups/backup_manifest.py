"""`BackupManifest`: what a backup has, `backup.json` in it, with the checksum of every file."""

from __future__ import annotations

import hashlib
import re

import msgspec

from service.base.errors import ServiceError
from service.storage import data_format
from service.storage.log.log_manifest import Sum

MANIFEST_FILE = "backup.json"
FORMAT = 1
_FILE_NAME = re.compile(
    r"ratings/[0-9._]+\.parquet|ratings/manifest\.json|snapshots/[a-zA-Z0-9.-]+/[a-z0-9._]+"
    r"|live\.json|keys\.json|webhooks\.json|signing\.key"
)


class InvalidBackup(ServiceError):
    """A backup is torn or altered, or none at all; the message names the file and the reason."""

    status, slug, title = 422, "invalid-backup", "Invalid backup"


class BackupManifest(msgspec.Struct):
    """The content of one backup.

    Attributes:
        format: of this file and of the names of the others.
        nearfield: version that made it.
        position: the last entry of its rating log.
        created_ms: Unix milliseconds.
        live: versions of its live models by name.
        files: by name, which is the path in the data folder.
        data_format: of the data folder, see `service.storage.data_format`.
    """

    format: int
    nearfield: str
    position: str
    created_ms: int
    live: dict[str, str]
    files: dict[str, Sum]
    data_format: int = 1

    @property
    def n_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.n_bytes for file in self.files.values())

    def encoded(self) -> bytes:
        """The content of the file: the manifest, and its own digest in the last line."""
        content = msgspec.json.format(msgspec.json.encode(self), indent=1)
        return content + b"\n" + hashlib.sha256(content).hexdigest().encode() + b"\n"


def decoded(content: bytes) -> BackupManifest:
    """The manifest with this content.

    Raises:
        InvalidBackup: it is torn or altered, or a newer version made it.
    """
    text, _, digest = content.removesuffix(b"\n").rpartition(b"\n")
    if not text or hashlib.sha256(text).hexdigest().encode() != digest:
        raise InvalidBackup(
            f"Invalid {MANIFEST_FILE}: expected the digest of its content in the last line, got another"
        )
    try:
        manifest = msgspec.json.decode(text, type=BackupManifest)
    except msgspec.MsgspecError as error:
        raise InvalidBackup(f"Invalid {MANIFEST_FILE}: {error}; upgrade, if a newer version made it") from None
    if manifest.format > FORMAT:
        raise InvalidBackup(f"Invalid {MANIFEST_FILE}: expected format {FORMAT}, got {manifest.format}: upgrade")
    if manifest.data_format > data_format.FORMAT:
        raise InvalidBackup(
            f"Invalid {MANIFEST_FILE}: the backup was written by format {manifest.data_format}; this version reads up"
            f" to {data_format.FORMAT}: install Nearfield ≥ {manifest.nearfield}"
        )
    if bad := [name for name in manifest.files if not _FILE_NAME.fullmatch(name) or "/.." in name]:
        raise InvalidBackup(f"Invalid {MANIFEST_FILE}: expected names of files of a data folder, got {bad[0][:80]!r}")
    return manifest
