"""Checks the key of a request before its body is read."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from time import monotonic

from service.api.door.grants import ALL, READ_WRITE, Grant, Scope
from service.api.door.made_keys import MadeKeys
from service.api.errors import Forbidden, NotAuthorized
from service.base.times import iso_of
from service.settings import data_sets
from service.settings.settings import Settings
from service.storage.key_file import digest_of

OPEN_PATHS = frozenset({b"/", b"/metrics", b"/docs", b"/openapi.json", b"/console"})
OPEN_PREFIXES = b"/health/", b"/docs/", b"/console/static/"
ADMIN_PREFIX = b"/admin/"
CONSOLE_PREFIX = b"/console/"  # pages for admins, who sign in: `service.extras.console` checks their sessions
# Of the whole deployment: a key for some data sets could else give itself the others.
DEPLOYMENT_PATHS = (b"/admin/keys",)
WRITTEN_PATHS = (b"/ratings", b"/events", b"/items", b"/users")
KEY_HEADERS = frozenset((b"x-api-key", b"authorization"))  # see `key_in`
READING_METHODS = ("GET", "HEAD", "OPTIONS")

KEY_SCOPES = {"api_key": READ_WRITE, "admin_key": ALL, "read_key": Scope.READ, "write_key": Scope.WRITE}


def scope_of(method: str, path: bytes) -> Scope:
    """The permission that a request needs; `path` is raw, as for the routes."""
    if path.startswith(ADMIN_PREFIX):
        return Scope.ADMIN
    return Scope.WRITE if method not in READING_METHODS and _is_below(path, WRITTEN_PATHS) else Scope.READ


class Keys:
    """The keys and their permissions on a data set. Without an admin key of the settings `api_key` opens /admin/* too.

    Every check compares keyed hashes with all keys of the settings, so that its time reveals nothing about a key or its
    length. `MadeKeys.grant_of` says why its table reveals nothing either.

    Once a key was made, every path needs a key, also when all made keys are revoked: else the last revocation would
    open the service to everybody. The keys of the settings always open what they are for.
    """

    def __init__(self, settings: Settings) -> None:
        self._salt = secrets.token_bytes(hashlib.blake2b.MAX_KEY_SIZE)
        granted: dict[bytes, Grant] = {}  # the second key of a setting has the id `admin_key:2`
        for name, scope in KEY_SCOPES.items():
            opens_all = name == "api_key" and settings.admin_key is None
            for number, key in enumerate(settings.keys(name), 1):
                key_id = name if number == 1 else f"{name}:{number}"
                granted[key.encode()] = Grant(ALL if opens_all else scope, key=key_id)
        self._grants = {self._hashed(key): grant for key, grant in granted.items()}
        self._admin_digests = [digest_of(key) for key, grant in granted.items() if Scope.ADMIN in grant.scope]
        self._guarded = Scope.ADMIN if self._grants else Scope(0)
        if settings.has_client_key:
            self._guarded |= READ_WRITE
        self._data_set = settings.data_set or data_sets.DEFAULT
        self.made = MadeKeys(settings.root)

    def need_none(self, path: bytes) -> bool:
        """`is_open` for each request: with keys that are never too old."""
        if monotonic() >= self.made.due_s:
            self.made.refresh()
        return not self.made.exist and (not self._guarded or self.is_open(path))

    @property
    def admin_of_settings(self) -> bool:
        """Whether a key of the settings opens /admin/*."""
        return any(Scope.ADMIN in grant.scope for grant in self._grants.values())

    def is_open(self, path: bytes) -> bool:
        """Whether `path` needs no key, because no key is set for paths of its kind."""
        if self.made.exist:
            return False
        of_admins = path.startswith((ADMIN_PREFIX, CONSOLE_PREFIX))
        return (Scope.ADMIN if of_admins else Scope.READ) not in self._guarded

    def check(self, method: str, path: bytes, key: bytes | None) -> bool:
        """Check that `key` permits the request; returns whether it needed a key.

        Raises:
            NotAuthorized: the key is missing or wrong.
            Forbidden: the key is valid but does not permit this.
            CorruptFile: no key of the settings, and those that were made cannot be known.
        """
        if self.is_open(path) or is_open(path) or path.startswith(CONSOLE_PREFIX):
            return False
        grant = self._grant(key)
        if grant is None:
            got = "another" if key else "none; send it in X-API-Key, or behind Bearer in Authorization"
            raise NotAuthorized(f"Invalid key: expected a key of this service, got {got}")
        if grant.expires_s is not None and grant.has_expired:
            ended = iso_of(grant.expires_s)
            raise NotAuthorized(f"Invalid key: expected a key that is valid, got one that expired at {ended}")
        scope = scope_of(method, path)
        if scope not in grant.scope:
            may = " and ".join(str(one.name).lower() for one in grant.scope)
            raise Forbidden(f"Invalid key: expected a key that may {str(scope.name).lower()}, got one that may {may}")
        if grant.data_sets is not None:
            may = ", ".join(sorted(grant.data_sets or ()))
            if _is_below(path, DEPLOYMENT_PATHS):
                raise Forbidden(f"Invalid key: expected a key for all data sets, got one for {may}")
            if not grant.may_use(self._data_set):
                raise Forbidden(f"Invalid key: expected a key for the data set {self._data_set!r}, got one for {may}")
        return True

    def admin_digests(self) -> list[bytes]:
        """SHA-256 of each key that opens /admin/* of this data set: those of the settings, and those that were made.

        Raises:
            CorruptFile: the keys that were made cannot be known now.
        """
        return [*self._admin_digests, *(self.made.admin_digests(self._data_set) if self.made.exist else ())]

    def may_manage_keys(self, key: str) -> bool:
        """Whether the key with this id opens the routes for keys: it is for admins, and for all data sets."""
        grants = [*self._grants.values(), *self.made.grants()]
        return any(one.key == key and Scope.ADMIN in one.scope and one.data_sets is None for one in grants)

    def id_of(self, key: bytes | None) -> str | None:
        """The id of a key: that of a made one, or the name of its setting; None for a wrong one.

        Raises:
            CorruptFile: no key of the settings, and those that were made cannot be known.
        """
        grant = self._grant(key)
        return None if grant is None else grant.key

    def name_of(self, key: bytes | None) -> str:
        """What names a verified key in data: its setting, so that a new value changes nothing, or the id of a made key.

        Empty without a key.
        """
        return "" if key is None else (self.id_of(key) or "").partition(":")[0]

    def _grant(self, key: bytes | None) -> Grant | None:
        """The rights of `key`; None for a wrong key."""
        if not key:
            return None
        hashed, granted = self._hashed(key), None
        for hashed_key, grant in self._grants.items():
            if hmac.compare_digest(hashed, hashed_key):
                granted = grant
        return self.made.grant_of(key) if granted is None and self.made.exist else granted

    def _hashed(self, key: bytes) -> bytes:
        return hashlib.blake2b(key, key=self._salt, digest_size=32).digest()


def key_in(headers: Mapping[bytes, bytes]) -> bytes | None:
    """The key that a request sends: in `X-API-Key`, else behind `Bearer` in `Authorization` (RFC 6750, section 2.1).

    If it has both, `X-API-Key` counts: a proxy may send an `Authorization` of its own.
    """
    if (key := headers.get(b"x-api-key")) is not None:
        return key
    kind, _, token = headers.get(b"authorization", b"").partition(b" ")
    return token.strip() if kind.lower() == b"bearer" else None


def is_open(path: bytes) -> bool:
    """Whether `path` needs neither a key nor a token of the rate limit."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def _is_below(path: bytes, heads: tuple[bytes, ...]) -> bool:
    return any(path == head or path.startswith(head + b"/") for head in heads)
