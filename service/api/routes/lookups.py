"""Neighbors, estimates and ratings of one user or item."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from service.api.dependencies import GONE, ItemId, TheService, UserId, answers, check_n, n_listed
from service.api.door.route import Route
from service.api.parsers.filter_parser import PARAMETERS
from service.api.schemas.common_schemas import NoParameters
from service.api.schemas.list_schemas import (
    EstimateQuery,
    ItemNeighborsQuery,
    NeighborsQuery,
    SetBody,
)
from service.api.schemas.listing_schemas import ListQuery, RatingsQuery
from service.engine.queries import (
    Estimate,
    ItemNeighbors,
    Neighbors,
    NeighborsOfSet,
    RatingEstimate,
    RatingsOfUser,
    UserNeighbors,
    UserRatings,
)
from service.engine.queries.catalog_queries import ListUsers, UserList

router = APIRouter(route_class=Route, tags=["lookups"])


@router.get(
    "/items/{item}/neighbors",
    responses=answers(ItemNeighbors, http_404="Unknown item, or no live model of that name", http_410=GONE),
    openapi_extra=PARAMETERS,
)
async def list_item_neighbors(
    item: ItemId, query: Annotated[ItemNeighborsQuery, Query()], serving: TheService
) -> bytes:
    """The items most similar to one item."""
    check_n(serving, query.n)
    asked = Neighbors(
        kind="item",
        id=item,
        n=query.n,
        model=query.model,
        filter=query.filter,
        available=query.available,
        cursor=query.cursor,
    )
    return await serving.answer(asked, query.position)


@router.post(
    "/neighbors",
    responses=answers(NeighborsOfSet, http_404="No known item, or no live model of that name", http_410=GONE),
)
async def list_set_neighbors(body: SetBody, query: Annotated[NoParameters, Query()], serving: TheService) -> bytes:
    """The items most similar to several items together."""
    check_n(serving, body.n)
    return await serving.answer(body.query, body.position)


@router.get(
    "/users/{user}/neighbors",
    responses=answers(UserNeighbors, http_404="Unknown user, or no live model of that name", http_410=GONE),
)
async def list_user_neighbors(user: UserId, query: Annotated[NeighborsQuery, Query()], serving: TheService) -> bytes:
    """The users most similar to one user."""
    check_n(serving, query.n)
    asked = Neighbors(kind="user", id=user, n=query.n, model=query.model, cursor=query.cursor)
    return await serving.answer(asked, query.position)


@router.get("/users", responses=answers(UserList))
async def list_users(query: Annotated[ListQuery, Query()], serving: TheService) -> bytes:
    """A page of all users who are not forgotten, in an order that stays when users come and go."""
    return await serving.answer(ListUsers(n=n_listed(serving, query), cursor=query.cursor), query.position)


@router.get("/estimate/{user}/{item}", responses=answers(RatingEstimate, http_404="No live model"))
async def estimate_rating(
    user: UserId, item: ItemId, query: Annotated[EstimateQuery, Query()], serving: TheService
) -> bytes:
    """How the user would rate the item."""
    return await serving.answer(Estimate(user=user, item=item, model=query.model), query.position)


@router.get("/users/{user}/ratings", responses=answers(RatingsOfUser, http_404="Unknown user"))
async def list_user_ratings(user: UserId, query: Annotated[RatingsQuery, Query()], serving: TheService) -> bytes:
    """A page of the ratings of one user, newest first; `n_ratings` is the number of all."""
    asked = UserRatings(user=user, n=n_listed(serving, query), offset=query.offset)
    return await serving.answer(asked, query.position)
