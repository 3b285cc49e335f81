"""`DATA/keys.json`: the keys that admin routes have made, hashed, for every process that shares DATA.

A key has 256 random bits, so SHA-256 is enough: nobody can try 2^256 keys, however fast the hash is. A slow hash, as
for passwords that people choose, would only slow down each request. The file says nothing about a key but its last
characters, by which people tell keys apart.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.base.errors import Conflict, NotFound
from service.base.times import iso_of
from service.storage import sealed_file

KEYS_FILE = sealed_file.KEYS_FILE
MAX_KEYS = 1000
PREFIX = "nf_"  # of every key, so that scanners for leaked secrets can find it
N_SHOWN = 4  # last characters of a key that are stored
_KEY_BYTES, _ID_BYTES = 32, 6

KeyScope = Literal["read", "write", "read-write", "admin"]


class UnknownKey(NotFound):
    """No made key has that id."""

    slug, title = "unknown-key", "Unknown key"


class TooManyKeys(Conflict):
    """As many keys exist as may."""

    slug, title = "too-many-keys", "Too many keys"


class LastAdminKey(Conflict):
    """Without this key, nobody could make or revoke keys."""

    slug, title = "last-admin-key", "Last admin key"


class ListedKey(Struct):
    """A key as it is listed.

    Attributes:
        id: by which it is revoked.
        name: given by its maker; several keys may have the same.
        scope: what it may do.
        data_sets: the only data sets that it opens; None: all of them.
        created_ms: Unix milliseconds at which it was made.
        ends_with: its last characters.
        expires: when it ends by itself, of ISO 8601 in UTC; None: never.
        last_used: when it was used last, give or take an hour; None: never since it was made, or restored.
    """

    id: str
    name: str
    scope: KeyScope
    data_sets: list[str] | None
    created_ms: int
    ends_with: str
    expires: str | None = None
    last_used: str | None = None


class StoredKey(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A key as it is stored.

    Attributes:
        id, name, scope, data_sets, created_ms, ends_with: as of `ListedKey`.
        sha256: its hash in hexadecimal digits.
        expires_s: Unix seconds; left out if it does not expire, so that older versions can read the file.
    """

    id: str
    name: str
    scope: KeyScope
    data_sets: list[str] | None
    created_ms: int
    ends_with: str
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    expires_s: float | None = None

    @property
    def is_full_admin(self) -> bool:
        """Whether it opens everything for good, including the routes for keys."""
        return self.scope == "admin" and self.data_sets is None and self.expires_s is None


def digest_of(key: bytes) -> bytes:
    """The hash by which a key is found."""
    return hashlib.sha256(key).digest()


def read(data: Path) -> list[StoredKey] | None:
    """All keys that were made and not revoked; None if none was ever made.

    Raises:
        CorruptFile: the file is torn or altered.
    """
    return sealed_file.read(data / KEYS_FILE, list[StoredKey])


def make(
    data: Path, name: str, scope: KeyScope, data_sets: list[str] | None, expires_s: float | None = None
) -> tuple[ListedKey, str]:
    """Make a key, which expires at `expires_s` (Unix seconds) if that is given; it is on disk on return.

    Returns:
        The key as it is listed, and the key itself, which exists nowhere else.

    Raises:
        TooManyKeys: there are `MAX_KEYS`.
        CorruptFile: see `read`.
        LockTimeout: another process holds the lock of the file.
    """
    key = PREFIX + secrets.token_urlsafe(_KEY_BYTES)
    key_id, now_ms, digest = secrets.token_hex(_ID_BYTES), int(time.time() * 1000), digest_of(key.encode()).hex()
    stored = StoredKey(key_id, name, scope, data_sets, now_ms, key[-N_SHOWN:], digest, expires_s)
    with sealed_file.locked(data / KEYS_FILE):
        keys = read(data) or []
        if len(keys) >= MAX_KEYS:
            raise TooManyKeys(f"Invalid key: expected at most {MAX_KEYS:,} keys, got one more; revoke one first")
        sealed_file.write(data / KEYS_FILE, [*keys, stored])
    return listed(stored), key


def revoke(data: Path, key_id: str, *, others_are_admins: bool) -> ListedKey:
    """Revoke a key; the file is on disk on return, and stays when it has no key left.

    Args:
        data: the folder.
        key_id: the `id` of the key.
        others_are_admins: whether a key outside the file opens everything.

    Raises:
        UnknownKey: no key has that id.
        LastAdminKey: it is the last one that opens everything.
        CorruptFile, LockTimeout: see `make`.
    """
    with sealed_file.locked(data / KEYS_FILE):
        keys = read(data) or []
        left = [key for key in keys if key.id != key_id]
        if len(left) == len(keys):
            raise UnknownKey(f"Invalid key: expected the id of a key that was made, got {key_id[:64]!r}")
        revoked = next(key for key in keys if key.id == key_id)
        if revoked.is_full_admin and not others_are_admins and not any(key.is_full_admin for key in left):
            raise LastAdminKey(
                f"Invalid key: expected one that others can do without, got {key_id!r}, the last that may manage keys;"
                " make another admin key first, one that does not expire, or set NEARFIELD_ADMIN_KEY"
            )
        sealed_file.write(data / KEYS_FILE, left)
    return listed(revoked)


def listed(key: StoredKey, used_s: float | None = None) -> ListedKey:
    """The key without its hash; `used_s`: its last use in Unix seconds."""
    expires, last_used = (None if seconds is None else iso_of(seconds) for seconds in (key.expires_s, used_s))
    return ListedKey(
        id=key.id,
        name=key.name,
        scope=key.scope,
        data_sets=key.data_sets,
        created_ms=key.created_ms,
        ends_with=key.ends_with,
        expires=expires,
        last_used=last_used,
    )
