"""The key of `service.base.signing`, which is in Redis, and its copy `DATA/signing.key`.

All replicas of a stream share a Redis, so its key counts. The copy is what front processes read and what a backup
holds. A Redis without a key, such as a new one after a restore, gets that of the copy. Cursors and recommendation ids
last as long as the key, so the log says by name when it changes, and a damaged copy is never replaced by a new key.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import structlog

from service.base.errors import NotReady, ServiceError
from service.base.signing import KEY_BYTES
from service.storage import files
from service.storage.streams.stream import Stream

KEY_FILE = "signing.key"
ROTATE_FILE = "signing.key.rotate"
VOID = "cursors and recommendation ids that clients have from before are refused"
VALID = "cursors and recommendation ids stay valid"
_log = structlog.get_logger(__name__)


class DamagedSigningKey(ServiceError):
    """The copy is damaged, and Redis has no key that could replace it."""

    slug, title = "damaged-signing-key", "Damaged signing key"


def agree(data: Path, stream: Stream) -> bytes:
    """The key of all processes with this Redis; the first of them makes it. The copy has it on return.

    With a file `signing.key.rotate` in DATA it is a new key, and the file is removed.

    Raises:
        DamagedSigningKey: the copy has no key, and Redis has none either.
        StreamUnavailable: Redis is gone.
        OSError: the folder cannot be written or read.
    """
    path, rotate = data / KEY_FILE, data / ROTATE_FILE
    if rotate.exists():  # the operator asks to replace the key
        stream.signing_key(secrets.token_bytes(KEY_BYTES), replace=True)
        path.unlink(missing_ok=True)
        rotate.unlink(missing_ok=True)
        _log.warning(f"the signing key is replaced, as {ROTATE_FILE} asks; {VOID}", file=str(path))
    content = content_of(data)
    copy = content if content is not None and len(content) == KEY_BYTES else None
    proposal = secrets.token_bytes(KEY_BYTES) if content is None else copy
    key = stream.signing_key(proposal)
    if key is None or len(key) != KEY_BYTES:
        raise DamagedSigningKey(
            f"Invalid {path}: expected {KEY_BYTES} bytes, got {len(content or b'')}, and Redis has no such key either;"
            f" put the file of a backup in its place, or remove it: then {VOID}"
        )
    if content is not None and copy is None:
        _log.error(
            f"the signing key on the disk was damaged and is written again from Redis; {VALID}",
            file=str(path),
            bytes=len(content),
        )
    elif copy is not None and key != copy:
        _log.warning(f"the signing key on the disk is not that of Redis, which replaces it; {VOID}", file=str(path))
    elif content is None and key == proposal and (data / "ratings").is_dir() and any((data / "ratings").iterdir()):
        _log.warning(f"neither the disk nor Redis had the signing key, so there is a new one; {VOID}", file=str(path))
    if key != copy:
        # Replicas may replace the copy at the same time, by the same key.
        temporary = path.with_name(f".{KEY_FILE}.{secrets.token_hex(8)}.tmp")
        temporary.touch(mode=0o600, exist_ok=False)
        try:
            temporary.write_bytes(key)
            files.sync(temporary)
            files.rename(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    files.sync(data)  # also when the copy is there: an earlier start may have failed here
    return key


def read(data: Path) -> bytes:
    """The copy of the key.

    Raises:
        NotReady: no process on this folder has agreed on a key yet.
    """
    key = content_of(data)
    if key is None or len(key) != KEY_BYTES:
        raise NotReady(f"{data / KEY_FILE} is missing or torn: the service writes it when it starts")
    return key


def content_of(data: Path) -> bytes | None:
    """What the copy has; None if there is none."""
    try:
        return files.read_regular(data / KEY_FILE)
    except FileNotFoundError:
        return None
