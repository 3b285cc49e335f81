"""The values of requests: their bounds, their descriptions, and how a client may write them.

A field of a query names its bounds and its description by `Field`. If clients write a value in another form than the
engine reads it, `Form` names the form, which pydantic turns into the value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from service.base.ids import MAX_ID_BYTES, check_id
from service.base.limits import MAX_RATING
from service.base.times import IN_MILLISECONDS, unix_seconds
from service.engine.queries.few_faults import Strict, few_faults
from service.engine.queries.filter_parser import SCHEMA, tree_of
from service.engine.queries.filter_tree import text_of
from service.settings.event_types import MAX_TYPE_LENGTH, MAX_TYPES
from service.settings.half_lives import seconds_of
from service.storage.events import LATEST_EVENT_S

MAX_OFFSET = 1_000_000_000
MAX_USERS = 1000  # users of one request, and ratings of one anonymous request
MAX_EXPLORE_BELOW = 20  # ratings; each number below is a ranking of its own
MAX_SET = 100  # items whose neighbors are asked for together
MAX_CURSOR = 80_000  # characters
MAX_ITEMS = 10_000  # items in each of `candidates` and `exclude`
MAX_BOOSTS = 5  # each may double the passes over all items
MAX_PINS = 100
MAX_LENGTH = 1000  # items of a list with rules, with its offset: one call of the ranking gives no more
BY = 1.0  # how much a showing lowers an item at first, in units of the score


class Form(NamedTuple):
    """Stands in the annotation of a field: the form in which clients write it, such as a list of objects."""

    kind: Any


Id = Annotated[str, AfterValidator(check_id), Field(min_length=1, max_length=MAX_ID_BYTES)]
Filter = Annotated[Any, AfterValidator(lambda value: text_of(tree_of(value))), WithJsonSchema(SCHEMA)]


class Boost(Strict):
    """A number that items which pass a filter get added to their scores."""

    filter: Filter
    add: float = Field(ge=-MAX_RATING, le=MAX_RATING, description="In units of the score; below 0 lowers it.")


class Pin(Strict):
    """An item at a fixed place, if the list may show it."""

    item: Id
    at: int = Field(ge=1, le=MAX_LENGTH, description="Place in the list that begins at offset 0; the first is 1.")


class MaxPer(Strict):
    """A limit for items with the same value of a tag."""

    tag: str = Field(min_length=1)
    n: int = Field(ge=1, le=MAX_LENGTH, description="Items with the same value, at most.")


def _is_half_life(text: str) -> str:
    seconds_of(text)
    return text


HalfLife = Annotated[str, AfterValidator(_is_half_life)]


class Rotation(Strict):
    """How much showings of an item lower it."""

    half_life: HalfLife = Field(description="A number and m, h or d: a showing that is older by this counts half.")
    by: float = Field(BY, ge=0, le=MAX_RATING, description="What a showing takes off at first, in units of the score.")


def _distinct(noun: str, key: Callable[[Pin], Hashable]) -> Callable[[Sequence[Pin]], Sequence[Pin]]:
    def checked(pins: Sequence[Pin]) -> Sequence[Pin]:
        seen: set[Hashable] = set()
        for one in map(key, pins):
            if one in seen:
                raise ValueError(f"expected each {noun} once, got {one!r} again")
            seen.add(one)
        return pins

    return checked


Boosts = Annotated[
    list[Boost],
    AfterValidator(lambda boosts: tuple((boost.filter, boost.add) for boost in boosts)),
    Field(max_length=MAX_BOOSTS, description="Numbers added to the scores of items that pass a filter; they add up."),
    few_faults(Boost, MAX_BOOSTS),
]
Pins = Annotated[
    list[Pin],
    AfterValidator(_distinct("item", lambda pin: pin.item)),
    AfterValidator(_distinct("place", lambda pin: pin.at)),
    AfterValidator(lambda pins: tuple((pin.item, pin.at) for pin in pins)),
    Field(max_length=MAX_PINS, description="Items at fixed places."),
    few_faults(Pin, MAX_PINS),
]
Rotate = Annotated[
    Rotation,
    BeforeValidator(lambda value: {"half_life": value} if isinstance(value, str) else value),
    AfterValidator(lambda rotation: (seconds_of(rotation.half_life), rotation.by)),
    WithJsonSchema(
        {
            "description": "A half-life such as 6h; or one and `by`, what a showing takes off at first.",
            "anyOf": [{"type": "string"}, Rotation.model_json_schema()],
        }
    ),
]
LimitPerTag = Annotated[MaxPer, AfterValidator(lambda limit: (limit.tag, limit.n))]
RotateQuery = Annotated[
    str,
    AfterValidator(lambda text: (seconds_of(text), BY)),
    Field(max_length=8, description="Show again what was only shown, lowered for each showing by 1, half after this."),
]


def _in_seconds(value: float) -> float:
    if value > LATEST_EVENT_S:
        raise ValueError(IN_MILLISECONDS.format(f"{value:.15g}"))
    return value


Time = Annotated[
    float,
    BeforeValidator(lambda value: unix_seconds(value) if isinstance(value, str) else value),
    AfterValidator(_in_seconds),
]
ManyIds = Annotated[list[Id], Field(max_length=MAX_ITEMS), few_faults(Id, MAX_ITEMS)]
SomeIds = Annotated[list[Id], Field(min_length=1, max_length=MAX_SET), few_faults(Id, MAX_SET)]
SeenTypes = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_TYPE_LENGTH)]], Field(max_length=MAX_TYPES + 1)
]
Users = Annotated[list[Id], Field(min_length=1, max_length=MAX_USERS), few_faults(Id, MAX_USERS)]
Count = Annotated[int, Field(ge=1, description="How many results.")]
Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET, description="How many of the best to leave out.")]
Newest = Annotated[int, Field(ge=0, le=MAX_OFFSET, description="How many of the newest to leave out.")]
ModelName = Annotated[
    str | None, Form(Id | None), Field(description="Name of a live model; default: the first of `default_models`.")
]
PageCursor = Annotated[
    str | None,
    Field(description="`next` of the page before; empty or by default: the first page."),
    AfterValidator(lambda text: text or None),
]
