"""`/console/user`: attributes, ratings and events of a user; the list with reasons, also without one of the ratings.

`/console/users`: all users.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, NamedTuple

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheService
from service.engine.queries import (
    EventsOfUser,
    RatingsOfUser,
    Recommend,
    Recommendation,
    ScoredItem,
    UserEvents,
    UserRatings,
)
from service.engine.queries.catalog_queries import GetUser, ListUsers, UserDetails, UserList
from service.engine.queries.forms import Id, Offset, PageCursor
from service.extras.console.pages import Part, page, part, titles_of
from service.extras.console.visit import console_router

N_LISTED, N_RATINGS = 10, 50

router = console_router()
ItemOrNone = Annotated[Id | None, Query()]


class Line(NamedTuple):
    """A line of a list; `before` is its place in the list with all ratings, None if it was not there."""

    item: ScoredItem
    before: int | None


class Shown(NamedTuple):
    """A list as the page shows it.

    Attributes:
        answer: of the service.
        lines: its items.
        gone: items of the list with all ratings that are not in it.
        largest: the largest contribution of a reason; bars have this length.
    """

    answer: Recommendation
    lines: list[Line]
    gone: list[str]
    largest: float

    @classmethod
    def of(cls, answer: Recommendation, before: Recommendation) -> Shown:
        """A list beside the one with all ratings."""
        places = {line.item: place for place, line in enumerate(before.items, 1)}
        lines = [Line(item, places.get(item.item)) for item in answer.items]
        gone = [item for item in places if item not in {line.item.item for line in lines}]
        sizes = [abs(reason.contribution) for line in lines for reason in line.item.reasons or ()]
        return cls(answer, lines, gone, max(sizes, default=0.0) or 1.0)


@router.get("/user")
async def get_user(
    request: Request,
    serving: TheService,
    id: Annotated[Id, Query()],
    without: ItemOrNone = None,
    offset: Offset = 0,
    events_offset: Offset = 0,
) -> Response:
    """The page. `without` is a rated item: the list is as if the user had not rated it.

    `offset` and `events_offset` are the newest ratings and items of events that are left out.
    """
    n, n_ratings = (min(most, serving.settings.max_n) for most in (N_LISTED, N_RATINGS))
    asked = Recommend(user=id, n=n, explain=True)
    attributes, ratings, events, list_ = await asyncio.gather(
        part(serving.answer(GetUser(id)), UserDetails),
        part(serving.answer(UserRatings(user=id, n=n_ratings, offset=offset)), RatingsOfUser),
        part(serving.answer(UserEvents(user=id, n=n_ratings, offset=events_offset)), EventsOfUser),
        part(serving.answer(asked), Recommendation),
    )
    if without is not None and list_.error is None:
        imagined = Recommend(user=id, n=n, explain=True, ratings=[(without, None)])
        before, list_ = list_, await part(serving.answer(imagined), Recommendation)
    else:
        before = list_
    shown = list_ if list_.error else Part(Shown.of(list_.value, before.value))
    values: dict[str, Any] = {"user": id, "without": without, "offset": offset, "n_ratings": n_ratings}
    values["events_offset"] = events_offset
    of_page = [without] if without is not None else list[str]()
    of_page += [] if ratings.error else [rating.item for rating in ratings.value.ratings]
    of_page += [] if events.error else [event.item for event in events.value.events]
    if not shown.error:
        lines: list[Line] = shown.value.lines
        of_page += [*shown.value.gone, *(line.item.item for line in lines)]
        of_page += [reason.item for line in lines for reason in line.item.reasons or ()]
    titles = await titles_of(serving, of_page)
    return page(
        request,
        "user.html",
        attributes=attributes,
        ratings=ratings,
        events=events,
        shown=shown,
        titles=titles,
        **values,
    )


@router.get("/users")
async def get_users(request: Request, serving: TheService, cursor: PageCursor = None) -> Response:
    """A page of all users."""
    asked = ListUsers(n=min(N_RATINGS, serving.settings.max_n), cursor=cursor)
    return page(request, "users.html", users=await part(serving.answer(asked), UserList))
