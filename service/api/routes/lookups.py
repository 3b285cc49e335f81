"""Neighbors, estimates and ratings of one user or item."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from service.api.dependencies import GONE, ItemId, TheService, UserId, answers, check_n, n_listed
from service.api.door.route import Route
from service.api.requests import Asked, Filtered, NoParameters
from service.engine.queries import (
    Estimate,
    EventsOfUser,
    ItemNeighbors,
    ItemUsers,
    Neighbors,
    NeighborsOfSet,
    RatingEstimate,
    RatingsOfUser,
    SetNeighbors,
    UserEvents,
    UserNeighbors,
    UserRatings,
    UsersOfItem,
)
from service.engine.queries.catalog_queries import ListUsers, UserList
from service.engine.queries.fields import takes
from service.engine.queries.filter_parser import PARAMETERS

router = APIRouter(route_class=Route, tags=["lookups"])


@takes(Neighbors, "n", "model", "cursor")
class NeighborsQuery(Asked[Neighbors]):
    """Parameters of the neighbors of a user."""


@takes(Neighbors, "n", "model", "cursor", "available", "with_")
class ItemNeighborsQuery(Filtered[Neighbors]):
    """Parameters of the neighbors of an item."""


@takes(ItemUsers, "n", "model")
class ItemUsersQuery(Filtered[ItemUsers]):
    """Parameters of the users for an item."""


@takes(SetNeighbors, "items", "n", "model", "filter", "available", "cursor", "with_")
class SetBody(Asked[SetNeighbors]):
    """Body of `POST /neighbors`."""


@takes(Estimate, "model")
class EstimateQuery(Asked[Estimate]):
    """Parameters of an estimate."""


@takes(ListUsers, "n", "cursor")
class UsersQuery(Filtered[ListUsers]):
    """A page of all users, or of those who pass a filter."""


@takes(UserRatings, "n", "offset")
class RatingsQuery(Asked[UserRatings]):
    """Parameters of the ratings of one user."""


@takes(UserEvents, "n", "offset")
class EventsQuery(Asked[UserEvents]):
    """Parameters of the events of one user."""


@router.get(
    "/items/{item}/neighbors",
    responses=answers(ItemNeighbors, http_404="Unknown item, or no live model of that name", http_410=GONE),
    openapi_extra=PARAMETERS,
)
async def list_item_neighbors(
    item: ItemId, query: Annotated[ItemNeighborsQuery, Query()], serving: TheService
) -> bytes:
    """The items most similar to one item."""
    asked = query.query(kind="item", id=item)
    check_n(serving, asked.n)
    return await serving.answer(asked, query.position)


@router.get(
    "/items/{item}/users",
    responses=answers(UsersOfItem, http_404="Unknown or deleted item, or no live model of that name"),
    openapi_extra=PARAMETERS,
)
async def list_item_users(item: ItemId, query: Annotated[ItemUsersQuery, Query()], serving: TheService) -> bytes:
    """The users who would like an item most, of those with ratings who have not seen it and who pass a filter."""
    asked = query.query(item=item)
    check_n(serving, asked.n)
    return await serving.answer(asked, query.position)


@router.post(
    "/neighbors",
    responses=answers(NeighborsOfSet, http_404="No known item, or no live model of that name", http_410=GONE),
)
async def list_set_neighbors(body: SetBody, query: Annotated[NoParameters, Query()], serving: TheService) -> bytes:
    """The items most similar to several items together."""
    asked = body.query()
    check_n(serving, asked.n)
    return await serving.answer(asked, body.position)


@router.get(
    "/users/{user}/neighbors",
    responses=answers(UserNeighbors, http_404="Unknown user, or no live model of that name", http_410=GONE),
)
async def list_user_neighbors(user: UserId, query: Annotated[NeighborsQuery, Query()], serving: TheService) -> bytes:
    """The users most similar to one user."""
    asked = query.query(kind="user", id=user)
    check_n(serving, asked.n)
    return await serving.answer(asked, query.position)


@router.get("/users", responses=answers(UserList), openapi_extra=PARAMETERS)
async def list_users(query: Annotated[UsersQuery, Query()], serving: TheService) -> bytes:
    """A page of all users who are not forgotten, or of those who pass a filter.

    The order stays when users come and go.
    """
    return await serving.answer(query.query(n=n_listed(serving, query)), query.position)


@router.get("/estimate/{user}/{item}", responses=answers(RatingEstimate, http_404="No live model"))
async def estimate_rating(
    user: UserId, item: ItemId, query: Annotated[EstimateQuery, Query()], serving: TheService
) -> bytes:
    """How the user would rate the item."""
    return await serving.answer(query.query(user=user, item=item), query.position)


@router.get("/users/{user}/ratings", responses=answers(RatingsOfUser, http_404="Unknown user"))
async def list_user_ratings(user: UserId, query: Annotated[RatingsQuery, Query()], serving: TheService) -> bytes:
    """A page of the ratings of one user, newest first; `n_ratings` is the number of all."""
    asked = query.query(user=user, n=n_listed(serving, query))
    return await serving.answer(asked, query.position)


@router.get("/users/{user}/events", responses=answers(EventsOfUser, http_404="Unknown user"))
async def list_user_events(user: UserId, query: Annotated[EventsQuery, Query()], serving: TheService) -> bytes:
    """What the events of one user add up to, item by item, newest first; `n_items` is the number of all items."""
    asked = query.query(user=user, n=n_listed(serving, query))
    return await serving.answer(asked, query.position)
