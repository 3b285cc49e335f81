"""Files of items: CSV and TSV, movies.csv and movies.dat of MovieLens, JSONL, Parquet.

Columns are found by name, in any capitals: the item, `tags.NAME` (values with | between), `numbers.NAME`, `available`
or `is_hidden`, `published` and `until`. A line of JSONL is an element of the body of POST /items; Parquet may also have
columns `tags`, `numbers` and `embedding`. Empty values are left out. Text and JSONL may be compressed by gzip.

Text is UTF-8. Other bytes make their line bad, unless they are in a column that is not used: titles of movies.dat are
in Latin-1.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.item_values import EXCERPT, READERS, flag_of
from service.cli.files.items_columns import (
    ATTRIBUTES,
    BY_NAME,
    HIDDEN,
    described,
    field_of,
    meanings_of,
    without_attributes,
)
from service.cli.files.ratings_file import GZIP_SUFFIX, JSON_SUFFIXES, PARQUET_SUFFIXES, check_regular
from service.cli.files.ratings_text import BadLine

Element = dict[str, Any]  # of the body of POST /items
MOVIELENS = ["item", "title", "genres"]  # the columns of movies.dat
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # as `surrogateescape` decodes it
_GZIP = b"\x1f\x8b"


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
            import pyarrow.parquet as pq  # noqa: PLC0415 (text files need no Parquet)

            with pq.ParquetFile(path) as file:
                header = list(file.schema_arrow.names)
                meanings = meanings_of(path, header)
                rows = file.read(columns=list(meanings)).to_pylist(maps_as_pydicts="strict")
            elements = []
            for number, row in enumerate(rows, 1):
                try:
                    elements.append(element_of_row(row, meanings))
                except ValueError as error:
                    raise InvalidRatingsFile(f"Invalid row {number} of {path}: {error}") from None
            return ItemsFile(elements, [], described(header, meanings))
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(_GZIP) else data
    except InvalidRatingsFile:
        raise
    except Exception as error:  # the libraries raise many kinds of errors for damaged files
        raise InvalidRatingsFile(f"Invalid {path}: expected items that can be read, got: {error}") from error
    # A line ends by CR, LF or both, and by no other separator of Unicode. `check_text` finds bytes that are not UTF-8.
    text = data.decode("utf-8-sig", "surrogateescape")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    is_json = suffix in JSON_SUFFIXES
    n_before, element_of, columns = (0, element_of_json, "fields as in POST /items") if is_json else table(path, lines)
    elements, bad = list[Element](), list[BadLine]()
    for number, line in enumerate(lines[n_before:], n_before + 1):
        if not line.strip():
            continue
        try:
            elements.append(element_of(line))
        except (ValueError, csv.Error) as error:
            if not skip_bad:
                raise InvalidRatingsFile(f"Invalid line {number} of {path}: {error}") from None
            bad.append(BadLine(number, str(error)))
    fields = dict.fromkeys(name for element in elements for name in element)
    if is_json and fields and fields.keys().isdisjoint(ATTRIBUTES):
        raise without_attributes(path, [*fields])
    return ItemsFile(elements, bad, columns)


def table(path: Path, lines: list[str]) -> tuple[int, Callable[[str], Element], str]:
    """How to read the lines of CSV, TSV or movies.dat: (lines up to the header, what reads the others, the columns)."""
    n_before = next((n for n, line in enumerate(lines) if line.strip()), 0)
    first = lines[n_before]
    try:
        check_text(first)
    except ValueError as error:
        raise InvalidRatingsFile(f"Invalid line {n_before + 1} of {path}: {error}") from None
    delimiter = "::" if "::" in first else "\t" if "\t" in first else ","

    def fields_of(line: str) -> list[str]:
        if delimiter != ",":
            return line.split(delimiter)
        if line.count('"') % 2:
            raise ValueError("expected a closing quote in the same line, got none")
        return next(csv.reader([line], strict=True), [])

    has_header = delimiter != "::"
    header = fields_of(first) if has_header else MOVIELENS
    meanings = meanings_of(path, header)

    def element_of(line: str) -> Element:
        fields = fields_of(line)
        if len(fields) != len(header):
            raise ValueError(f"expected {len(header)} columns, got {len(fields)}: {line[:EXCERPT]!r}")
        row = dict(zip(header, fields, strict=True))
        for name, meaning in meanings.items():
            check_text(row[name], meaning)
        return element_of_row(row, meanings)

    return n_before + has_header, element_of, described(header, meanings)


def check_text(text: str, place: str = "line") -> None:
    """Check that `text` was decoded from UTF-8; ValueError with the byte if it was not."""
    if (match := _NOT_UTF8.search(text)) is not None:
        before = _NOT_UTF8.sub("\ufffd", text[: match.start()])[-EXCERPT:]
        byte = f"the byte 0x{ord(match[0]) - 0xDC00:02x} after {before!r}"
        raise ValueError(f"Invalid {place}: expected UTF-8, got {byte}; convert the file, for example with iconv")


def element_of_json(line: str) -> Element:
    """The element in a line of JSONL, with the names of its fields as the API has them; ValueError if there is none."""
    check_text(line)
    try:
        item = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"expected a JSON object, got {line[:EXCERPT]!r} ({error})") from None
    if not isinstance(item, dict):
        raise ValueError(f"expected one JSON object a line, got {type(item).__name__}")
    element: Element = {}
    for name, value in item.items():
        field = field_of(name)
        is_opposite = field == HIDDEN and value is not None
        field = "available" if field == HIDDEN else field
        if field in element:
            raise ValueError(f"expected one field {field}, got two of them: {line[:EXCERPT]!r}")
        element[field] = not flag_of(value) if is_opposite else value
    return element


def element_of_row(row: Mapping[str, Any], meanings: Mapping[str, str]) -> Element:
    """The element in a row, by the meanings of its columns; ValueError if it has no item or a value is bad."""
    element: Element = {}
    for name, meaning in meanings.items():
        value = row.get(name)
        if value is None or value == "":
            continue
        place, _, key = meaning.partition(".")
        try:
            if key:
                element.setdefault(place, {})[key] = READERS[place](value)
            elif place in BY_NAME:
                if not isinstance(value, dict):
                    raise ValueError(
                        f"expected columns such as tags.genre, or values by name, got {str(value)[:EXCERPT]!r}"
                    )
                values = {key: READERS[place](inner) for key, inner in value.items() if inner is not None}
                element.setdefault(place, {}).update(values)
            elif place == HIDDEN:
                element["available"] = not flag_of(value)
            else:
                element[place] = READERS[place](value)
        except ValueError as error:
            raise ValueError(f"Invalid {meaning}: {error}") from None
    if "item" not in element:
        raise ValueError("expected an item, got none")
    return element
