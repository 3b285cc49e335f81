"""`NewIds`: limits how many new users and items a key may introduce per hour.

Each new id stays for good in the id tables, in every model and in every snapshot. It takes about half a kilobyte, more
with the factors of large models. Ratings of known users and items cost nothing here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection

from service.engine import fairness
from service.errors import TooManyRequests

HOUR_S = 3600.0
MAX_KEYS = 2048  # buckets: more than there are keys, and one for all clients without a key

Knows = Callable[[str], bool]


class TooManyNewIds(TooManyRequests):
    """A key has introduced more new users and items than it may."""

    slug, title, closes = "too-many-new-ids", "Too many new ids", False


class NewIds:
    """One token bucket for each key, which holds at most the ids of one hour.

    Args:
        per_hour: new ids per hour; None for no limit.
        knows_user, knows_item: whether an id exists already. An id that was just accepted and is not learned yet counts
            again.
    """

    def __init__(self, per_hour: int | None, knows_user: Knows, knows_item: Knows) -> None:
        self._per_hour, self._knows_user, self._knows_item = per_hour, knows_user, knows_item
        self._buckets: dict[bytes | None, tuple[float, float]] = {}  # key -> (tokens, at)

    def check(self, users: Collection[str], items: Collection[str]) -> None:
        """Take a token for each new id among distinct `users` and `items`.

        A request with more new ids than an hour allows passes when the bucket is full, and the next ones wait longer.

        Raises:
            TooManyNewIds: there are too few tokens; carries the seconds until there are enough. Takes no token.
        """
        if self._per_hour is None:
            return
        n_new = sum(not self._knows_user(user) for user in users) + sum(not self._knows_item(item) for item in items)
        if n_new:
            self._take(fairness.current.get().key, n_new, self._per_hour)

    def _take(self, key: bytes | None, n_new: int, per_hour: int) -> None:
        now = time.monotonic()
        tokens, at = self._buckets.get(key, (float(per_hour), now))
        tokens = min(float(per_hour), tokens + (now - at) * per_hour / HOUR_S)
        missing = min(n_new, per_hour) - tokens
        if missing > 0:
            wait_s = math.ceil(missing * HOUR_S / per_hour)
            raise TooManyNewIds(
                f"The request has {n_new:,} new users or items, and this key may introduce {per_hour:,} per hour;"
                f" try again in {wait_s} s, or leave them out",
                wait_s,
            )
        if key not in self._buckets and len(self._buckets) >= MAX_KEYS:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key] = tokens - n_new, now
