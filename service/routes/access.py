"""Who may call what, and how often: checked before anything of the body is read."""

from __future__ import annotations

import hmac
import math
import time
from collections import OrderedDict

from pydantic import SecretStr

from service.errors import NotAuthorized, TooManyRequests
from service.settings import Settings

OPEN_PATHS = frozenset({b"/metrics", b"/docs", b"/openapi.json"})
OPEN_PREFIX = b"/health/"
ADMIN_PREFIX = b"/admin/"
MAX_BUCKETS = 10_000
BURST_S = 1.0  # a bucket holds what the rate allows in one second, and one request at least


class Keys:
    """The two keys. Without an admin key /admin/* is guarded by the other one, if that is set."""

    def __init__(self, settings: Settings) -> None:
        self._api, self._admin = _bytes(settings.api_key), _bytes(settings.admin_key)
        self.is_none_set = self._api is None and self._admin is None

    def is_open(self, path: bytes) -> bool:
        """Whether no key is set that guards `path`, or paths of its kind."""
        return self._guard(path) is None

    def check(self, path: bytes, given: bytes | None) -> None:
        """Return if `given` opens `path`.

        Raises:
            NotAuthorized: the key is missing or wrong.
        """
        guard = self._guard(path)
        if guard is None or is_open(path):
            return
        if given is not None:
            # Both comparisons always run: how long this takes says nothing about either key.
            matches = hmac.compare_digest(given, guard) | hmac.compare_digest(given, self._admin or guard)
            if matches:
                return
        raise NotAuthorized(f"Invalid X-API-Key: expected the key of this route, got {'another' if given else 'none'}")

    def _guard(self, path: bytes) -> bytes | None:
        return self._admin or self._api if path.startswith(ADMIN_PREFIX) else self._api


class RateLimit:
    """One token bucket per client address; the least recently seen address is forgotten beyond ten thousand."""

    def __init__(self, per_s: float | None) -> None:
        self.is_on = per_s is not None
        self._per_s = per_s
        self._size = max(1.0, (per_s or 0.0) * BURST_S)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address -> (tokens, at)

    def check(self, path: bytes, address: str) -> None:
        """Take one token.

        Raises:
            TooManyRequests: there is none; carries the seconds until there is.
        """
        if self._per_s is None or is_open(path):
            return
        now = time.monotonic()
        tokens, at = self._buckets.pop(address, (self._size, now))
        tokens = min(self._size, tokens + (now - at) * self._per_s)
        self._buckets[address] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if tokens < 1:
            wait_s = math.ceil((1 - tokens) / self._per_s)
            raise TooManyRequests(f"Over {self._per_s:g} requests per second; try again in {wait_s} s", wait_s)


def is_open(path: bytes) -> bool:
    """Whether `path` needs neither key nor token."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIX)


def _bytes(key: SecretStr | None) -> bytes | None:
    return None if key is None else key.get_secret_value().encode()
