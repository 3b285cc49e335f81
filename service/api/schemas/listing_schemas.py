"""Schemas of requests for listings, exports, and lists of all users."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from service.api.schemas.common_schemas import Wait
from service.api.schemas.list_schemas import MAX_OFFSET, Count, FilterParameters
from service.engine.queries import UserRatings
from service.engine.queries.catalog_queries import ListUsers

ListingCursor = Annotated[str | None, AfterValidator(lambda text: text or None)]
_OF_USER = UserRatings(user="")


class ListQuery(Wait):
    """A page of all there are."""

    n: Count = ListUsers().n
    cursor: ListingCursor = Field(None, description="`next` of the page before; empty or by default: the first page.")


class ItemsQuery(FilterParameters, ListQuery):
    """A page of the items that pass a filter."""


class RatingsQuery(Wait):
    """Parameters of the ratings of one user or item."""

    n: Count = _OF_USER.n
    offset: Annotated[int, Field(ge=0, le=MAX_OFFSET, description="How many of the newest to leave out.")] = (
        _OF_USER.offset
    )


class AllRatingsQuery(ListQuery):
    """A page of all ratings within two values."""

    below: float | None = Field(None, description="List only ratings below this value.")
    above: float | None = Field(None, description="List only ratings above this value.")


class AdminItemsQuery(ItemsQuery):
    """A page of the items that pass a filter, or of those of them that are hidden or not."""

    hidden: bool | None = Field(None, description="Whether to list hidden items or others; default: both.")
