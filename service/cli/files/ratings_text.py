"""Reads text files of ratings by columns. Only a file with a bad line is read again line by line, to name the line."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from service.cli.files.ratings_columns import (
    N_NEEDED,
    NAMES,
    columns_named,
    columns_of,
    described,
)
from service.cli.files.ratings_times import NUMBER, seconds_of, seconds_of_column
from service.errors import InvalidRatingsFile
from service.ids import check_id
from service.limits import LATEST_S

LARGEST = {"rating": float(np.finfo(np.float32).max), "timestamp": LATEST_S}
_MOVIELENS = b"::"
_OTHER_DELIMITERS = b";", b"|"
_HEAD_BYTES = 1 << 16
_EXCERPT = 80
_LINE_ENDS = b"\r\n"


class BadLine(NamedTuple):
    """A line that cannot be used.

    Attributes:
        number: line number from 1, counting header and empty lines.
        reason: what was expected and what was found.
    """

    number: int
    reason: str


class TextRatings(NamedTuple):
    """The content of a text file.

    Attributes:
        table: columns user, item (dictionary-encoded), and rating and timestamp if there are any.
        bad: the lines left out.
        columns: the meaning of the columns, in words.
    """

    table: pa.Table
    bad: list[BadLine]
    columns: str


class _Format(NamedTuple):
    """The format of the lines.

    Attributes:
        delimiter: comma or tab.
        columns: positions of user, item, and perhaps rating and timestamp.
        n_columns: columns of each line.
        n_header_lines: lines up to and including the header; 0 without one.
        header: the names in the header.
    """

    delimiter: str
    columns: dict[str, int]
    n_columns: int
    n_header_lines: int
    header: list[str] | None


def read_text(path: Path, data: bytes, skip_bad: bool) -> TextRatings:
    """The ratings in `data`, the content of the file `path`.

    Raises:
        InvalidRatingsFile: a line is bad and `skip_bad` is false; or no line is usable.
    """
    form, data = _recognized(path, data)
    words = described(form.columns, form.header)
    try:
        table = _parsed(data, form)
        if _is_clean(table) and len(table) == _n_lines(data) - (form.header is not None):
            return TextRatings(table, [], words)
    except ValueError:  # pa.ArrowInvalid is one
        pass  # the code below finds the line
    lines = data.splitlines()
    bad = _bad_lines(lines, form)
    if not bad:
        raise InvalidRatingsFile(f"Invalid {path}: expected lines of user, item[, rating[, timestamp]]")
    if not skip_bad:
        hint = "" if form.header or bad[0].number > 1 else "; a header would name the columns user, item and rating"
        raise InvalidRatingsFile(f"Invalid line {bad[0].number} of {path}: {bad[0].reason}{hint}")
    for number, _ in bad:
        lines[number - 1] = b""
    return TextRatings(_parsed(b"\n".join(lines) + b"\n", form), bad, words)


def _n_lines(data: bytes) -> int:
    """Number of lines that are not empty. An unclosed quote turns many lines into one row, which this count reveals."""
    codes = np.frombuffer(data, dtype=np.uint8)
    is_text = (codes != _LINE_ENDS[0]) & (codes != _LINE_ENDS[1])
    return int(np.count_nonzero(is_text[1:] & ~is_text[:-1])) + int(is_text[:1].sum())


def _recognized(path: Path, data: bytes) -> tuple[_Format, bytes]:
    """The format of the first line, and the data with a delimiter of one character."""
    lines = data[:_HEAD_BYTES].splitlines()
    n_empty = next((n for n, line in enumerate(lines) if line), 0)
    first = lines[n_empty] if lines else b""
    if _MOVIELENS in first:
        data, first = data.replace(_MOVIELENS, b"\t"), first.replace(_MOVIELENS, b"\t")
    delimiter = "\t" if b"\t" in first else ","
    try:
        fields = _fields(first, delimiter, errors="replace")
    except csv.Error:  # reported later, like other bad lines
        fields = first.decode(errors="replace").split(delimiter)
    if _is_header(fields):
        try:
            return _Format(delimiter, columns_of(fields), len(fields), n_empty + 1, fields), data
        except ValueError as error:
            raise InvalidRatingsFile(f"Invalid header of {path}: {error}") from None
    n_others = max(map(first.count, _OTHER_DELIMITERS))
    if not N_NEEDED <= len(fields) <= len(NAMES) or n_others >= len(fields):
        wanted = "user, item[, rating[, timestamp]], or a header that names them, with commas or tabs between"
        shown = first[:_EXCERPT].decode(errors="replace")
        raise InvalidRatingsFile(f"Invalid {path}: expected {wanted} in line {n_empty + 1}, got {shown!r}")
    columns = {name: position for position, name in enumerate(NAMES[: len(fields)])}
    return _Format(delimiter, columns, len(fields), 0, None), data


def _is_header(fields: list[str]) -> bool:
    """Whether a line has no number and names at least two columns: a single name may be an id."""
    return len(columns_named(fields)) > 1 and not any(field and _stands_for_a_number(field) for field in fields)


def _parsed(data: bytes, form: _Format) -> pa.Table:
    """The columns in `data`; ValueError if a number or a time cannot be read."""
    try:
        return _table(data, form, pa.float64())
    except pa.ArrowInvalid:
        if "timestamp" not in form.columns:
            raise
    table = _table(data, form, pa.string())  # dates, perhaps among numbers
    place = table.column_names.index("timestamp")
    return table.set_column(place, "timestamp", seconds_of_column(table.column(place)))


def _table(data: bytes, form: _Format, time: pa.DataType) -> pa.Table:
    ids, number = pa.dictionary(pa.int32(), pa.string()), pa.float64()
    name_at = {position: name for name, position in form.columns.items()}
    return arrow_csv.read_csv(
        pa.BufferReader(data),
        arrow_csv.ReadOptions(
            column_names=[name_at.get(position, f"unused {position}") for position in range(form.n_columns)],
            skip_rows=form.n_header_lines,
            block_size=1 << 22,
        ),
        arrow_csv.ParseOptions(delimiter=form.delimiter, quote_char='"' if form.delimiter == "," else False),
        arrow_csv.ConvertOptions(
            column_types=dict(zip(NAMES, (ids, ids, number, time), strict=True)),
            include_columns=list(form.columns),
            strings_can_be_null=False,
            null_values=[],
        ),
    )


def _is_clean(table: pa.Table) -> bool:
    for name in table.column_names:
        column = table.column(name)
        if name in ("user", "item"):
            if not all(_are_ids(chunk.dictionary) for chunk in column.chunks):
                return False
        elif column.null_count or not pc.all(pc.less_equal(pc.abs(column), LARGEST[name]), min_count=0).as_py():
            return False
    return True


def _are_ids(names: pa.Array) -> bool:
    try:
        return all(map(check_id, names.to_pylist()))
    except ValueError:
        return False


def _bad_lines(lines: list[bytes], form: _Format) -> list[BadLine]:
    return [
        BadLine(number, reason)
        for number, line in enumerate(lines, start=1)
        if number > form.n_header_lines and line and (reason := _fault(line, form))
    ]


def _fault(line: bytes, form: _Format) -> str | None:
    """The fault of a line, or None."""
    try:
        fields = _fields(line, form.delimiter)
        if len(fields) != form.n_columns:
            shown = line[:_EXCERPT].decode(errors="replace")
            return f"expected {form.n_columns} columns, got {len(fields)}: {shown!r}"
        for name in NAMES[:2]:
            check_id(fields[form.columns[name]])
    except csv.Error as error:
        return _of_csv(error)
    except ValueError as error:  # UnicodeDecodeError is one
        return str(error)
    texts = {name: fields[position] for name, position in form.columns.items()}
    return next((reason for name in NAMES[2:] if name in texts and (reason := _number_fault(name, texts[name]))), None)


def _number_fault(name: str, text: str) -> str | None:
    if name == "timestamp":
        return _time_fault(text)
    if not _is_number(text):
        return f"expected a finite number as {name}, got {text[:_EXCERPT]!r}"
    if abs(float(text)) > LARGEST[name]:
        return f"expected at most {LARGEST[name]:.2g} as {name}, got {text[:_EXCERPT]!r}"
    return None


def _time_fault(text: str) -> str | None:
    try:
        seconds_of(text)
    except ValueError as error:
        return str(error)
    return None


def _of_csv(error: csv.Error) -> str:
    reason = str(error)
    return "expected a closing quote in the same line, got none" if reason == "unexpected end of data" else reason


def _fields(line: bytes, delimiter: str, errors: str = "strict") -> list[str]:
    text = line.decode(errors=errors)
    return next(csv.reader([text], strict=True), []) if delimiter == "," else text.split(delimiter)


def _is_number(text: str) -> bool:
    return NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def _stands_for_a_number(text: str) -> bool:
    """Whether this parses as a number, NaN included, which no name in a header does."""
    try:
        float(text)
    except ValueError:
        return False
    return True
