"""The client of the present request, and the cost of queries: limits and the engine's queue count by client.

Costs are in list items: a plain list costs its `n + offset` items, and any other query costs the number of items that
the engine could list in the same time. A cost of 4,096 takes about two or three milliseconds.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

from gpu.ranking.topn import MAX_N
from service.engine.queries import Neighbors, Query, Ranked, Recommend, SetNeighbors, UserRatings
from service.engine.queries.catalog_queries import GetTagSizes, ListItems, ListUsers
from service.engine.queries.rating_queries import AllRatings, ItemRatings
from service.engine.queries.rules import has_rules, length_of
from service.telemetry.trace_context import Trace

MAX_COST = 4096  # of one batch, unless a single query costs more
LIGHT = 256  # highest cost of a query that does not wait for more expensive ones of the same client
IDS_AN_ITEM = 16  # ids of `exclude` and `candidates` that can be looked up in the time of one list item
MAX_RESULTS = 100_000  # items in all lists of one request: about 10 MB of answer
EXPLAINED = 8  # cost of explaining one item
OF_ALL = 1024  # cost of one pass over all users or items
AN_ITEM_OF_A_SET = 64  # cost of one item of a set whose neighbors are listed


class Client(NamedTuple):
    """The origin of a request: requests with equal address and key belong to one client.

    Attributes:
        address: as `service.api.door.client_address` determines it; empty for queries of the service itself.
        key: the verified `X-API-Key`; None if no key is needed.
    """

    address: str = ""
    key: bytes | None = None

    @property
    def trace(self) -> Trace | None:
        """The span of the present request; None if it is not recorded, as most are not."""
        return None


class TracedClient(Client):
    """The client of a request that is recorded; it is one and the same client as without the span."""

    _trace: Trace

    @classmethod
    def of(cls, client: Client, trace: Trace) -> TracedClient:
        """`client` with the span of its present request."""
        traced = cls(client.address, client.key)
        traced._trace = trace
        return traced

    @property
    def trace(self) -> Trace:
        """The span of the present request."""
        return self._trace


NOBODY = Client()
current: ContextVar[Client] = ContextVar("client", default=NOBODY)


def cost_of(query: Query) -> int:  # noqa: PLR0911 (one for each kind)
    """The cost of `query`, at least 1."""
    if isinstance(query, Recommend):
        return cost_of_list(query) * (1 if query.users is None else len(query.users))
    if isinstance(query, Ranked):
        return _width(query)
    if isinstance(query, Neighbors | ListItems | ListUsers | ItemRatings | AllRatings):
        return OF_ALL + query.n
    if isinstance(query, SetNeighbors):
        return OF_ALL + query.n + len(query.items) * AN_ITEM_OF_A_SET
    if isinstance(query, UserRatings):
        return query.n + query.offset // IDS_AN_ITEM
    if isinstance(query, GetTagSizes):
        return len(query.items)
    return 1


def cost_of_list(query: Recommend) -> int:
    """The cost of one list of `query`."""
    cost = _width(query)
    if query.exclude or query.candidates or query.ratings:
        ids = len(query.exclude) + len(query.candidates or ()) + len(query.ratings or ())
        cost += ids // IDS_AN_ITEM
    if has_rules(query):
        cost = max(cost, length_of(query)) << len(query.boosts)
    if query.explore:
        cost *= 1 + query.explore_below
    return cost + EXPLAINED * query.n if query.explain else cost


def _width(query: Ranked) -> int:
    """Items of a page with its offset; a page beyond `MAX_N` costs a full batch, because it sorts all items."""
    width = query.n + query.offset
    return width if width <= MAX_N else max(MAX_COST, query.n)
