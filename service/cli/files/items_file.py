"""Files of items: CSV and TSV, movies.csv and movies.dat of MovieLens, JSON, Parquet; or folders of part files.

Columns are found by name, in any capitals: the item, `tags.NAME` (values with | between), `numbers.NAME`, `available`
or `is_hidden`, `published` and `until`. A line of JSONL is an element of the body of POST /items; Parquet may also have
columns `tags`, `numbers` and `embedding`. Empty values are left out. Text and JSON may be compressed by gzip.

Text is UTF-8, unless the caller names another encoding. Other bytes make their line bad, unless they are in a column
that is not used.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from service.cli.files.doubtful_ids import NO_QUOTE
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.item_values import EXCERPT, READERS, TIMES, flag_of, time_of
from service.cli.files.items_columns import (
    ATTRIBUTES,
    BY_NAME,
    HIDDEN,
    described,
    field_of,
    meanings_of,
    without_attributes,
)
from service.cli.files.quotes import without_newlines
from service.cli.files.ratings_file import BYTE_ORDER_MARK, GZIP_SUFFIX, JSON_SUFFIXES, PARQUET_SUFFIXES, parts_of
from service.cli.files.ratings_json import objects_in
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


def read(path: Path, how: How = How()) -> ItemsFile:  # noqa: B008 (it never changes)
    """Read a file of items, or a folder of part files. Its suffix and its first line determine the format.

    Args:
        path: the file.
        how: the separator, the encoding and the unit of times, and whether to leave out bad lines instead of refusing
            the file. What only the service can judge, it rejects.

    Raises:
        InvalidRatingsFile: the file cannot be used, or has a bad line; the message has its number, from 1.
        FileNotFoundError: there is no such file.
    """
    files = [read_part(part, how) for part in parts_of(path)]
    elements = [element for file in files for element in file.elements]
    return ItemsFile(elements, [line for file in files for line in file.bad], files[0].columns)


def read_part(path: Path, how: How) -> ItemsFile:
    """The same of one regular file."""
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
                    elements.append(element_of_row(row, meanings, how))
                except ValueError as error:
                    raise InvalidRatingsFile(f"Invalid row {number} of {path}: {error}") from None
            return ItemsFile(elements, [], described(header, meanings))
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(_GZIP) else data
        data = data if how.encoding is None else data.decode(how.encoding).encode()
    except InvalidRatingsFile:
        raise
    except Exception as error:  # the libraries raise many kinds of errors for damaged files
        raise InvalidRatingsFile(f"Invalid {path}: expected items that can be read, got: {error}") from error
    data = data.removeprefix(BYTE_ORDER_MARK)
    is_json = suffix in JSON_SUFFIXES
    noun, columns = "line", "fields as in POST /items"
    element_of: Callable[[str], Element] = element_of_json
    if is_json:
        noun, objects = objects_in(path, data)
        texts = [(number, text.decode("utf-8", "surrogateescape")) for number, text in objects]
    else:
        texts, columns, element_of = table(path, data, how)
    elements, bad = list[Element](), list[BadLine]()
    for number, text in texts:
        try:
            elements.append(element_of(text))
        except (ValueError, csv.Error) as error:
            if not how.skip_bad:
                raise InvalidRatingsFile(f"Invalid {noun} {number} of {path}: {error}") from None
            bad.append(BadLine(number, str(error)))
    fields = dict.fromkeys(name for element in elements for name in element)
    if is_json and fields and fields.keys().isdisjoint(ATTRIBUTES):
        raise without_attributes(path, [*fields])
    return ItemsFile(elements, bad, columns)


def table(path: Path, data: bytes, how: How) -> tuple[list[tuple[int, str]], str, Callable[[str], Element]]:
    """CSV, TSV or movies.dat: lines behind the header with their numbers, columns in words, and what reads a line."""
    lines = lines_of(data)
    n_before = next((n for n, line in enumerate(lines) if line.strip()), 0)
    first = lines[n_before]
    try:
        check_text(first)
    except ValueError as error:
        raise InvalidRatingsFile(f"Invalid line {n_before + 1} of {path}: {error}") from None
    delimiter = how.delimiter or ("::" if "::" in first else "\t" if "\t" in first else ",")

    def fields_of(line: str) -> list[str]:
        if delimiter in ("::", "\t"):
            return line.split(delimiter)
        if line.count('"') % 2:
            raise ValueError(NO_QUOTE)
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])

    has_header = delimiter != "::"
    header = fields_of(first) if has_header else MOVIELENS
    meanings = meanings_of(path, header)
    if delimiter not in ("::", "\t") and b'"' in data:
        lines = lines_of(without_newlines(data, delimiter, len(header), b" "))

    def element_of(line: str) -> Element:
        fields = fields_of(line)
        if len(fields) != len(header):
            raise ValueError(f"expected {len(header)} columns, got {len(fields)}: {line[:EXCERPT]!r}")
        row = dict(zip(header, fields, strict=True))
        if header is MOVIELENS and _NOT_UTF8.search(row["title"]):  # these files have titles in Latin-1
            row["title"] = row["title"].encode("utf-8", "surrogateescape").decode("latin-1")
        for name, meaning in meanings.items():
            check_text(row[name], meaning)
        return element_of_row(row, meanings, how)

    n_before += has_header
    numbered = [(number, line) for number, line in enumerate(lines[n_before:], n_before + 1) if line.strip()]
    return numbered, described(header, meanings), element_of


def lines_of(data: bytes) -> list[str]:
    """The lines, which end by CR, LF or both, and by no other separator of Unicode; `check_text` finds other bytes."""
    text = data.decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def check_text(text: str, place: str = "line") -> None:
    """Check that `text` was decoded from UTF-8; ValueError with the byte if it was not."""
    if (match := _NOT_UTF8.search(text)) is not None:
        before = _NOT_UTF8.sub("\ufffd", text[: match.start()])[-EXCERPT:]
        byte = f"the byte 0x{ord(match[0]) - 0xDC00:02x} after {before!r}"
        raise ValueError(f"Invalid {place}: expected UTF-8, got {byte}; name the encoding: --encoding latin-1")


def element_of_json(line: str) -> Element:
    """The element in a line of JSONL, with the names of its fields as the API has them; ValueError if there is none."""
    check_text(line)
    try:
        item = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"expected a JSON object, got {line[:EXCERPT]!r} ({error})") from None
    if not isinstance(item, dict):
        raise ValueError(f"expected one JSON object, got {type(item).__name__}")
    element: Element = {}
    for name, value in item.items():
        field = field_of(name)
        is_opposite = field == HIDDEN and value is not None
        field = "available" if field == HIDDEN else field
        if field in element:
            raise ValueError(f"expected one field {field}, got two of them: {line[:EXCERPT]!r}")
        element[field] = not flag_of(value) if is_opposite else value
    return element


def element_of_row(row: Mapping[str, Any], meanings: Mapping[str, str], how: How) -> Element:
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
            elif place in TIMES:
                element[place] = time_of(value, how.per_second)
            else:
                element[place] = READERS[place](value)
        except ValueError as error:
            raise ValueError(f"Invalid {meaning}: {error}") from None
    if "item" not in element:
        raise ValueError("expected an item, got none")
    return element
