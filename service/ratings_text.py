"""Text files of ratings, read by columns; only a file with a bad line is looked at line by line, to name it."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from service.errors import InvalidRatingsFile
from service.events import check_id

NAMES = ("user", "item", "rating", "timestamp")
LARGEST = {"rating": float(np.finfo(np.float32).max), "timestamp": float(np.finfo(np.float64).max)}
MIN_COLUMNS = 3
_MOVIELENS = b"::"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HEAD_BYTES = 1 << 16
_EXCERPT = 80


class BadLine(NamedTuple):
    """A line that cannot be used.

    Attributes:
        number: from 1, header and empty lines included.
        reason: what was expected and what is there.
    """

    number: int
    reason: str


class _Format(NamedTuple):
    delimiter: str
    n_columns: int
    n_header_lines: int


def read_text(path: Path, skip_bad: bool) -> tuple[pa.Table, list[BadLine]]:
    """Columns user, item (dictionary-encoded), rating, timestamp if there is one; and the lines left out.

    Raises:
        InvalidRatingsFile: the first bad line, unless `skip_bad`; no usable line at all; or a header that names the
            columns in another order.
    """
    data = path.read_bytes().removeprefix(_BYTE_ORDER_MARK)
    form, data = _recognised(path, data)
    try:
        table = _parsed(data, form)
        if _is_clean(table):
            return table, []
    except pa.ArrowInvalid:
        pass  # which line it was is found below
    lines = data.splitlines()
    bad = _bad_lines(lines, form)
    if not bad:
        raise InvalidRatingsFile(f"Invalid {path}: expected lines of user, item, rating[, timestamp]")
    if not skip_bad:
        raise InvalidRatingsFile(f"Invalid line {bad[0].number} of {path}: {bad[0].reason}")
    for number, _ in bad:
        lines[number - 1] = b""
    return _parsed(b"\n".join(lines) + b"\n", form), bad


def _recognised(path: Path, data: bytes) -> tuple[_Format, bytes]:
    """The format that the first line shows, and the data with a delimiter of one character."""
    lines = data[:_HEAD_BYTES].splitlines()
    n_empty = next((n for n, line in enumerate(lines) if line), 0)
    first = lines[n_empty] if lines else b""
    if _MOVIELENS in first:
        data, first = data.replace(_MOVIELENS, b"\t"), first.replace(_MOVIELENS, b"\t")
    delimiter = "\t" if b"\t" in first else ","
    fields = _fields(first, delimiter, errors="replace")
    if not MIN_COLUMNS <= len(fields) <= len(NAMES):
        shown = first[:_EXCERPT].decode(errors="replace")
        raise InvalidRatingsFile(f"Invalid {path}: expected user, item, rating[, timestamp] in line 1, got {shown!r}")
    if any(map(_is_number, fields)) or any(map(_stands_for_a_number, fields[2:])):
        return _Format(delimiter, len(fields), 0), data
    _check_header(path, fields)
    return _Format(delimiter, len(fields), n_empty + 1), data


def _check_header(path: Path, fields: list[str]) -> None:
    """Refuse a header whose columns stand in another order: read by position, users would be taken for items."""
    for column, field in enumerate(fields):
        name = next((name for name in NAMES if field.strip().lower().startswith(name)), NAMES[column])
        if name != NAMES[column]:
            wanted = ", ".join(NAMES[: len(fields)])
            raise InvalidRatingsFile(f"Invalid header of {path}: expected {wanted} in this order, got {fields}")


def _parsed(data: bytes, form: _Format) -> pa.Table:
    ids, number = pa.dictionary(pa.int32(), pa.string()), pa.float64()
    names = NAMES[: form.n_columns]
    return arrow_csv.read_csv(
        pa.BufferReader(data),
        arrow_csv.ReadOptions(column_names=names, skip_rows=form.n_header_lines, block_size=1 << 22),
        arrow_csv.ParseOptions(delimiter=form.delimiter, quote_char='"' if form.delimiter == "," else False),
        arrow_csv.ConvertOptions(
            column_types=dict(zip(NAMES, (ids, ids, number, number), strict=True)),
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
    """What is wrong with a line, None if nothing is."""
    try:
        fields = _fields(line, form.delimiter)
        if len(fields) != form.n_columns:
            return f"expected {form.n_columns} columns, got {len(fields)}: {line[:_EXCERPT].decode()!r}"
        for identifier in fields[:2]:
            check_id(identifier)
    except (ValueError, csv.Error) as error:  # UnicodeDecodeError is a ValueError
        return str(error)
    for name, text in zip(NAMES[2:], fields[2:], strict=False):
        if not _is_number(text):
            return f"expected a finite number as {name}, got {text[:_EXCERPT]!r}"
        if abs(float(text)) > LARGEST[name]:
            return f"expected at most {LARGEST[name]:.2g} as {name}, got {text[:_EXCERPT]!r}"
    return None


def _fields(line: bytes, delimiter: str, errors: str = "strict") -> list[str]:
    text = line.decode(errors=errors)
    return next(csv.reader([text], strict=True), []) if delimiter == "," else text.split(delimiter)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False


def _stands_for_a_number(text: str) -> bool:
    """Whether this is what a missing or unusable number looks like, which no header has."""
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True
