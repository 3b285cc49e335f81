"""Whose request is being answered, and what a query costs: the limits and the queue of the engine count by client.

A query costs as many items of lists as the engine could make in its time, so that no client can take all of it. A plain
list costs its `n + offset` items. 4,096 of them take two or three milliseconds, and so does about everything else that
costs as much here.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

from gpu.ranking.topn import MAX_N
from service.engine.queries import Neighbors, Popular, Query, Recommend, UserRatings

MAX_COST = 4096  # of a batch that is answered together, unless one query alone costs more
LIGHT = 256  # up to here a query does not wait for others of the same client that cost more
IDS_AN_ITEM = 16  # ids of `exclude` and `candidates` that are looked up in the time that an item of a list takes
MAX_RESULTS = 100_000  # in all lists of one request: about 10 MB of an answer
EXPLAINED = 8  # times what an item costs if it is explained
OF_ALL = 1024  # to look at each user or item once


class Client(NamedTuple):
    """Who asks: requests that agree in both are of one client.

    Attributes:
        address: as `service.api.client_address` names it; empty for what the service asks itself.
        key: `X-API-Key` as given, checked before; None where no key is needed.
    """

    address: str = ""
    key: bytes | None = None


NOBODY = Client()
current: ContextVar[Client] = ContextVar("client", default=NOBODY)


def cost_of(query: Query) -> int:
    """The cost of `query`; 1 at least."""
    if isinstance(query, Recommend):
        return cost_of_list(query) * (1 if query.users is None else len(query.users))
    if isinstance(query, Popular):
        return _width(query)
    if isinstance(query, Neighbors):
        return OF_ALL + query.n
    if isinstance(query, UserRatings):
        return query.n + query.offset // IDS_AN_ITEM
    return 1


def cost_of_list(query: Recommend) -> int:
    """The cost of one list of `query`."""
    cost = _width(query)
    if query.exclude or query.candidates or query.ratings:
        ids = len(query.exclude) + len(query.candidates or ()) + len(query.ratings or ())
        cost += ids // IDS_AN_ITEM
    return cost + EXPLAINED * query.n if query.explain else cost


def _width(query: Recommend | Popular) -> int:
    """Of a page far down all items are put in order."""
    width = query.n + query.offset
    return width if width <= MAX_N else max(MAX_COST, query.n)
