"""`DATA/signing.key`: the key of recommendation ids, which all processes on the folder share."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from service.storage import files

KEY_FILE = "signing.key"
KEY_BYTES = 32


def read_or_make(data: Path) -> bytes:
    """The key; the first process makes it. Without the file, ids that were given before are no longer ours.

    Raises:
        OSError: the folder cannot be written or read.
    """
    path = data / KEY_FILE
    with contextlib.suppress(FileNotFoundError):
        return _read(path)
    temporary = path.with_name(f".{KEY_FILE}.{secrets.token_hex(8)}.tmp")
    temporary.touch(mode=0o600, exist_ok=False)
    try:
        temporary.write_bytes(secrets.token_bytes(KEY_BYTES))
        files.sync(temporary)
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(temporary, path)
        files.sync(data)
    finally:
        temporary.unlink()
    return _read(path)


def _read(path: Path) -> bytes:
    key = files.read_regular(path)
    if len(key) != KEY_BYTES:
        raise OSError(f"Invalid {path}: expected {KEY_BYTES} bytes, got {len(key)}; remove it to get a new one")
    return key
