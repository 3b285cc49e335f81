"""Parses a body of elements: one JSON object, an array of them, or one in each line.

Each element is checked alone; a refused one gets a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from service.api.errors import BodyTooLarge, MalformedBody
from service.base.errors import InvalidRequest, ServiceError
from service.base.ids import check_id
from service.base.times import unix_seconds
from service.base.validation import in_words

T = TypeVar("T")
Line = int | msgspec.UnsetType
TOO_DEEP = "nested too deep"  # how deep that is, the Python in use decides
MAX_VALUES = 50_000  # of one document: twice as many as the longest lists of a request have together
_LONE_SURROGATE = "expected text that UTF-8 can express, got a lone surrogate"
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode
_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")


class Body(NamedTuple):
    """The body of a request.

    Attributes:
        content: UTF-8 JSON. NaN and Infinity, which are not JSON but common, are parsed, so that only their element is
            rejected.
        is_lines: whether each line is JSON of its own (NDJSON).
    """

    content: bytes
    is_lines: bool = False


class Rejection(msgspec.Struct):
    """One refused element of a batch.

    Attributes:
        index: its position among the elements, from 0.
        line: its line from 1, where each line is an element.
    """

    index: int
    error: str
    line: Line = msgspec.UNSET


class Intake(NamedTuple, Generic[T]):
    """The content of one body: accepted elements, and rejected ones by index."""

    accepted: list[T]
    rejected: list[Rejection]


class Typed(Generic[T]):
    """Decodes the elements of a body at once, where all of them are structs of one kind."""

    def __init__(self, kind: type[T]) -> None:
        self._array, self._line = msgspec.json.Decoder(list[kind]), msgspec.json.Decoder(kind)  # type: ignore[valid-type]

    def decoded(self, body: Body, max_elements: int) -> list[T] | None:
        """All elements; None if there are more than `max_elements`, or one of them is no struct."""
        content, is_lines = body
        try:
            if content[:1] == b"{" and not is_lines:
                return [self._line.decode(content)]
            elements = self._line.decode_lines(content) if is_lines else self._array.decode(content)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        # The decoder also reads two elements in a line, and one in two lines.
        is_whole = len(elements) <= max_elements and (not is_lines or len(elements) == count_lines(content))
        return elements if is_whole else None


def read_elements(body: Body, judge: Callable[[Any], T], max_elements: int, noun: str) -> Intake[T]:
    """What `judge` makes of the object in `body`, or of each element of the array or the lines in it.

    Args:
        body: the body.
        judge: converts one element; raises ValueError with the reason if it refuses it.
        max_elements: longest acceptable array, and most acceptable lines; an empty line counts, but is no element.
        noun: the elements in words, for the error.

    Raises:
        MalformedBody: not JSON, or neither an object nor an array; never for lines.
        InvalidRequest: a single object is refused, or there are too many elements.
    """
    content, is_parsed = body.content, False
    elements: Iterable[tuple[Line, Any]]
    if body.is_lines:
        length, noun = count_lines(content), "lines"
        elements = ((n, line) for n, line in enumerate(content.split(b"\n"), start=1) if line.strip())
    else:
        try:  # the bytes of each element of an array, none of them parsed yet
            pieces: list[Any] | None = list(map(bytes, _split(content))) if content.lstrip().startswith(b"[") else None
        except (msgspec.MsgspecError, ValueError, RecursionError):  # an array with NaN too
            pieces = None
        if pieces is None:
            pieces, is_parsed = parsed(content), True
            if isinstance(pieces, dict):
                return Intake([judged(pieces, judge)], [])
        length, elements = len(pieces), ((msgspec.UNSET, piece) for piece in pieces)
    if length > max_elements:
        raise InvalidRequest(f"Invalid length of body: expected at most {max_elements:,} {noun}, got {length:,}")
    intake = Intake[T]([], [])
    for index, (line, element) in enumerate(elements):
        try:
            intake.accepted.append(judge(element if is_parsed else parsed_element(element)))
        except ValueError as error:
            intake.rejected.append(Rejection(index, str(error), line))
    return intake


def without(intake: Intake[T], faults: Mapping[int, ServiceError], body: Body) -> Intake[T]:
    """`intake` of `body` after a second check: accepted elements at these positions among them are rejected too.

    Raises:
        ServiceError: the fault, if the body is a single object.
    """
    if not faults:
        return intake
    if not body.is_lines and body.content.lstrip().startswith(b"{"):
        raise faults[0]
    refused = {rejection.index for rejection in intake.rejected}
    indexes = [n for n in range(len(intake.accepted) + len(refused)) if n not in refused]
    lines = [n for n, line in enumerate(body.content.split(b"\n"), 1) if line.strip()] if body.is_lines else []
    late = [
        Rejection(indexes[n], str(fault), lines[indexes[n]] if lines else msgspec.UNSET) for n, fault in faults.items()
    ]
    return Intake(
        [element for n, element in enumerate(intake.accepted) if n not in faults],
        sorted([*intake.rejected, *late], key=lambda rejection: rejection.index),
    )


def check_values(content: bytes) -> None:
    """Check, before JSON is parsed, that it is no document of more values than any request needs.

    Raises:
        BodyTooLarge: it is. Parsing a MiB of small values takes a tenth of a second, in which nobody else is answered.
    """
    marks = (b",", b"[", b"{")
    if len(content) <= MAX_VALUES or sum(map(content.count, marks)) <= MAX_VALUES:
        return
    # Without what is in texts.
    if b"\\" in content:
        content = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    letters = np.frombuffer(content, dtype=np.uint8)
    outside = bytes(letters[np.cumsum(letters == ord('"'), dtype=np.uint8) % 2 == 0])
    if sum(map(outside.count, marks)) > MAX_VALUES:
        raise BodyTooLarge(f"Invalid body: expected at most {MAX_VALUES:,} values in one document, got more")


def count_lines(content: bytes) -> int:
    """Lines up to the last one that is not empty."""
    text = content.rstrip()
    return text.count(b"\n") + 1 if text else 0


def parsed_element(line: bytes) -> Any:
    """One element; ValueError with the reason if it is not JSON, or has too many values."""
    try:
        check_values(line)
        return json.loads(line.decode())
    except BodyTooLarge as error:
        raise ValueError(str(error).replace("body", "element").replace(" in one document", "")) from None
    except RecursionError:
        raise ValueError(f"Invalid line: expected JSON, got something else ({TOO_DEEP})") from None
    except ValueError as error:
        reason = f"{error.msg} in column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise ValueError(f"Invalid line: expected JSON, got something else ({reason})") from None


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
        BodyTooLarge: see `check_values`.
    """
    check_values(body)
    try:
        document = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        reason = TOO_DEEP if isinstance(error, RecursionError) else error
        raise MalformedBody(f"Invalid body: expected JSON, got something else ({reason})") from None
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
    except UnicodeEncodeError:
        raise ValueError(f"Invalid {noun}: {_LONE_SURROGATE}") from None


def check_ids(**ids: str) -> None:
    """Check ids by the names of their fields; ValueError with the reason if one is refused."""
    for name, text in ids.items():
        try:
            check_id(text)
        except UnicodeEncodeError:
            raise ValueError(f"Invalid {name}: {_LONE_SURROGATE}") from None
        except ValueError as error:
            raise ValueError(f"Invalid {name}: {str(error).removeprefix('Invalid id: ')}") from None


def are_ids(*ids: str) -> bool:
    """Whether all `ids` are legal."""
    try:
        for text in ids:
            check_id(text)
    except ValueError:
        return False
    return True


def with_seconds(element: Any, names: Sequence[str] = ("timestamp",)) -> Any:
    """`element` with times that are dates or datetimes as Unix seconds; ValueError if one is another text."""
    for name in names:
        text = element.get(name) if isinstance(element, dict) else None
        if isinstance(text, str):
            try:
                element = element | {name: unix_seconds(text)}
            except ValueError as error:
                raise ValueError(f"Invalid {name}: {error}") from None
    return element
