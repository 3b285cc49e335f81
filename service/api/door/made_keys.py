"""`MadeKeys`: the keys of `DATA/keys.json` as a process sees them, never older than `MAX_AGE_S`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import structlog

from service.api.door.grants import ALL, READ_WRITE, Grant, Scope
from service.storage import key_file
from service.storage.key_file import KeyScope
from service.storage.key_uses import KeyUses
from service.storage.sealed_file import CorruptFile

# Seconds that a revoked key may still open what it is for, in every process that shares DATA. A look takes 20 µs.
MAX_AGE_S = 0.25
# Seconds. Two changes within one tick of the clock of a file system can look equal: a file this young is read again.
YOUNG_S = 2.0
SCOPES: dict[KeyScope, Scope] = {"read": Scope.READ, "write": Scope.WRITE, "read-write": READ_WRITE, "admin": ALL}

_log = structlog.get_logger(__name__)


class MadeKeys:
    """The keys that admin routes have made.

    Reads happen on requests, not in a thread: a process whose threads are late still refuses a key that was revoked.

    Attributes:
        exist: whether a key was ever made: the file exists, or existed since this process started. A file that goes
            meanwhile takes its keys with it and opens nothing.
        fault: why the keys cannot be known now; None if they are.
        uses: when these keys were used.
        due_s: when the next look is due, as `time.monotonic()` tells it.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._seen: tuple[int, int, int] | None = None
        self._is_young = False
        self._grants: dict[bytes, Grant] = {}
        self.uses = KeyUses(data)
        self.exist = False
        self.fault: CorruptFile | None = None
        self.due_s = 0.0
        self.refresh()

    def refresh(self) -> None:
        """Read the file if it has changed."""
        try:
            descriptor = os.open(self._data / key_file.KEYS_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:  # `_read` tells a missing file from others
            seen, changed_s = None, 0.0
        else:  # network file systems show the present state of a file only to those who open it
            state = os.fstat(descriptor)
            os.close(descriptor)
            seen, changed_s = (state.st_ino, state.st_mtime_ns, state.st_size), state.st_mtime
        if seen is None or seen != self._seen or self._is_young:
            self._read()
            self._is_young = time.time() - changed_s < YOUNG_S
        self._seen = seen
        self.due_s = time.monotonic() + MAX_AGE_S

    def grant_of(self, key: bytes) -> Grant | None:
        """The rights of a key; None for a wrong one.

        The digest of what a client sends is looked up in a table. Its time may show how a digest differs from stored
        ones, which helps nobody to find a key of 256 random bits with such a digest.

        Raises:
            CorruptFile: the keys cannot be known now.
        """
        if self.fault is not None:
            raise self.fault
        grant = self._grants.get(key_file.digest_of(key))
        if grant is not None and not grant.has_expired:
            self.uses.note(grant.key)
        return grant

    def grants(self) -> list[Grant]:
        """The rights of all keys; of none while they cannot be known."""
        return list(self._grants.values())

    def admin_digests(self, data_set: str) -> list[bytes]:
        """The digest of each key that opens /admin/* of `data_set`. Raises what `grant_of` raises."""
        if self.fault is not None:
            raise self.fault
        return [
            digest
            for digest, grant in self._grants.items()
            if Scope.ADMIN in grant.scope and grant.may_use(data_set) and not grant.has_expired
        ]

    def _read(self) -> None:
        fault = None
        try:
            keys = key_file.read(self._data)
            if keys is None and self.exist:
                raise CorruptFile(
                    f"Invalid {self._data / key_file.KEYS_FILE}: expected the keys that were made, got no file; restore"
                    " it from a backup, or restart the service to go on without these keys"
                )
        except CorruptFile as error:
            keys, fault = [], error
        if fault is not None and str(fault) != str(self.fault):
            _log.error("the keys that were made cannot be used", error=str(fault))
        self.exist = self.exist or keys is not None
        self._grants = {
            bytes.fromhex(key.sha256): Grant(
                SCOPES[key.scope],
                None if key.data_sets is None else frozenset(key.data_sets),
                key.id,
                key.expires_s,
            )
            for key in keys or ()
        }
        self.fault = fault
