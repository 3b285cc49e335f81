"""Changes of the catalog: the elements of stream entries `items`, and the column `data` of their rows in the log.

A change puts an item (all its attributes are those of the change), patches it (a JSON merge patch, RFC 7396: null
removes), or deletes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from service.base.ids import MAX_ID_BYTES, check_id
from service.base.limits import LATEST_S

MAX_NAMES = 100  # names of tags, and of numbers, of one item
MAX_NAME_BYTES = 64
MAX_VALUES = 1000  # values of all tags of one item
MAX_DIMENSIONS = 4096  # of an embedding
MAX_TITLE_BYTES, MAX_URL_BYTES = 1000, 2000
SHOWN = ("title", "url", "image")  # attributes that are shown alone: nothing is filtered or learned by them
LARGEST = float(np.finfo(np.float32).max)  # numbers are compared as float32

_ADDRESS = re.compile(r"https?://[^\s\x00-\x1f\x7f\"'<>\\]+", re.IGNORECASE)

T = TypeVar("T")
Operation = Literal["put", "patch", "delete"]
# The document of the API tells these bounds; `check` judges them, and says what was given.
Text = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_ID_BYTES})]
Number = Annotated[float, Meta(extra_json_schema={"minimum": -LARGEST, "maximum": LARGEST})]
Time = Annotated[float, Meta(extra_json_schema={"minimum": -LATEST_S, "maximum": LATEST_S})]
Tags = Annotated[dict[str, list[Text] | None], Meta(extra_json_schema={"maxProperties": MAX_NAMES})]
Numbers = Annotated[dict[str, Number | None], Meta(extra_json_schema={"maxProperties": MAX_NAMES})]
Title = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_TITLE_BYTES})]
Url = Annotated[str, Meta(extra_json_schema={"pattern": "^https?://", "maxLength": MAX_URL_BYTES})]
Embedding = Annotated[list[Number], Meta(extra_json_schema={"minItems": 1, "maxItems": MAX_DIMENSIONS})]


class Values(Struct, frozen=True, omit_defaults=True):
    """What items and users can be filtered by.

    Attributes:
        tags: distinct values by name, at least one each.
        numbers: finite float32 numbers by name.
    """

    tags: dict[str, list[str]] = {}
    numbers: dict[str, float] = {}


class Attributes(Values, frozen=True, omit_defaults=True):
    """The attributes of one item.

    Attributes:
        available: false: lists do not show the item.
        published, until: Unix seconds; lists show the item from `published` until before `until`. None: no bound.
        embedding: float32 numbers, as many as those of every other item; None: it has none.
        title: what people call the item; None: nothing.
        url, image: addresses of a page about it, and of a picture.
    """

    available: bool = True
    published: float | None = None
    until: float | None = None
    embedding: list[float] | None = None
    title: str | None = None
    url: str | None = None
    image: str | None = None


class ValueChanges(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Changes of `Values`; null stands for no value."""

    tags: Annotated[Tags | UnsetType | None, Meta(examples=[{"genre": ["western", "comedy"]}])] = UNSET
    numbers: Annotated[Numbers | UnsetType | None, Meta(examples=[{"price": 9.99}])] = UNSET


