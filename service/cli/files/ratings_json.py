"""Reads files with one JSON object per line (JSONL): user, item and, optionally, rating and timestamp."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from service.base.ids import check_id
from service.base.times import unix_seconds
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.ratings_columns import NAMES, Choice, columns_named, columns_of, described, types_among
from service.cli.files.ratings_text import BadLine, TextRatings, check_bad
from service.cli.files.ratings_times import is_in_milliseconds, wrong_time

_EXCERPT = 80


def read_json(path: Path, data: bytes, how: How) -> TextRatings:
    """The ratings in `data`, the content of the file `path`; the first line determines the names of the fields.

    Raises:
        InvalidRatingsFile: the first line does not have the fields; or a line is bad and `how.skip_bad` is false; or
            most lines are bad.
    """
    lines = [(number, line) for number, line in enumerate(data.splitlines(), start=1) if line.strip()]
    if not lines:
        raise InvalidRatingsFile(f"Invalid {path}: expected a JSON object in line 1, got nothing")
    if how.delimiter is not None or (how.choice is not None and not how.choice.has_names):
        raise InvalidRatingsFile(
            f"Invalid {path}: expected --columns with names of fields, such as user=NAME,item=NAME, and no --delimiter:"
            " it is JSONL"
        )
    first_number, first_line = lines[0]
    try:
        names = list(_object(first_line))
        places = columns_of(names, how.choice)
    except ValueError as error:
        raise InvalidRatingsFile(f"Invalid line {first_number} of {path}: {error}") from None
    fields = {name: names[position] for name, position in places.items()}
    rows, bad = [], []
    for number, line in lines:
        try:
            rating = _object(line)
            if not rating.keys() <= set(names):
                _check_further(rating, fields, how.choice)
            rows.append(
                tuple(
                    _id(name, rating.get(field))
                    if name in NAMES[:2]
                    else _number(name, rating.get(field), how.limits[name])
                    for name, field in fields.items()
                )
            )
        except ValueError as error:
            bad.append(BadLine(number, str(error)))
    check_bad(path, bad, len(lines), how.skip_bad)
    arrays = [
        pa.array(column, pa.string()).dictionary_encode() if name in NAMES[:2] else pa.array(column, pa.float64())
        for name, column in zip(fields, zip(*rows, strict=True) if rows else [()] * len(fields), strict=True)
    ]
    words = f"{described(places, names)}; JSONL, {len(lines):,} lines"
    return TextRatings(pa.table(arrays, names=list(fields)), bad, words)


def _object(line: bytes) -> dict[str, Any]:
    try:
        rating = msgspec.json.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(
            f"expected a JSON object, got {line[:_EXCERPT].decode(errors='replace')!r} ({error})"
        ) from None
    if not isinstance(rating, dict):
        raise ValueError(f"expected one JSON object a line, got {type(rating).__name__}")
    return rating


def _check_further(rating: dict[str, Any], fields: dict[str, str], choice: Choice | None) -> None:
    """Refuse a rating, a timestamp or a type of event that would be lost because the first line has none."""
    if choice is not None:
        return
    names = list(rating)
    lost = [(name, places[0]) for name, places in columns_named(names).items() if name not in fields]
    for name, place in lost + [("type of an event", place) for place in types_among(names)]:
        raise ValueError(f"expected the fields of the first line, got also {names[place]} ({name})")


def _id(name: str, value: object) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError(f"expected text or an integer as {name}, got {_shown(value)}")
    return check_id(str(value))


def _number(name: str, value: Any, largest: float) -> float:
    if name == "timestamp" and isinstance(value, str):
        return unix_seconds(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)  # possibly too large for a float
    if not (is_number or (isinstance(value, float) and math.isfinite(value))):
        raise ValueError(f"expected a finite number as {name}, got {_shown(value)}")
    if name == "timestamp" and is_in_milliseconds(value):
        raise ValueError(wrong_time(_shown(value)))
    if abs(value) > largest:
        raise ValueError(f"expected at most {largest:.2g} as {name}, got {_shown(value)}")
    return float(value)


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)[:_EXCERPT]
