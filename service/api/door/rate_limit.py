"""`RateLimit`: how often a client address may do something, over all processes of a service."""

from __future__ import annotations

import hashlib
import math
import mmap
import secrets
import time
from typing import NamedTuple, Self

from service.api.door.auth import is_open
from service.base.errors import TooManyRequests
from service.settings.settings import Settings

BURST_S = 1.0  # seconds; a bucket has the requests that the rate allows in this time, but at least one
N_SLOTS = 1 << 14  # addresses that can be counted at the same time
N_PROBES = 8  # slots in which an address may be
N_FAILURES, FAILURES_PER_S = 10, 1.0  # wrong keys of an address at once, and then: nobody guesses a key in 10^9 s
_SLOT_BYTES = 16


class RateLimit:
    """One token bucket per client address.

    The buckets lie in memory that forked processes share. A bucket is the time at which it will be full again, so that
    one number is its whole state. There is no lock: of two processes that count a request of one address within the
    same microsecond, one count may be lost. If an address finds all its slots in use, it replaces the one that is
    full soonest.
    """

    def __init__(self, per_s: float | None, most: float | None = None, what: str = "requests") -> None:
        """Allow `per_s` per second; None allows all.

        Args:
            per_s: see above.
            most: that are allowed at once; default: as many as in `BURST_S`, at least one.
            what: is counted, for the error.
        """
        self.is_on = per_s is not None
        self._per_s, self._what = per_s, what
        self._size = max(1.0, (per_s or 0.0) * BURST_S) if most is None else most
        self._salt = secrets.token_bytes(16)  # so that no client can choose the slots of its address
        memory = memoryview(mmap.mmap(-1, _SLOT_BYTES * N_SLOTS))
        self._addresses = memory[: 8 * N_SLOTS].cast("Q")
        self._full_at = memory[8 * N_SLOTS :].cast("d")

    def check(self, path: bytes, address: str) -> None:
        """Take one token, unless the path is open to everybody.

        Raises:
            TooManyRequests: there is no token; carries the seconds until there is one.
        """
        if self._per_s is None or is_open(path):
            return
        slot, full_at = self._token(address, self._per_s)
        self._full_at[slot] = full_at + 1 / self._per_s

    def require(self, address: str) -> None:
        """Check that there is a token, for what is counted only if it fails; raises what `check` raises."""
        if self._per_s is not None:
            self._token(address, self._per_s)

    def count(self, address: str) -> None:
        """Take one token, even if there is none."""
        if self._per_s is not None:
            slot, full_at = self._slot(address, time.monotonic())
            self._full_at[slot] = full_at + 1 / self._per_s

    def _token(self, address: str, per_s: float) -> tuple[int, float]:
        now = time.monotonic()
        slot, full_at = self._slot(address, now)
        tokens = self._size - (full_at - now) * per_s
        if tokens < 1:
            wait_s = math.ceil((1 - tokens) / per_s)
            raise TooManyRequests(f"Over {per_s:.3g} {self._what} per second; try again in {wait_s} s", wait_s)
        return slot, full_at

    def _slot(self, address: str, now: float) -> tuple[int, float]:
        """The slot of `address`, and when its bucket is full, at the earliest now."""
        digest = hashlib.blake2b(address.encode(), key=self._salt, digest_size=8).digest()
        number = int.from_bytes(digest) | 1  # 0 marks a slot that was never used
        slots = [(number + probe) % N_SLOTS for probe in range(N_PROBES)]
        for slot in slots:
            if self._addresses[slot] == number:
                return slot, max(self._full_at[slot], now)
        slot = min(slots, key=self._full_at.__getitem__)
        self._addresses[slot] = number
        return slot, now


class Limits(NamedTuple):
    """The limits of a data set, made before processes are forked that share them.

    Attributes:
        requests: all of a client, as set.
        failures: keys that failed, see `service.api.door.credentials`.
    """

    requests: RateLimit
    failures: RateLimit

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The limits of a data set with these settings."""
        return cls(RateLimit(settings.rate_limit_per_s), RateLimit(FAILURES_PER_S, N_FAILURES, "wrong keys"))
