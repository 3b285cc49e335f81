"""`NewIds`: limits how many new users and items, and names of attributes, a key may introduce per hour.

Each new id stays for good in the id tables, in every model and in every snapshot. It takes about half a kilobyte, more
with the factors of large models. Ratings of known users and items cost nothing here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection

from service.base.errors import TooManyRequests
from service.engine import fairness

HOUR_S = 3600.0
MAX_KEYS = 2048  # buckets: more than there are keys, and one for all clients without a key

Knows = Callable[[str], bool]
Buckets = dict[bytes | None, tuple[float, float]]  # key -> (tokens, at)


class TooManyNewIds(TooManyRequests):
    """A key has introduced more new users and items than it may."""

    slug, title, closes = "too-many-new-ids", "Too many new ids", False


class TooManyNewNames(TooManyRequests):
    """A key has introduced more new names of tags and numbers than it may."""

    slug, title, closes = "too-many-new-names", "Too many new names", False


class NewIds:
    """A token bucket for the ids of each key, and one for its names, which hold at most those of one hour.

    Args:
        per_hour: new ids per hour; None for no limit.
        knows_user, knows_item: whether an id exists already. An id that was just accepted and is not learned yet counts
            again.
        names_per_hour: new names of tags and numbers per hour. Every item that has one takes memory for it, and the
            whole catalog has room for few.
    """

    def __init__(
        self, per_hour: int | None, knows_user: Knows, knows_item: Knows, names_per_hour: int | None = None
    ) -> None:
        self._names_per_hour = names_per_hour
        self._per_hour, self._knows_user, self._knows_item = per_hour, knows_user, knows_item
        self._buckets, self._name_buckets = Buckets(), Buckets()

    def check(self, users: Collection[str], items: Collection[str]) -> None:
        """Take a token for each new id among distinct `users` and `items`.

        A request with more new ids than an hour allows passes when the bucket is full, and the next ones wait longer.

        Raises:
            TooManyNewIds: there are too few tokens; carries the seconds until there are enough. Takes no token.
        """
        if self._per_hour is None:
            return
        n_new = sum(not self._knows_user(user) for user in users) + sum(not self._knows_item(item) for item in items)
        if wait_s := _taken(self._buckets, n_new, min(n_new, self._per_hour), self._per_hour):
            raise TooManyNewIds(
                f"The request has {n_new:,} new users or items, and this key may introduce {self._per_hour:,} per hour;"
                f" try again in {wait_s} s, or leave them out",
                wait_s,
            )

    def check_names(self, n_new: int) -> None:
        """Take a token for each of `n_new` names that no item has yet.

        Raises:
            TooManyNewNames: there are too few tokens; carries the seconds until they are enough or all.
        """
        per_hour = self._names_per_hour
        if per_hour is not None and (wait_s := min(_taken(self._name_buckets, n_new, n_new, per_hour), int(HOUR_S))):
            raise TooManyNewNames(
                f"The request has {n_new:,} new names of tags and numbers, and this key may introduce {per_hour:,} per"
                f" hour; try again in {wait_s} s with at most {per_hour:,}, or set NEARFIELD_MAX_NEW_NAMES_PER_HOUR",
                wait_s,
            )


def _taken(buckets: Buckets, n_tokens: int, needed: int, per_hour: int) -> int:
    """Take `n_tokens` from the bucket of the present client if it has `needed`; else return the seconds until it has.

    0: they were taken. A bucket may owe tokens.
    """
    if not n_tokens:
        return 0
    key, now = fairness.current.get().key, time.monotonic()
    tokens, at = buckets.get(key, (float(per_hour), now))
    tokens = min(float(per_hour), tokens + (now - at) * per_hour / HOUR_S)
    if needed > tokens:
        return math.ceil((needed - tokens) * HOUR_S / per_hour)
    if key not in buckets and len(buckets) >= MAX_KEYS:
        del buckets[next(iter(buckets))]
    buckets[key] = tokens - n_tokens, now
    return 0
