"""Reads files with a JSON object in each line (JSONL), or with an array of objects."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from service.base.ids import check_id
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.ratings_columns import NAMES, columns_named, columns_of, described, types_among
from service.cli.files.ratings_text import BadLine, TextRatings, check_bad
from service.cli.files.ratings_times import is_in_milliseconds, seconds_of, wrong_time

_EXCERPT = 80


def read_json(path: Path, data: bytes, how: How) -> TextRatings:
    """The ratings in `data`, the content of the file `path`; the first object determines the names of the fields.

    Raises:
        InvalidRatingsFile: the first line does not have the fields; or a line is bad and `how.skip_bad` is false; or
            most lines are bad.
    """
    noun, lines = objects_in(path, data)
    if how.delimiter is not None or (how.choice is not None and not how.choice.has_names):
        raise InvalidRatingsFile(
            f"Invalid {path}: expected --columns with names of fields, such as user=NAME,item=NAME, and no --delimiter:"
            " it is JSON"
        )
    first_number, first_line = lines[0]
    try:
        names = list(object_in(first_line))
        places = columns_of(names, how.choice)
    except ValueError as error:
        raise InvalidRatingsFile(f"Invalid {noun} {first_number} of {path}: {error}") from None
    fields = {name: names[position] for name, position in places.items()}
    rows, bad = [], []
    for number, line in lines:
        try:
            rating = object_in(line)
            if (how.choice is None or how.choice.is_partial) and not rating.keys() <= set(names):
                # A rating, a timestamp or a type of event would be lost, because the first line has none.
                others = list(rating)
                lost = [(name, places[0]) for name, places in columns_named(others).items() if name not in fields]
                for name, place in lost + [("type of an event", place) for place in types_among(others)]:
                    raise ValueError(f"expected the fields of the first line, got also {others[place]} ({name})")
            rows.append(tuple(value_of(name, rating.get(field), how) for name, field in fields.items()))
        except ValueError as error:
            bad.append(BadLine(number, str(error)))
    check_bad(path, bad, len(lines), how.skip_bad, noun=noun)
    arrays = [
        pa.array(column, pa.string()).dictionary_encode() if name in NAMES[:2] else pa.array(column, pa.float64())
        for name, column in zip(fields, zip(*rows, strict=True) if rows else [()] * len(fields), strict=True)
    ]
    words = f"{described(places, names)}; {'JSONL' if noun == 'line' else 'a JSON array'}, {len(lines):,} {noun}s"
    return TextRatings(pa.table(arrays, names=list(fields)), bad, words)


def objects_in(path: Path, data: bytes) -> tuple[str, list[tuple[int, bytes]]]:
    """What an object is, a "line" or an "element" of one array, and the text of each with its number from 1.

    Raises:
        InvalidRatingsFile: there is none, or the array cannot be read.
    """
    noun = "line"
    if data.lstrip().startswith(b"["):
        noun = "element"
        try:
            texts = [bytes(text) for text in msgspec.json.decode(data, type=list[msgspec.Raw])]
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidRatingsFile(f"Invalid {path}: expected a JSON array of objects, got: {error}") from None
    else:
        texts = data.splitlines()
    lines = [(number, text) for number, text in enumerate(texts, start=1) if text.strip()]
    if not lines:
        raise InvalidRatingsFile(f"Invalid {path}: expected a JSON object in line 1, got nothing")
    return noun, lines


def object_in(line: bytes) -> dict[str, Any]:
    """The JSON object in a line; ValueError if it is none."""
    try:
        rating = msgspec.json.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(
            f"expected a JSON object, got {line[:_EXCERPT].decode(errors='replace')!r} ({error})"
        ) from None
    if not isinstance(rating, dict):
        raise ValueError(f"expected one JSON object, got {type(rating).__name__}")
    return rating


def value_of(name: str, value: Any, how: How) -> str | float | None:
    """The id, rating or timestamp in the field `name`, None for no time; ValueError with the reason if it is none."""
    shown = "nothing" if value is None else repr(value)[:_EXCERPT]
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if name in NAMES[:2]:
        if not (is_integer or isinstance(value, str)):
            raise ValueError(f"expected text or an integer as {name}, got {shown}")
        return check_id(str(value))
    if name == "timestamp" and isinstance(value, str | None):
        return seconds_of(value, how.per_second) if value else None
    if not (is_integer or (isinstance(value, float) and math.isfinite(value))):
        raise ValueError(f"expected a finite number as {name}, got {shown}")
    if name == "timestamp":
        value /= how.per_second
        if is_in_milliseconds(value):
            raise ValueError(wrong_time(shown))
    if abs(value) > how.limits[name]:  # an integer may be too large for a float
        raise ValueError(f"expected at most {how.limits[name]:.2g} as {name}, got {shown}")
    return float(value)
