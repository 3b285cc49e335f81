"""Parses a body that is one JSON object or an array of them. Each is checked alone; a refused one gets a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from service.errors import InvalidRequest, MalformedBody
from service.ids import check_id
from service.validation import in_words

T = TypeVar("T")
_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")


class Rejection(msgspec.Struct):
    """One refused element of a batch; `index` counts from 0."""

    index: int
    error: str


class Intake(NamedTuple, Generic[T]):
    """The content of one body: accepted elements, and rejected ones by index."""

    accepted: list[T]
    rejected: list[Rejection]


def read_elements(body: bytes, judge: Callable[[Any], T], max_elements: int, noun: str) -> Intake[T]:
    """What `judge` makes of the object in `body`, or of each element of the array in it.

    Args:
        body: UTF-8 JSON. NaN and Infinity, which are not JSON but common, are parsed, so that only their element is
            rejected.
        judge: converts one element; raises ValueError with the reason if it refuses it.
        max_elements: longest acceptable array.
        noun: the elements in words, for the error.

    Raises:
        MalformedBody: not JSON, or neither an object nor an array.
        InvalidRequest: a single object is refused, or an array is too long.
    """
    document = parsed(body)
    if isinstance(document, dict):
        return Intake([judged(document, judge)], [])
    if len(document) > max_elements:
        raise InvalidRequest(f"Invalid length of body: expected at most {max_elements:,} {noun}, got {len(document):,}")
    intake = Intake[T]([], [])
    for index, element in enumerate(document):
        try:
            intake.accepted.append(judge(element))
        except ValueError as error:
            intake.rejected.append(Rejection(index, str(error)))
    return intake


def judged(element: Any, judge: Callable[[Any], T]) -> T:
    """What `judge` makes of a single object.

    Raises:
        InvalidRequest: it is refused.
    """
    try:
        return judge(element)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def parsed(body: bytes) -> Any:
    """The object or the array in `body`.

    Raises:
        MalformedBody: not JSON, or neither of them.
    """
    try:
        document = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        raise MalformedBody(f"Invalid body: expected JSON, got something else ({error})") from None
    if not isinstance(document, dict | list):
        raise MalformedBody(f"Invalid body: expected an object or an array, got {type(document).__name__}")
    return document


def converted(element: Any, kind: type[T], noun: str) -> T:
    """`element` as a struct; ValueError with the place in it, or the `noun` for the whole, if it is none."""
    try:
        return msgspec.convert(element, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        position = _PLACE.search(text)
        what = position[1] if position else noun
        raise ValueError(f"Invalid {what}: {in_words(_PLACE.sub('', text))}") from None


def check_ids(**ids: str) -> None:
    """Check ids by the names of their fields; ValueError with the reason if one is refused."""
    for name, text in ids.items():
        try:
            check_id(text)
        except ValueError as error:
            raise ValueError(f"Invalid {name}: {_sentence(error)}") from None


def are_ids(*ids: str) -> bool:
    """Whether all `ids` are legal."""
    try:
        for text in ids:
            check_id(text)
    except ValueError:
        return False
    return True


def _sentence(error: ValueError) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "expected text that UTF-8 can express, got a lone surrogate"
    return str(error).removeprefix("Invalid id: ")
