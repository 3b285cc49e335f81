"""The queries about ratings of one user, one item or all, and the answers to them; see `service.engine.queries`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from pydantic import Field

from service.engine.queries.forms import Count, Newest, PageCursor


class ItemRatings(Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Asks for `n` ratings of `item` after the `offset` newest, newest first."""

    item: str
    n: Count = 100
    offset: Newest = 0


class AllRatings(Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Asks for `n` ratings after `cursor` (None: the first) that are below and above these values (None: any)."""

    n: Count = 100
    cursor: PageCursor = None
    below: Annotated[float | None, Field(description="List only ratings below this value.")] = None
    above: Annotated[float | None, Field(description="List only ratings above this value.")] = None


class WasRetracted(Struct, frozen=True, tag=True):
    """Asks whether the entry `stream_id`, which has been learned, took an event back, as `RetractionTold`."""

    stream_id: str


class RetractionTold(Struct):
    """The answer about an entry that was to take an event back."""

    was_retracted: bool
    as_of: str


class RatingOfItem(Struct, gc=False):
    """One stored rating of an item; `timestamp` in Unix seconds."""

    user: str
    rating: float
    timestamp: float


class RatingsOfItem(Struct):
    """A page of the ratings of an item; `n_ratings` is the number of all ratings of the item."""

    item: str
    n_ratings: int
    ratings: list[RatingOfItem]
    as_of: str


class ListedRating(Struct, gc=False):
    """One rating of all; `timestamp` in Unix seconds."""

    user: str
    item: str
    rating: float
    timestamp: float


class RatingPage(Struct):
    """A page of all ratings, in no meaningful order; `next` is the cursor of the next page, null after the last.

    A page may have fewer ratings than wanted, or none, although there are more.
    """

    ratings: list[ListedRating]
    next: str | None
    as_of: str


class FindUser(Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Asks for `Found`; `UnknownUser` if the service knows nothing of `user`."""

    user: str


class Found(Struct):
    """The service knows ratings or events of the user."""

    user: str
    as_of: str


RatingQuery = ItemRatings | AllRatings | FindUser | WasRetracted
RatingAnswer = RatingsOfItem | RatingPage | Found | RetractionTold
