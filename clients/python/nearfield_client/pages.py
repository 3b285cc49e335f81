"""`each`: reads listings and lists page by page."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, overload

from nearfield_client.generated.models import (
    ItemList,
    ListedItem,
    ListedRating,
    ListedUser,
    Rating,
    RatingOfItem,
    RatingPage,
    RatingsOfItem,
    RatingsOfUser,
    Recommendation,
    ScoredItem,
    UserList,
)

Page = TypeVar("Page")
Endpoint = Callable[..., Page]
LISTS = ("items", "users", "ratings")  # the list of a page is under one of these names


@overload
def each(endpoint: Endpoint[ItemList], *path: str, **query: Any) -> Iterator[ListedItem]: ...
@overload
def each(endpoint: Endpoint[UserList], *path: str, **query: Any) -> Iterator[ListedUser]: ...
@overload
def each(endpoint: Endpoint[RatingPage], *path: str, **query: Any) -> Iterator[ListedRating]: ...
@overload
def each(endpoint: Endpoint[Recommendation], *path: str, **query: Any) -> Iterator[ScoredItem]: ...
@overload
def each(endpoint: Endpoint[RatingsOfUser], *path: str, **query: Any) -> Iterator[Rating]: ...
@overload
def each(endpoint: Endpoint[RatingsOfItem], *path: str, **query: Any) -> Iterator[RatingOfItem]: ...


def each(endpoint: Endpoint[Any], *path: str, **query: Any) -> Iterator[Any]:
    """All elements of a listing, or of a list of a user until the model has no more; reads a page when it needs one.

    Args:
        endpoint: a generated function such as `list_items.sync` or `recommend_user.sync`; its `n` is the page size.
        path: its arguments in the path, such as a user.
        query: `client`, and further arguments of the function.

    Raises:
        NearfieldError: the service refused a page, or did not answer.
    """
    if "cursor" not in inspect.signature(endpoint).parameters:
        yield from _by_offset(endpoint, path, query)
        return
    cursor: Any = ""
    while isinstance(cursor, str):
        page = endpoint(*path, **{**query, "cursor": cursor})
        yield from _listed(page)
        cursor = page.next_


def _by_offset(endpoint: Endpoint[Any], path: tuple[str, ...], query: dict[str, Any]) -> Iterator[Any]:
    """Pages that begin at an offset. A rating that is given meanwhile moves later ones, so one may come twice."""
    offset = 0
    while True:
        page = endpoint(*path, **{**query, "offset": offset})
        yield from page.ratings
        offset += len(page.ratings)
        if not page.ratings or offset >= page.n_ratings:
            return


def _listed(page: Any) -> list[Any]:
    return next(getattr(page, name) for name in LISTS if hasattr(page, name))
