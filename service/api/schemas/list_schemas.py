"""Schemas of requests for lists, neighbors and estimates. Defaults come from `queries`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from service.api.parsers.few_faults import few_faults
from service.api.parsers.filter_parser import PREFIXES, BadParameter, tree_of_parameters
from service.api.schemas.common_schemas import Id, Strict, Wait
from service.api.schemas.rule_schemas import (
    Boosts,
    Diversity,
    Filter,
    HalfLife,
    MaxPer,
    Pins,
    Rotate,
    fields_of,
)
from service.base.limits import MAX_RATING
from service.base.times import IN_MILLISECONDS, unix_seconds
from service.engine.queries import Fallback, LatestItems, Popular, Recommend, SetNeighbors
from service.engine.queries.filter_tree import text_of
from service.storage.events import LATEST_EVENT_S

MAX_OFFSET = 1_000_000_000
MAX_USERS = 1000  # users of one request, and ratings of one anonymous request
MAX_EXPLORE_BELOW = 20  # ratings; each number below is a ranking of its own
MAX_SET = 100  # items whose neighbors are asked for together
MAX_CURSOR = 80_000  # characters
MAX_ITEMS = 10_000  # items in each of `candidates` and `exclude`
NO_FIELDS: Mapping[str, Any] = {}
FIELDS = frozenset(Recommend.__struct_fields__)
_DEFAULT = Recommend()

Items = Annotated[list[Id], Field(max_length=MAX_ITEMS), few_faults(Id, MAX_ITEMS)]
Count = Annotated[int, Field(ge=1, description="How many results.")]
Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET, description="How many of the best to leave out.")]
MinRatings = Annotated[int, Field(ge=0, description="Show only items that have at least this many ratings now.")]


def _in_seconds(value: float) -> float:
    if value > LATEST_EVENT_S:
        raise ValueError(IN_MILLISECONDS.format(f"{value:.15g}"))
    return value


Time = Annotated[
    float,
    BeforeValidator(lambda value: unix_seconds(value) if isinstance(value, str) else value),
    AfterValidator(_in_seconds),
]
OrderHalfLife = Annotated[
    float | None,
    Field(gt=0, le=1e6, description="Newer ratings after which a rating weighs half; default: all weigh alike."),
]
Cursor = Annotated[
    str | None,
    Field(
        max_length=MAX_CURSOR,
        description="Empty: begin to read page by page. Else `next` of the page before, with equal parameters.",
    ),
]
ModelName = Annotated[Id | None, Field(description="Name of a live model; default: the first of `default_models`.")]


ScenarioName = Annotated[Id | None, Field(description="Its body counts where the request names no field itself.")]
Available = Annotated[bool, Field(description="Whether to leave out items that are not available now.")]


class FilterParameters(Strict):
    """The parameters of a query whose names begin with `tag.`, `min.` or `max.`, as one filter."""

    _filter: str | None = PrivateAttr(None)

    @property
    def filter(self) -> str | None:
        """The canonical text of the filter; None if there is none."""
        return self._filter

    @model_validator(mode="wrap")
    @classmethod
    def _take_filter(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        given = {name: text for name, text in value.items() if name.startswith(PREFIXES)}
        made = handler({name: text for name, text in value.items() if name not in given})
        if given:
            try:
                made._filter = text_of(tree_of_parameters(given))
            except BadParameter as error:
                fault = PydanticCustomError("filter", "{reason}", {"reason": str(error)})
                line = InitErrorDetails(type=fault, loc=(error.name,), input=None)
                raise ValidationError.from_exception_data("query", [line]) from None
        return made


class FilterQuery(FilterParameters):
    """A filter of a list of recommendations."""

    available: Available = _DEFAULT.available


class Page(Wait):
    """A slice of a ranked list."""

    n: Count = Popular().n
    offset: Offset = Popular().offset
    min_ratings: MinRatings = Popular().min_ratings
    cursor: Cursor = _DEFAULT.cursor


class PopularQuery(FilterQuery, Page):
    """Parameters of the popular items."""

    half_life: str | None = Field(
        None, max_length=8, description="One of the setting `half_lives`: what is one half-life older counts half."
    )

    @property
    def query(self) -> Popular:
        """The query for the engine."""
        return Popular(half_life=self.half_life, **_page_of(self))


class LatestQuery(FilterQuery, Page):
    """Parameters of the latest items."""

    @property
    def query(self) -> LatestItems:
        """The query for the engine."""
        return LatestItems(**_page_of(self))


def _page_of(query: PopularQuery | LatestQuery) -> dict[str, Any]:
    return {name: getattr(query, name) for name in LatestItems.__struct_fields__ if hasattr(query, name)}


class NeighborsQuery(Wait):
    """Parameters of the neighbor lists."""

    n: Count = _DEFAULT.n
    model: ModelName = None
    cursor: Cursor = _DEFAULT.cursor


class ItemNeighborsQuery(FilterQuery, NeighborsQuery):
    """Parameters of the neighbors of an item."""


class EstimateQuery(Wait):
    """Parameters of an estimate."""

    model: ModelName = None


class Filters(Strict):
    """Filters and options of a recommendation, in a query or in a body."""

    n: Count = _DEFAULT.n
    offset: Offset = _DEFAULT.offset
    exclude: Items = Field([], description="Items never to show; repeat the parameter for several.")
    include_seen: bool = Field(_DEFAULT.include_seen, description="Whether items that the user rated may be shown.")
    min_ratings: MinRatings = _DEFAULT.min_ratings
    model: ModelName = _DEFAULT.model
    experiment: Id | None = Field(_DEFAULT.experiment, description="Experiment whose arm for the user names the model.")
    explain: bool = Field(_DEFAULT.explain, description="Add to each item the ratings that most raise its score.")
    fallback: Fallback = Field(
        _DEFAULT.fallback, description="For an unknown user: popular, trending or latest items, or none (404)."
    )
    explore: float = Field(_DEFAULT.explore, ge=0, le=1, description="Share of places for items with few ratings.")
    explore_below: int = Field(
        _DEFAULT.explore_below, ge=1, le=MAX_EXPLORE_BELOW, description="They have fewer ratings than this."
    )

    diversity: Diversity = _DEFAULT.diversity

    @property
    def given(self) -> dict[str, Any]:
        """The fields of a query for the engine that the request names; no user, users or ratings."""
        return fields_of({name: getattr(self, name) for name in self.model_fields_set if name in FIELDS})

    def query(self, base: Mapping[str, Any] = NO_FIELDS, **more: Any) -> Recommend:
        """The query for the engine.

        Args:
            base: fields of a scenario, which count where the request names none.
            more: the user, users or ratings.
        """
        return Recommend(**{**base, **self.given, **more})


class RecommendQuery(FilterQuery, Filters, Wait):
    """Query of `GET /recommend/{user}`."""

    cursor: Cursor = _DEFAULT.cursor
    scenario: ScenarioName = None
    rotate: HalfLife | None = Field(
        None,
        max_length=8,
        description="Show again what was only shown, lowered for each showing by 1, half after this.",
    )

    @property
    def given(self) -> dict[str, Any]:
        """As in `Filters`."""
        return super().given | ({} if self.filter is None else {"filter": self.filter})


class ScenarioBody(Filters):
    """Body of a scenario: the same parameters, `candidates`, and a `filter` of any form."""

    candidates: Items | None = Field(None, description="The only items to rank; default: all.")
    filter: Filter | None = None
    available: Available = _DEFAULT.available
    boosts: Boosts = Field([], description="Numbers added to the scores of items that pass a filter; they add up.")
    pins: Pins = Field([], description="Items at fixed places.")
    max_per: MaxPer | None = Field(None, description="A limit for items with the same value of a tag.")
    rotate: Rotate | None = None


class SetBody(Wait):
    """Body of `POST /neighbors`."""

    items: Annotated[list[Id], Field(min_length=1, max_length=MAX_SET), few_faults(Id, MAX_SET)]
    n: Count = _DEFAULT.n
    model: ModelName = None
    filter: Filter | None = None
    available: Available = _DEFAULT.available
    cursor: Cursor = _DEFAULT.cursor

    @property
    def query(self) -> SetNeighbors:
        """The query for the engine."""
        return SetNeighbors(
            **{name: getattr(self, name) for name in SetNeighbors.__struct_fields__ if hasattr(self, name)}
        )


class _Body(ScenarioBody, Wait):
    """What all bodies of `POST /recommend…` may have."""

    scenario: ScenarioName = None


class ItemRating(Strict):
    """A rating that is not stored."""

    item: Id
    rating: float = Field(ge=-MAX_RATING, le=MAX_RATING)
    timestamp: Time | None = Field(None, description="Unix seconds, a date or a datetime; default: now.")


class ExtraRating(ItemRating):
    """A rating that a user has beside the stored ones; null takes the stored one of the item away."""

    rating: float | None = Field(ge=-MAX_RATING, le=MAX_RATING)  # type: ignore[assignment]


class RecommendBody(_Body):
    """Body of `POST /recommend/{user}`."""

    ratings: Annotated[
        list[ExtraRating] | None,
        Field(max_length=MAX_USERS, description="Answer as if the user had these ratings too; nothing is stored."),
        few_faults(ExtraRating, MAX_USERS),
    ] = None
    order_half_life: OrderHalfLife = _DEFAULT.order_half_life
    cursor: Cursor = _DEFAULT.cursor

    def query(self, base: Mapping[str, Any] = NO_FIELDS, **more: Any) -> Recommend:
        """The query for the engine."""
        return super().query(base, **_in_order(self.ratings) | more)


class UsersBody(_Body):
    """Body of `POST /recommend` for several users."""

    users: Annotated[list[Id], Field(min_length=1, max_length=MAX_USERS), few_faults(Id, MAX_USERS)]


class AnonymousBody(_Body):
    """Body of `POST /recommend` for ratings that are used once and not stored."""

    ratings: Annotated[list[ItemRating], Field(min_length=1, max_length=MAX_USERS), few_faults(ItemRating, MAX_USERS)]
    order_half_life: OrderHalfLife = _DEFAULT.order_half_life
    cursor: Cursor = _DEFAULT.cursor

    def query(self, base: Mapping[str, Any] = NO_FIELDS, **more: Any) -> Recommend:
        """The query for the engine."""
        return super().query(base, **_in_order(self.ratings) | more)


def _in_order(ratings: Sequence[ItemRating] | None) -> dict[str, Any]:
    """The fields of a query with these ratings, the oldest first; those of one time in the order of the body."""
    if ratings is None:
        return {"ratings": None}
    ordered = sorted(ratings, key=lambda rating: math.inf if rating.timestamp is None else rating.timestamp)
    timestamps = [rating.timestamp for rating in ordered]
    has_times = any(timestamp is not None for timestamp in timestamps)
    pairs = [(rating.item, rating.rating) for rating in ordered]
    return {"ratings": pairs, "timestamps": timestamps if has_times else None}
