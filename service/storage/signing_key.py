"""The key of `service.signing`, which is in Redis, and its copy `DATA/signing.key`.

All replicas of a stream share a Redis, so its key counts. The copy is what front processes read and what a backup
holds. A Redis without a key, such as a new one after a restore, gets that of the copy.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from service.errors import NotReady
from service.signing import KEY_BYTES
from service.storage import files
from service.storage.streams.stream import Stream

KEY_FILE = "signing.key"


def agree(data: Path, stream: Stream) -> bytes:
    """The key of all processes with this Redis; the first of them makes it. The copy has it on return.

    Raises:
        StreamUnavailable: Redis is gone.
        OSError: the folder cannot be written or read.
    """
    own = _copy(data)
    key = stream.signing_key(own or secrets.token_bytes(KEY_BYTES))
    if key != own:
        _write(data, key)
    return key


def read(data: Path) -> bytes:
    """The copy of the key.

    Raises:
        NotReady: no process on this folder has agreed on a key yet.
    """
    if (key := _copy(data)) is None:
        raise NotReady(f"{data / KEY_FILE} is missing or torn: the service writes it when it starts")
    return key


def _copy(data: Path) -> bytes | None:
    """The copy; None if there is none, or a torn one."""
    try:
        key = files.read_regular(data / KEY_FILE)
    except FileNotFoundError:
        return None
    return key if len(key) == KEY_BYTES else None


def _write(data: Path, key: bytes) -> None:
    """Replace the copy; replicas may do it at the same time, with the same key."""
    path = data / KEY_FILE
    temporary = path.with_name(f".{KEY_FILE}.{secrets.token_hex(8)}.tmp")
    temporary.touch(mode=0o600, exist_ok=False)
    try:
        temporary.write_bytes(key)
        files.sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    files.sync(data)
