"""Files of items: CSV and TSV, movies.csv and movies.dat of MovieLens, JSONL, Parquet.

Columns are found by name, in any capitals: the item, `tags.NAME` (values with | between), `numbers.NAME`, `available`
or `is_hidden`, `published` and `until`. A line of JSONL is an element of the body of POST /items; Parquet may also have
columns `tags`, `numbers` and `embedding`. Empty values are left out. Text and JSONL may be compressed by gzip.

Text is UTF-8. Other bytes make their line bad, unless they are in a column that is not used: titles of movies.dat are
in Latin-1.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.items_columns import ATTRIBUTES, HIDDEN, described, field_of, meanings_of, without_attributes
from service.cli.files.ratings_file import GZIP_SUFFIX, JSON_SUFFIXES, PARQUET_SUFFIXES, check_regular
from service.cli.files.ratings_text import BadLine
from service.cli.files.ratings_times import is_in_milliseconds, seconds_of, wrong_time

Element = dict[str, Any]  # of the body of POST /items
MOVIELENS = ["item", "title", "genres"]  # the columns of movies.dat
NO_GENRES = "(no genres listed)"  # of MovieLens
SEPARATOR = "|"
TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # as `surrogateescape` decodes it
_GZIP = b"\x1f\x8b"
_EXCERPT = 80


class ItemsFile(NamedTuple):
    """The items of a file, in its order.

    Attributes:
        elements: as the body of POST /items has them.
        bad: lines that were left out because of `skip_bad`.
        columns: the meaning of the columns, in words.
    """

    elements: list[Element]
    bad: list[BadLine]
    columns: str


def read(path: Path, skip_bad: bool = False) -> ItemsFile:
    """Read a file of items. Its suffix and its first line determine the format.

    Args:
        path: the file.
        skip_bad: leave out bad lines instead of refusing the file. What only the service can judge, it rejects.

    Raises:
        InvalidRatingsFile: the file cannot be used, or has a bad line; the message has its number, from 1.
        FileNotFoundError: there is no such file.
    """
    check_regular(path)
    suffix = (path.with_suffix("") if path.suffix.lower() == GZIP_SUFFIX else path).suffix.lower()
    try:
        if suffix in PARQUET_SUFFIXES:
            return _read_parquet(path)
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(_GZIP) else data
    except InvalidRatingsFile:
        raise
    except Exception as error:  # the libraries raise many kinds of errors for damaged files
        raise InvalidRatingsFile(f"Invalid {path}: expected items that can be read, got: {error}") from error
    # A line ends by CR, LF or both, and by no other separator of Unicode. `_check_text` finds bytes that are not UTF-8.
    text = data.decode("utf-8-sig", "surrogateescape")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if suffix not in JSON_SUFFIXES:
        return _read_table(path, lines, skip_bad)
    file = _read_lines(path, enumerate(lines, 1), _object, skip_bad, "fields as in POST /items")
    fields = dict.fromkeys(name for element in file.elements for name in element)
    if fields and fields.keys().isdisjoint(ATTRIBUTES):
        raise without_attributes(path, [*fields])
    return file


def _read_table(path: Path, lines: list[str], skip_bad: bool) -> ItemsFile:
    at = next((n for n, line in enumerate(lines) if line.strip()), 0)
    first = lines[at]
    try:
        _check_text(first)
    except ValueError as error:
        raise InvalidRatingsFile(f"Invalid line {at + 1} of {path}: {error}") from None
    delimiter = "::" if "::" in first else "\t" if "\t" in first else ","
    has_header = delimiter != "::"
    header = _fields(first, delimiter) if has_header else MOVIELENS
    meanings = meanings_of(path, header)
    rows = list(enumerate(lines, 1))[at + has_header :]

    def element_of(line: str) -> Element:
        fields = _fields(line, delimiter)
        if len(fields) != len(header):
            raise ValueError(f"expected {len(header)} columns, got {len(fields)}: {line[:_EXCERPT]!r}")
        row = dict(zip(header, fields, strict=True))
        for name, meaning in meanings.items():
            _check_text(row[name], meaning)
        return _element(row, meanings)

    return _read_lines(path, rows, element_of, skip_bad, described(header, meanings))


def _read_lines(
    path: Path, lines: Iterable[tuple[int, str]], element_of: Callable[[str], Element], skip_bad: bool, columns: str
) -> ItemsFile:
    elements, bad = list[Element](), list[BadLine]()
    for number, line in lines:
        if not line.strip():
            continue
        try:
            elements.append(element_of(line))
        except (ValueError, csv.Error) as error:
            if not skip_bad:
                raise InvalidRatingsFile(f"Invalid line {number} of {path}: {error}") from None
            bad.append(BadLine(number, str(error)))
    return ItemsFile(elements, bad, columns)


def _read_parquet(path: Path) -> ItemsFile:
    import pyarrow.parquet as pq  # noqa: PLC0415 (text files need no Parquet)

    with pq.ParquetFile(path) as file:
        header = list(file.schema_arrow.names)
        meanings = meanings_of(path, header)
        table = file.read(columns=list(meanings))
    elements = []
    for number, row in enumerate(table.to_pylist(maps_as_pydicts="strict"), 1):
        try:
            elements.append(_element(row, meanings))
        except ValueError as error:
            raise InvalidRatingsFile(f"Invalid row {number} of {path}: {error}") from None
    return ItemsFile(elements, [], described(header, meanings))


def _check_text(text: str, place: str = "line") -> None:
    """Check that `text` was decoded from UTF-8; ValueError with the byte if it was not."""
    if (match := _NOT_UTF8.search(text)) is not None:
        before = _NOT_UTF8.sub("\ufffd", text[: match.start()])[-_EXCERPT:]
        byte = f"the byte 0x{ord(match[0]) - 0xDC00:02x} after {before!r}"
        raise ValueError(f"Invalid {place}: expected UTF-8, got {byte}; convert the file, for example with iconv")


def _fields(line: str, delimiter: str) -> list[str]:
    if delimiter != ",":
        return line.split(delimiter)
    if line.count('"') % 2:
        raise ValueError("expected a closing quote in the same line, got none")
    return next(csv.reader([line], strict=True), [])


def _object(line: str) -> Element:
    _check_text(line)
    try:
        item = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"expected a JSON object, got {line[:_EXCERPT]!r} ({error})") from None
    if not isinstance(item, dict):
        raise ValueError(f"expected one JSON object a line, got {type(item).__name__}")
    element: Element = {}
    for name, value in item.items():
        field = field_of(name)
        is_opposite = field == HIDDEN and value is not None
        field = "available" if field == HIDDEN else field
        if field in element:
            raise ValueError(f"expected one field {field}, got two of them: {line[:_EXCERPT]!r}")
        element[field] = _is_shown(value) if is_opposite else value
    return element


def _element(row: Mapping[str, Any], meanings: Mapping[str, str]) -> Element:
    element: Element = {}
    for name, meaning in meanings.items():
        value = row.get(name)
        if value is None or value == "":
            continue
        place, _, key = meaning.partition(".")
        try:
            if key:
                element.setdefault(place, {})[key] = _OF_NAMES[place](value)
            elif place in _OF_NAMES:
                element.setdefault(place, {}).update(_by_name(value, _OF_NAMES[place]))
            else:
                element["available" if place == HIDDEN else place] = _OF_COLUMNS[place](value)
        except ValueError as error:
            raise ValueError(f"Invalid {meaning}: {error}") from None
    if "item" not in element:
        raise ValueError("expected an item, got none")
    return element


def _id(value: Any) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError(f"expected text or an integer, got {str(value)[:_EXCERPT]!r}")
    return str(value)


def _values(value: Any) -> list[str]:
    if isinstance(value, list):
        return [_text(one) for one in value if one is not None]
    if not isinstance(value, str):
        return [_text(value)]
    return [] if value == NO_GENRES else [one for one in value.split(SEPARATOR) if one]


def _text(value: Any) -> str:
    if isinstance(value, bytes | list | dict):
        raise ValueError(f"expected text, got {str(value)[:_EXCERPT]!r}")
    return str(value)


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {str(value)[:_EXCERPT]!r}")
    return number


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() not in TRUTH:
        raise ValueError(f"expected true or false, got {str(value)[:_EXCERPT]!r}")
    return TRUTH[str(value).strip().lower()]


def _is_shown(is_hidden: Any) -> bool:
    return not _flag(is_hidden)


def _time(value: Any) -> float:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=value.tzinfo or datetime.UTC).timestamp()
    if isinstance(value, datetime.date | str):
        return seconds_of(str(value))
    seconds = _number(value)
    if is_in_milliseconds(seconds):
        raise ValueError(wrong_time(str(value)[:_EXCERPT]))
    return seconds


def _numbers(value: Any) -> list[float]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of numbers, got {str(value)[:_EXCERPT]!r}")
    return [_number(one) for one in value]


def _by_name(value: Any, converted: Callable[[Any], Any]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected columns such as tags.genre, or values by name, got {str(value)[:_EXCERPT]!r}")
    return {name: converted(one) for name, one in value.items() if one is not None}


_OF_NAMES: dict[str, Callable[[Any], Any]] = {"tags": _values, "numbers": _number}
_OF_COLUMNS: dict[str, Callable[[Any], Any]] = {
    "item": _id,
    "available": _flag,
    HIDDEN: _is_shown,
    "published": _time,
    "until": _time,
    "embedding": _numbers,
}
