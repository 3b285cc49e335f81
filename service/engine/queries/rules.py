"""The rules of a query for its list, which `service.engine.queries.Ruled` describes, and their bounds."""

from __future__ import annotations

from service.engine.queries import Ruled

MAX_BOOSTS = 5  # each may double the passes over all items
MAX_PINS = 100
MAX_LENGTH = 1000  # items of a list with rules, with its offset: one call of the ranking gives no more
POOL = 8  # times `n`: items among which `diversity` chooses


def has_rules(query: Ruled) -> bool:
    """Whether the list of `query` is more than the best items in order."""
    return bool(query.boosts or query.pins or query.max_per is not None or query.diversity or query.rotate is not None)


def length_of(query: Ruled) -> int:
    """Items of the list that have to be known to show the page of `query`."""
    return max(query.offset + query.n, pool_of(query))


def pool_of(query: Ruled) -> int:
    """Items at the beginning of the list that `diversity` brings into another order."""
    return min(MAX_LENGTH, POOL * query.n) if query.diversity else 0
