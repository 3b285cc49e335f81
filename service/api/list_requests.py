"""Requests for lists: which fields of `Recommend`, `Popular` and `LatestItems` each of them takes."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from service.api.requests import Asked, Filtered, ScenarioName
from service.base.limits import MAX_RATING
from service.engine.queries import LatestItems, Popular, Recommend
from service.engine.queries.few_faults import Strict, few_faults
from service.engine.queries.fields import Fields, takes
from service.engine.queries.forms import MAX_USERS, Filter, Id, RotateQuery, Time, Users
from service.engine.queries.scenario_body import PLAIN, RULES
from service.settings.event_types import MAX_TYPE_LENGTH


@takes(Popular, "n", "offset", "min_ratings", "cursor", "available", "half_life", "with_")
class PopularQuery(Filtered[Popular]):
    """Parameters of the popular items."""


@takes(LatestItems, "n", "offset", "min_ratings", "cursor", "available", "with_")
class LatestQuery(Filtered[LatestItems]):
    """Parameters of the latest items."""


@takes(Recommend, *PLAIN, "available", "cursor", rotate=(RotateQuery | None, None))
class RecommendQuery(Filtered[Recommend]):
    """Query of `GET /recommend/{user}`."""

    scenario: ScenarioName = None


class ItemRating(Strict):
    """A rating that is not stored."""

    item: Id
    rating: float = Field(ge=-MAX_RATING, le=MAX_RATING)
    timestamp: Time | None = Field(None, description="Unix seconds, a date or a datetime; default: now.")


class ExtraRating(ItemRating):
    """A rating that a user has beside the stored ones; null takes the stored one of the item away."""

    rating: float | None = Field(ge=-MAX_RATING, le=MAX_RATING)  # type: ignore[assignment]


class ItemEvent(Strict):
    """An event that is not stored."""

    item: Id
    type: str = Field(min_length=1, max_length=MAX_TYPE_LENGTH, description="One of the setting `events`.")
    value: float = Field(1.0, ge=-MAX_RATING, le=MAX_RATING, description="Multiplies the weight of the type.")
    timestamp: Time | None = Field(None, description="Unix seconds, a date or a datetime; default: now.")


Events = Annotated[
    list[ItemEvent] | None,
    Field(max_length=MAX_USERS, description="Events beside the stored ones; they add up, and nothing is stored."),
    few_faults(ItemEvent, MAX_USERS),
]


class OfRatings(Asked[Recommend]):
    """A body with ratings and events that are used once and not stored."""

    scenario: ScenarioName = None

    @cached_property
    def values(self) -> dict[str, Any]:
        """As in `Fields`; ratings and events with the oldest first, and those of one time in the order of the body."""
        values = super().values
        if values.get("ratings") is not None:
            ordered = sorted(
                values["ratings"], key=lambda rating: math.inf if rating.timestamp is None else rating.timestamp
            )
            times = [rating.timestamp for rating in ordered]
            values["ratings"] = [(rating.item, rating.rating) for rating in ordered]
            values["timestamps"] = times if any(time is not None for time in times) else None
        if values.get("events") is not None:
            values["events"] = [(event.item, event.type, event.value, event.timestamp) for event in values["events"]]
        return values


@takes(
    Recommend,
    *RULES,
    "order_half_life",
    "cursor",
    ratings=(
        Annotated[
            list[ExtraRating] | None,
            Field(max_length=MAX_USERS, description="Answer as if the user had these ratings too; nothing is stored."),
            few_faults(ExtraRating, MAX_USERS),
        ],
        None,
    ),
    events=(Events, None),
)
class RecommendBody(OfRatings):
    """Body of `POST /recommend/{user}`."""


# Each form has a tag: without one a wrong value would be told the faults that it has as each of them.
AllOrSome = Annotated[
    Annotated[Literal["all"], Tag("all")] | Annotated[list[Id], Field(min_length=1), Tag("ids")],
    Discriminator(lambda users: "ids" if isinstance(users, list) else "all"),
    Field(description="All, or the ids of some."),
]


@takes(
    Recommend,
    *(name for name in RULES if name not in ("experiment", "explain", "with_")),  # a file has one model and no room
    users=(AllOrSome, "all"),
    user_filter=(
        Annotated[Filter | None, Field(description="Lists for those of them who pass it alone; default: for all.")],
        None,
    ),
)
class ListsBody(Fields[Recommend]):
    """Body of `POST /admin/lists`: that of `POST /recommend` for lists in a file."""

    scenario: ScenarioName = None
    users: Any


@takes(Recommend, *RULES, users=Users)
class UsersBody(Asked[Recommend]):
    """Body of `POST /recommend` for several users."""

    scenario: ScenarioName = None
    users: Any


@takes(
    Recommend,
    *RULES,
    "order_half_life",
    "cursor",
    ratings=(
        Annotated[
            list[ItemRating] | None,
            Field(max_length=MAX_USERS, description="Ratings of an anonymous user; nothing is stored."),
            few_faults(ItemRating, MAX_USERS),
        ],
        None,
    ),
    events=(Events, None),
)
class AnonymousBody(OfRatings):
    """Body of `POST /recommend` for ratings and events that are used once and not stored."""

    @model_validator(mode="after")
    def _check_any(self) -> Self:
        if not (self.ratings or self.events):  # type: ignore[attr-defined]  # `takes` adds both
            raise ValueError("expected at least one rating or event, got none")
        return self