class AttributeChanges(ValueChanges, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Changes of `Attributes`; null stands for no value."""

    available: Annotated[bool | UnsetType | None, Meta(description="Whether lists show it; default true.")] = UNSET
    published: Annotated[
        Time | UnsetType | None,
        Meta(description="Lists do not show the item before this time: Unix seconds, or a date."),
    ] = UNSET
    until: Annotated[
        Time | UnsetType | None,
        Meta(description="Lists do not show the item from this time on: Unix seconds, or a date."),
    ] = UNSET
    embedding: Annotated[
        Embedding | UnsetType | None,
        Meta(description="As many numbers as those of the other items. Places an item that nobody has rated."),
    ] = UNSET
    title: Annotated[Title | UnsetType | None, Meta(description="What people call the item.")] = UNSET
    url: Annotated[Url | UnsetType | None, Meta(description="Address of a page about the item.")] = UNSET
    image: Annotated[Url | UnsetType | None, Meta(description="Address of a picture of the item.")] = UNSET


class NewItem(AttributeChanges, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An item as clients put it."""

    item: Text


class ItemChange(NewItem, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One change of one item, as the stream stores it."""

    op: Operation = "put"


_entry_decoder = msgspec.json.Decoder(list[ItemChange])
_row_decoder = msgspec.json.Decoder(ItemChange)
encode = msgspec.json.Encoder().encode


def decode_entry(value: bytes) -> list[ItemChange]:
    """The changes of a stream entry.

    Raises:
        ValueError, MsgspecError: one of them is not in its format.
    """
    changes = _entry_decoder.decode(value)
    for change in changes:
        check(change)
    return changes


def decode_row(data: str) -> ItemChange:
    """The change of a row of the log, which was checked before it was written."""
    return _row_decoder.decode(data)


def merged(old: Attributes, change: ItemChange) -> Attributes:
    """The attributes after a put or a patch of an item with the attributes `old`."""
    if change.op == "put":
        old = Attributes()
    available = old.available if change.available is UNSET else change.available
    return Attributes(
        tags_after(old.tags, change.tags),
        values_after(old.numbers, change.numbers),
        available is not False,
        old.published if change.published is UNSET else change.published,
        old.until if change.until is UNSET else change.until,
        old.embedding if change.embedding is UNSET else change.embedding,
        old.title if change.title is UNSET else change.title,
        old.url if change.url is UNSET else change.url,
        old.image if change.image is UNSET else change.image,
    )


def tags_after(old: dict[str, list[str]], new: dict[str, list[str] | None] | UnsetType | None) -> dict[str, list[str]]:
    """The distinct values by name after `new`; null and an empty list remove a name."""
    return {name: list(dict.fromkeys(values)) for name, values in values_after(old, new).items() if values}


def values_after(old: dict[str, T], new: dict[str, T | None] | UnsetType | None) -> dict[str, T]:
    """The values by name after `new`; null removes a name, or all of them."""
    if new is UNSET:
        return old
    values: dict[str, T | None] = {**old, **new} if new is not None else {}
    return {name: value for name, value in values.items() if value is not None}


# --- checks


def check(change: ItemChange) -> None:
    """Check the values of a decoded change.

    Raises:
        ValueError: a name, a value or a number cannot be used, or there are too many.
    """
    check_text("item", change.item)
    check_values(change)
    check_time("published", change.published)
    check_time("until", change.until)
    if isinstance(change.embedding, list):
        if not 1 <= (n := len(change.embedding)) <= MAX_DIMENSIONS:
            raise ValueError(f"Invalid embedding: expected 1 to {MAX_DIMENSIONS:,} numbers, got {n:,}")
        for number in change.embedding:
            check_number("embedding", number)
    check_shown(change)


def check_values(change: ValueChanges) -> None:
    """Check names, tags and numbers; ValueError if one cannot be used, or there are too many."""
    for place, named in (("tags", change.tags or {}), ("numbers", change.numbers or {})):
        check_number_of_names(place, named)
        for name in named:
            check_text(f"name in {place}", name, MAX_NAME_BYTES)
    tags = change.tags or {}
    check_number_of_values(n_values(tags))
    for name, values in tags.items():
        for value in values or ():
            check_text(f"tags.{name}", value)
    for name, number in (change.numbers or {}).items():
        check_number(f"numbers.{name}", number)


def check_shown(change: ItemChange) -> None:
    """Check what is shown to people; ValueError if a text is too long or empty, or an address is none."""
    if isinstance(change.title, str):
        check_text("title", change.title, MAX_TITLE_BYTES)
    for name, address in (("url", change.url), ("image", change.image)):
        if isinstance(address, str):
            check_text(name, address, MAX_URL_BYTES)
            if not _ADDRESS.fullmatch(address):
                raise ValueError(f"Invalid {name}: expected http://… or https://… without spaces, got {address[:80]!r}")


def check_time(name: str, seconds: float | UnsetType | None) -> None:
    """Check that `seconds` may be Unix seconds.

    Raises:
        ValueError: not finite, or probably milliseconds.
    """
    if seconds is None or seconds is UNSET:
        return
    if not math.isfinite(seconds):
        raise ValueError(f"Invalid {name}: expected finite Unix seconds, got {seconds}")
    if abs(seconds) > LATEST_S:
        raise ValueError(f"Invalid {name}: expected Unix seconds, got {seconds:g}; divide milliseconds by 1,000")


def check_number_of_names(place: str, named: Mapping[str, object]) -> None:
    """Check that one item, or user, may have as many names of tags, or of numbers; ValueError if not."""
    if len(named) > MAX_NAMES:
        raise ValueError(f"Invalid {place}: expected at most {MAX_NAMES} names, got {len(named):,}")


def n_values(tags: Mapping[str, Sequence[str] | None]) -> int:
    """The number of values of all tags."""
    return sum(map(len, filter(None, tags.values())))


def sizes_after(sizes: Mapping[str, int], change: ValueChanges) -> dict[str, int]:
    """The number of values of each tag of an item, or a user, after a patch; `merged` makes the values themselves."""
    if change.tags is UNSET:
        return dict(sizes)
    if change.tags is None:
        return {}
    after = {**sizes, **{name: len(set(values or ())) for name, values in change.tags.items()}}
    return {name: n for name, n in after.items() if n}


def check_number_of_values(n: int) -> None:
    """Check that one item, or user, may have as many values of tags; ValueError if not."""
    if n > MAX_VALUES:
        raise ValueError(f"Invalid tags: expected at most {MAX_VALUES:,} values in all, got {n:,}")


def check_number(place: str, number: float | None) -> None:
    """Check that a number is one of float32; ValueError if not."""
    if number is not None and not abs(number) <= LARGEST:  # NaN too
        raise ValueError(f"Invalid {place}: expected a finite number up to {LARGEST:.2g}, got {number}")


def check_text(place: str, text: str, max_bytes: int = MAX_ID_BYTES) -> None:
    """Check a name or a value like an id; ValueError if it is none."""
    try:
        check_id(text, max_bytes)
    except UnicodeEncodeError:
        raise ValueError(f"Invalid {place}: expected text that UTF-8 can express, got a lone surrogate") from None
    except ValueError as error:
        raise ValueError(str(error).replace("Invalid id", f"Invalid {place}")) from None
