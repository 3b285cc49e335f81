"""`Grant`: what a key may do."""

from __future__ import annotations

import time
from enum import Flag, auto
from typing import NamedTuple


class Scope(Flag):
    """The permissions of a key, and the permission that a route needs."""

    READ = auto()
    WRITE = auto()
    ADMIN = auto()


READ_WRITE = Scope.READ | Scope.WRITE
ALL = READ_WRITE | Scope.ADMIN


class Grant(NamedTuple):
    """The rights of a key.

    Attributes:
        scope: what it may do.
        data_sets: the only data sets on which it may do so; None: all of them.
        key: id of the key, as the audit log names it.
        expires_s: Unix seconds from which on it may do nothing; None: it does not expire.
    """

    scope: Scope
    data_sets: frozenset[str] | None = None
    key: str = ""
    expires_s: float | None = None

    @property
    def has_expired(self) -> bool:
        """Whether the time of the key is over."""
        return self.expires_s is not None and time.time() >= self.expires_s

    def may_use(self, data_set: str) -> bool:
        """Whether the key opens `data_set`."""
        return self.data_sets is None or data_set in self.data_sets
