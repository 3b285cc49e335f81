"""`DATA/sessions/`: who has signed in to the console, a file for each session, for every process that shares DATA.

The name of a file is the hash of the session's secret, which only the browser has. So a copy of the folder, or a
backup, lets nobody in: no file can be turned into a cookie. A backup leaves the folder out all the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path

import msgspec

from service.storage import files

FOLDER = "sessions"
SESSION_S = 8 * 3600  # seconds; a working day, then one signs in again
MAX_SESSIONS = 1000  # of one data set; beyond it the oldest ends


class StoredSession(msgspec.Struct, forbid_unknown_fields=True):
    """A session as it is stored.

    Attributes:
        expires_s: Unix seconds. No use of the session moves it.
        key: id of the key that has signed in, see `service.api.door.auth.Keys.id_of`.
        mark: of this key, in hexadecimal digits; only who has the secret of the session can compute it.
    """

    expires_s: int
    key: str
    mark: str


def begin(data: Path, secret: bytes, key: str, mark: bytes) -> None:
    """Begin a session; it is on disk on return. Ends those that have expired, and the oldest beyond `MAX_SESSIONS`.

    Raises:
        OSError: the disk is full or broken.
    """
    folder = data / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sessions = ((read(path), path) for path in folder.glob("[!.]*"))
    ends = sorted((0 if session is None else session.expires_s, path) for session, path in sessions)
    n_most = MAX_SESSIONS - 1
    for number, (expires_s, path) in enumerate(reversed(ends)):
        if number >= n_most or expires_s <= time.time():
            path.unlink(missing_ok=True)
    stored = StoredSession(int(time.time()) + SESSION_S, key, mark.hex())
    files.replace(path_of(data, secret), msgspec.json.encode(stored))


def find(data: Path, secret: bytes) -> StoredSession | None:
    """The session with this secret; None if there is none, or no more."""
    stored = read(path_of(data, secret))
    # The upper bound is for clocks that were set back: no session is longer than it may be.
    is_valid = stored is not None and time.time() < stored.expires_s <= time.time() + SESSION_S
    return stored if is_valid else None


def end(data: Path, secret: bytes) -> None:
    """End a session for every process, also after a restart: that is on disk on return."""
    with contextlib.suppress(FileNotFoundError):
        path_of(data, secret).unlink(missing_ok=True)
        files.sync(data / FOLDER)  # also if it is gone: the call that has removed it may have failed here


def path_of(data: Path, secret: bytes) -> Path:
    """The file of the session with this secret."""
    return data / FOLDER / hashlib.sha256(secret).hexdigest()


def read(path: Path) -> StoredSession | None:
    """The session in a file; None if there is none, or a damaged one: then one signs in again."""
    try:
        return msgspec.json.decode(files.read_regular(path), type=StoredSession)
    except (OSError, msgspec.MsgspecError):
        return None
