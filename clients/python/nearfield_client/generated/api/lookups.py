"""The operations of the tag lookups. Made by `make clients` from the OpenAPI document of the service."""
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import Literal

from nearfield_client.generated.models import (
    EventsOfUser,
    ItemNeighbors,
    ListItemNeighborsFilter,
    ListItemUsersFilter,
    ListUsersFilter,
    NeighborsOfSet,
    RatingEstimate,
    RatingsOfItem,
    RatingsOfUser,
    SetBody,
    UserList,
    UserNeighbors,
    UsersOfItem,
)
from nearfield_client.operation import operation
from nearfield_client.session import Session


@operation("GET", "/items/{item}/neighbors")
def list_item_neighbors(
    item: str,
    *,
    client: Session,
    wait_for: str | None = None,
    n: int | None = None,
    model: str | None = None,
    cursor: str | None = None,
    available: bool | None = None,
    with_: Literal["title"] | None = None,
    filter_: ListItemNeighborsFilter | None = None,
) -> ItemNeighbors:
    """The items most similar to one item.

    Args:
        item: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        model: Name of a live model; default: the first of `default_models`.
        cursor: Empty: begin to read page by page. Else `next` of the page before, with equal parameters.
        available: Whether to leave out items that are not available now.
        with_: Add to each item its title, if it has one.
        filter_: `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`.
    """
    ...


@operation("GET", "/items/{item}/users")
def list_item_users(
    item: str,
    *,
    client: Session,
    wait_for: str | None = None,
    n: int | None = None,
    model: str | None = None,
    filter_: ListItemUsersFilter | None = None,
) -> UsersOfItem:
    """The users who would like an item most, of those with ratings who have not seen it and who pass a filter.

    Args:
        item: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        model: Name of a live model; default: the first of `default_models`.
        filter_: `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`.
    """
    ...


@operation("POST", "/neighbors")
def list_set_neighbors(*, client: Session, body: SetBody) -> NeighborsOfSet:
    """The items most similar to several items together."""
    ...


@operation("GET", "/users/{user}/neighbors")
def list_user_neighbors(
    user: str,
    *,
    client: Session,
    wait_for: str | None = None,
    n: int | None = None,
    model: str | None = None,
    cursor: str | None = None,
) -> UserNeighbors:
    """The users most similar to one user.

    Args:
        user: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        model: Name of a live model; default: the first of `default_models`.
        cursor: Empty: begin to read page by page. Else `next` of the page before, with equal parameters.
    """
    ...


@operation("GET", "/users")
def list_users(
    *,
    client: Session,
    wait_for: str | None = None,
    n: int | None = None,
    cursor: str | None = None,
    filter_: ListUsersFilter | None = None,
) -> UserList:
    """A page of all users who are not forgotten, or of those who pass a filter.

    The order stays when users come and go.

    Args:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        cursor: `next` of the page before; empty or by default: the first page.
        filter_: `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`.
    """
    ...


@operation("GET", "/estimate/{user}/{item}")
def estimate_rating(
    user: str, item: str, *, client: Session, wait_for: str | None = None, model: str | None = None
) -> RatingEstimate:
    """How the user would rate the item.

    Args:
        user: Percent-encoded, so any character may occur in it.
        item: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        model: Name of a live model; default: the first of `default_models`.
    """
    ...


@operation("GET", "/users/{user}/ratings")
def list_user_ratings(
    user: str, *, client: Session, wait_for: str | None = None, n: int | None = None, offset: int | None = None
) -> RatingsOfUser:
    """A page of the ratings of one user, newest first; `n_ratings` is the number of all.

    Args:
        user: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        offset: How many of the newest to leave out.
    """
    ...


@operation("GET", "/users/{user}/events")
def list_user_events(
    user: str, *, client: Session, wait_for: str | None = None, n: int | None = None, offset: int | None = None
) -> EventsOfUser:
    """What the events of one user add up to, item by item, newest first; `n_items` is the number of all items.

    Args:
        user: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        offset: How many of the newest to leave out.
    """
    ...


@operation("GET", "/items/{item}/ratings")
def list_item_ratings(
    item: str, *, client: Session, wait_for: str | None = None, n: int | None = None, offset: int | None = None
) -> RatingsOfItem:
    """A page of the ratings of one item, newest first; `n_ratings` is the number of all.

    Args:
        item: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        offset: How many of the newest to leave out.
    """
    ...
