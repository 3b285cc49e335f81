"""`/console/item`: attributes, neighbors and a histogram of ratings; `/console/items`; and `/console/search`, by id."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from fastapi import Query
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheService
from service.engine.queries import ItemNeighbors, Neighbors, RatingsOfUser, UserRatings
from service.engine.queries.catalog_queries import GetItem, ItemDetails, ItemList, ListItems
from service.engine.queries.forms import Id, PageCursor
from service.engine.queries.rating_queries import ItemRatings, RatingsOfItem
from service.extras.console.pages import page, part, titles_of, to
from service.extras.console.visit import console_router
from service.storage.item_changes import MAX_TITLE_BYTES

N_NEIGHBORS, N_BINS, N_ITEMS = 10, 10, 50
TheId = Annotated[Id, Query()]
Search = Annotated[str, Query(max_length=MAX_TITLE_BYTES)]

router = console_router()


class Bin(NamedTuple):
    """A bar of a histogram: a value or a range of values, and how many ratings it has."""

    label: str
    n: int


@router.get("/item")
async def get_item(request: Request, serving: TheService, id: TheId) -> Response:
    """The page."""
    n = serving.settings.max_n
    item, neighbors, ratings = await asyncio.gather(
        part(serving.answer(GetItem(id)), ItemDetails),
        part(serving.answer(Neighbors(kind="item", id=id, n=min(N_NEIGHBORS, n))), ItemNeighbors),
        part(serving.answer(ItemRatings(item=id, n=n)), RatingsOfItem),
    )
    bins = [] if ratings.error else histogram([rating.rating for rating in ratings.value.ratings])
    near = [] if neighbors.error else [line.item for line in neighbors.value.neighbors]
    titles = await titles_of(serving, [id, *near])
    values: dict[str, Any] = {"neighbors": neighbors, "ratings": ratings, "bins": bins, "titles": titles}
    return page(request, "item.html", id=id, item=item, **values)


@router.get("/items")
async def get_items(request: Request, serving: TheService, search: Search = "", cursor: PageCursor = None) -> Response:
    """A page of all items, or those whose titles begin with a text."""
    asked = ListItems(n=min(N_ITEMS, serving.settings.max_n), cursor=cursor)
    asked = structs.replace(asked, search=search) if search else asked
    items = await part(serving.answer(asked), ItemList)
    titles = {} if items.error else {item.item: item.title for item in items.value.items if item.title is not None}
    return page(request, "items.html", items=items, search=search, titles=titles)


@router.get("/search")
async def search(request: Request, serving: TheService, id: TheId) -> Response:
    """The page of the user or the item with this id; a choice if there are both. Else items whose titles begin so."""
    user, item = await asyncio.gather(
        part(serving.answer(UserRatings(user=id, n=1)), RatingsOfUser), part(serving.answer(GetItem(id)), ItemDetails)
    )
    if (user.error is None) != (item.error is None):
        return to("user" if user.error is None else "item", id=id)
    if user.error is not None:  # there are none
        named = await part(serving.answer(ListItems(n=1, search=id)), ItemList)
        if named.error is None and named.value.items:
            return to("items", search=id)
    return page(request, "search.html", id=id, user=user, item=item)


def histogram(values: Sequence[float]) -> list[Bin]:
    """How often each value occurs, if they are few, else how many are in each of `N_BINS` equal ranges."""
    counts = Counter(values)
    if len(counts) <= N_BINS:
        return [Bin(f"{value:g}", counts[value]) for value in sorted(counts)]
    numbers, edges = np.histogram(values, N_BINS)
    ends = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return [Bin(f"{low:.3g} to {high:.3g}", n) for (low, high), n in zip(ends, numbers.tolist(), strict=True)]
