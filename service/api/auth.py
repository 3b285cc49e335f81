"""Checks the key of a request before its body is read."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from enum import Flag, auto

from service.errors import Forbidden, NotAuthorized
from service.settings import Settings

OPEN_PATHS = frozenset({b"/", b"/metrics", b"/docs", b"/openapi.json"})
OPEN_PREFIXES = b"/health/", b"/docs/"
ADMIN_PREFIX = b"/admin/"
WRITTEN_PATHS = (b"/ratings", b"/events", b"/items")
READING_METHODS = ("GET", "HEAD", "OPTIONS")


class Scope(Flag):
    """The permissions of a key, and the permission that a route needs."""

    READ = auto()
    WRITE = auto()
    ADMIN = auto()


KEY_SCOPES = {
    "api_key": Scope.READ | Scope.WRITE,
    "admin_key": Scope.READ | Scope.WRITE | Scope.ADMIN,
    "read_key": Scope.READ,
    "write_key": Scope.WRITE,
}


def scope_of(method: str, path: bytes) -> Scope:
    """The permission that a request needs; `path` is raw, as for the routes."""
    if path.startswith(ADMIN_PREFIX):
        return Scope.ADMIN
    is_written = any(path == one or path.startswith(one + b"/") for one in WRITTEN_PATHS)
    return Scope.WRITE if is_written and method not in READING_METHODS else Scope.READ


class Keys:
    """The keys and their permissions. Without an admin key, `api_key` opens /admin/* too.

    Every check compares keyed hashes with all keys, so that its time reveals nothing about a key or its length.
    """

    def __init__(self, settings: Settings) -> None:
        self._salt = secrets.token_bytes(hashlib.blake2b.MAX_KEY_SIZE)
        self._scopes = {
            self._hashed(key.encode()): scope for name, scope in KEY_SCOPES.items() for key in settings.keys(name)
        }
        if settings.admin_key is None:
            self._scopes |= {self._hashed(key.encode()): KEY_SCOPES["admin_key"] for key in settings.keys("api_key")}
        self._guarded = Scope.ADMIN if self._scopes else Scope(0)
        if settings.has_client_key:
            self._guarded |= Scope.READ | Scope.WRITE
        self.is_none_set = not self._scopes

    def is_open(self, path: bytes) -> bool:
        """Whether `path` needs no key, because no key is set for paths of its kind."""
        return (Scope.ADMIN if path.startswith(ADMIN_PREFIX) else Scope.READ) not in self._guarded

    def check(self, method: str, path: bytes, key: bytes | None) -> None:
        """Check that `key` permits the request.

        Raises:
            NotAuthorized: the key is missing or wrong.
            Forbidden: the key is valid but does not permit this.
        """
        if self.is_open(path) or is_open(path):
            return
        granted = self._granted(key)
        if granted is None:
            got = "another" if key else "none"
            raise NotAuthorized(f"Invalid X-API-Key: expected a key of this service, got {got}")
        scope = scope_of(method, path)
        if scope not in granted:
            may = " and ".join(str(one.name).lower() for one in granted)
            raise Forbidden(
                f"Invalid X-API-Key: expected a key that may {str(scope.name).lower()}, got one that may {may}"
            )

    def _granted(self, key: bytes | None) -> Scope | None:
        """The permissions of `key`; None for a wrong key."""
        if key is None:
            return None
        hashed, granted = self._hashed(key), None
        for hashed_key, scope in self._scopes.items():
            if hmac.compare_digest(hashed, hashed_key):
                granted = scope
        return granted

    def _hashed(self, key: bytes) -> bytes:
        return hashlib.blake2b(key, key=self._salt, digest_size=32).digest()


def is_open(path: bytes) -> bool:
    """Whether `path` needs neither a key nor a token of the rate limit."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)
