"""What operators look up: sizes, and pages of ratings and items."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from service.api.dependencies import ItemId, TheService, answers, n_listed
from service.api.door.route import Route
from service.api.operations import GetStats
from service.api.requests import Asked, Filtered, Wait
from service.engine.queries.catalog_queries import ItemList, ListItems
from service.engine.queries.fields import takes
from service.engine.queries.filter_parser import PARAMETERS
from service.engine.queries.rating_queries import AllRatings, ItemRatings, RatingPage, RatingsOfItem
from service.engine.statistics import Stats

router = APIRouter(route_class=Route)


@takes(ItemRatings, "n", "offset")
class RatingsQuery(Asked[ItemRatings]):
    """Parameters of the ratings of one item."""


@takes(AllRatings, "n", "cursor", "below", "above")
class AllRatingsQuery(Asked[AllRatings]):
    """A page of all ratings within two values."""


@takes(ListItems, "n", "cursor", "hidden")
class AdminItemsQuery(Filtered[ListItems]):
    """A page of the items that pass a filter, or of those of them that are hidden or not."""


@router.get("/items/{item}/ratings", tags=["lookups"], responses=answers(RatingsOfItem, http_404="Unknown item"))
async def list_item_ratings(item: ItemId, query: Annotated[RatingsQuery, Query()], serving: TheService) -> bytes:
    """A page of the ratings of one item, newest first; `n_ratings` is the number of all."""
    asked = query.query(item=item, n=n_listed(serving, query))
    return await serving.answer(asked, query.position)


@router.get("/admin/stats", tags=["admin"], responses=answers(Stats))
async def get_stats(query: Annotated[Wait, Query()], serving: TheService) -> bytes:
    """Sizes of the service, its log, its stream and its live models."""
    return await serving.operate(GetStats(), query.position)


@router.get("/admin/ratings", tags=["admin"], responses=answers(RatingPage))
async def list_ratings(query: Annotated[AllRatingsQuery, Query()], serving: TheService) -> bytes:
    """A page of all ratings, or of those below or above a value. It may be short although there are more."""
    asked = query.query(n=n_listed(serving, query))
    return await serving.answer(asked, query.position)


@router.get("/admin/items", tags=["admin"], responses=answers(ItemList), openapi_extra=PARAMETERS)
async def list_hidden_items(query: Annotated[AdminItemsQuery, Query()], serving: TheService) -> bytes:
    """A page of all items that are not deleted, or of those that are hidden (`hidden=true`) or not."""
    asked = query.query(n=n_listed(serving, query))
    return await serving.answer(asked, query.position)
