"""Schemas of the rules of a list, see `service.engine.queries.rules`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from service.api.parsers.few_faults import few_faults
from service.api.parsers.filter_parser import SCHEMA, tree_of
from service.api.schemas.common_schemas import Id, Strict
from service.base.errors import InvalidRequest
from service.base.limits import MAX_RATING
from service.engine.queries import Recommend
from service.engine.queries.filter_tree import text_of
from service.engine.queries.rules import MAX_BOOSTS, MAX_LENGTH, MAX_PINS, has_rules
from service.settings.half_lives import seconds_of

MAX_LEVELS = 40  # numbers of ratings that `explore` ranks apart, times the classes of boosts: each is a ranking
BY = 1.0  # how much a showing lowers an item at first, in units of the score
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


Boosts = Annotated[list[Boost], Field(max_length=MAX_BOOSTS), few_faults(Boost, MAX_BOOSTS)]
Pins = Annotated[
    list[Pin],
    AfterValidator(_distinct("item", lambda pin: pin.item)),
    AfterValidator(_distinct("place", lambda pin: pin.at)),
    Field(max_length=MAX_PINS),
    few_faults(Pin, MAX_PINS),
]
Rotate = Annotated[
    Rotation,
    BeforeValidator(lambda value: {"half_life": value} if isinstance(value, str) else value),
    WithJsonSchema(
        {
            "description": "A half-life such as 6h; or one and `by`, what a showing takes off at first.",
            "anyOf": [{"type": "string"}, Rotation.model_json_schema()],
        }
    ),
]
Diversity = Annotated[
    float, Field(ge=0, le=1, description="How much unlike items come first; 0 keeps the order of the scores.")
]


def fields_of(given: dict[str, Any]) -> dict[str, Any]:
    """`given` fields of a request with its rules as `Recommend` has them."""
    made = dict(given)
    if "boosts" in made:
        made["boosts"] = tuple((boost.filter, boost.add) for boost in made["boosts"])
    if "pins" in made:
        made["pins"] = tuple((pin.item, pin.at) for pin in made["pins"])
    if (max_per := made.get("max_per")) is not None:
        made["max_per"] = max_per.tag, max_per.n
    if (rotate := made.get("rotate")) is not None:
        half_life, by = (rotate, BY) if isinstance(rotate, str) else (rotate.half_life, rotate.by)
        made["rotate"] = seconds_of(half_life), by
    return made


def check_rules(query: Recommend) -> Recommend:
    """Check that the list of `query` is not too long for its rules and has nothing that contradicts them; return it.

    Raises:
        InvalidRequest: it is, or has.
    """
    if query.cursor is not None and (query.pins or query.max_per is not None or query.diversity):
        # They hold for the list from its beginning, which is not made again for a later page.
        raise InvalidRequest("Invalid cursor: expected none with pins, max_per or diversity; page by offset instead")
    if query.experiment is not None and query.model is not None:  # for some users it would be the model of their arm
        raise InvalidRequest("Invalid model: expected none with an experiment, whose arms name the models")
    most_below = MAX_LEVELS >> len(query.boosts)
    if query.explore and query.boosts and query.explore_below > most_below:
        raise InvalidRequest(
            f"Invalid explore_below: expected at most {most_below} with {len(query.boosts)} boosts, got"
            f" {query.explore_below}; each number below is ranked for each combination of boosts"
        )
    length = query.offset + query.n
    if has_rules(query) and length > MAX_LENGTH:
        raise InvalidRequest(
            f"Invalid offset: expected offset + n of at most {MAX_LENGTH:,} in a list with rules, got {length:,}"
        )
    return query
