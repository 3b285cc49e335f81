"""Reads text files of ratings by columns. Only a file in doubt is read again line by line, to name the lines."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from service.cli.files.doubtful_ids import IS_MISSING, NEWLINE, NO_QUOTE, are_ids, checked_id
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.quotes import are_quotes, without_newlines
from service.cli.files.ratings_columns import N_NEEDED, NAMES, Choice, described, is_alias, is_header
from service.cli.files.ratings_times import NUMBER, seconds_of, seconds_of_column
from service.cli.files.text_format import SPACE, Format, recognized

_N_SHOWN = 40  # bytes around the fault

_EXCERPT = 80
_LINE_ENDS = b"\r\n"
_BLOCK_BYTES = 1 << 22
_SPACES, _AROUND = re.compile(rb"[ \t]+"), re.compile(rb"(?m)^ | (?=\r?$)")
_NETFLIX = re.compile(rb"^(\d+):[ \t\r]*\n", re.MULTILINE)  # the item of the lines behind it
_OF_NETFLIX = Choice({"user": 0, "rating": 1, "timestamp": 2, "item": 3}, 4)


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
        table: columns user, item (dictionary-encoded, all chunks with one dictionary), and rating and timestamp if
            there are any.
        bad: the lines left out.
        columns: the meaning of the columns and the format, in words.
    """

    table: pa.Table
    bad: list[BadLine]
    columns: str


def read_text(path: Path, data: bytes, how: How) -> TextRatings:
    """The ratings in `data`, the content of the file `path`.

    Raises:
        InvalidRatingsFile: a line is bad and `how.skip_bad` is false; or most lines are bad; or no format fits, or
            several do.
    """
    if how.delimiter == SPACE:
        data = _AROUND.sub(b"", _SPACES.sub(b" ", data))
    blocks = ""
    if how.choice is None and how.delimiter is None and _NETFLIX.match(data):
        how = how._replace(choice=_OF_NETFLIX)
        data, blocks = lines_of_blocks(data), " in blocks of an item"
    form, data = recognized(path, data, how.delimiter, how.choice)
    if form.is_quoted and b'"' in data:
        data = without_newlines(data, form.delimiter, form.n_columns, NEWLINE.encode())
    n_lines = count_lines(data)
    header = "no header" if form.header is None else f"a header in line {form.n_header_lines}"
    words = f"{described(form.columns, form.header, form.n_columns)}; text in {(how.encoding or 'UTF-8').upper()} with"
    words += f" {form.separator}, {header}, {n_lines:,} lines{blocks}"
    is_whole = False
    try:
        table, spaces = table_of(data, form, how)
        is_whole = len(table) == n_lines - (form.header is not None)
        if is_whole and is_clean(data, table, form, how):
            return TextRatings(table, [], words + spaces)
    except ValueError:  # pa.ArrowInvalid is one
        pass  # the code below finds the line
    lines = data.splitlines()
    bad = [
        BadLine(number, reason)
        for number, line in enumerate(lines, start=1)
        if number > form.n_header_lines and line and (reason := fault_of(line, form, how))
    ]
    if not bad and is_whole:
        return TextRatings(table, [], words + spaces)
    if not bad:
        raise InvalidRatingsFile(f"Invalid {path}: expected lines of user, item[, rating[, timestamp]]")
    hint = "" if form.header or bad[0].number > 1 else "; a header would name the columns user, item and rating"
    check_bad(path, bad, n_lines, how.skip_bad, hint)
    for number, _ in bad:
        # A header among the bad lines may give the lines behind it other columns.
        names = plain_names(lines[number - 1].decode(errors="replace").split(form.delimiter))
        if is_header(names) and (form.header is None or names != plain_names(form.header)):
            raise InvalidRatingsFile(
                f"Invalid line {number} of {path}: expected no header with other columns than those of the lines"
                f" before, got {', '.join(names)[:_EXCERPT]!r}; split the file there"
            )
        lines[number - 1] = b""
    table, spaces = table_of(b"\n".join(lines) + b"\n", form, how)
    return TextRatings(table, bad, words + spaces)


def lines_of_blocks(data: bytes) -> bytes:
    """Lines of user, rating, time and item, from blocks that begin with the item, a colon and nothing else (Netflix).

    The line of the item becomes empty, so that no line gets another number.
    """
    data = data.replace(b"\r\n", b"\n").removesuffix(b"\n") + b"\n"
    heads = [*_NETFLIX.finditer(data)]
    ends = [*(head.start() for head in heads[1:]), len(data)]
    blocks = (
        b"\n" + data[head.end() : end].replace(b"\n", b"," + head[1] + b"\n")
        for head, end in zip(heads, ends, strict=True)
    )
    return b"".join(blocks)


def check_bad(
    path: Path, bad: Sequence[BadLine], n_lines: int, skip_bad: bool, hint: str = "", noun: str = "line"
) -> None:
    """Check that the bad lines of a file, or what else `noun` says, may be left out.

    Raises:
        InvalidRatingsFile: `skip_bad` is false, or most of the `n_lines` lines are bad.
    """
    n_other = sum(1 for line in bad if IS_MISSING not in line.reason)
    is_other = 2 * n_other > n_lines
    if bad and not skip_bad:
        several = (
            f"; {len(bad):,} of {n_lines:,} {noun}s are bad, and --skip-bad leaves them out" if not is_other else ""
        )
        raise InvalidRatingsFile(f"Invalid {noun} {bad[0].number} of {path}: {bad[0].reason}{hint}{several}")
    if is_other:
        raise InvalidRatingsFile(
            f"Invalid {path}: expected a file of ratings, got {n_other:,} bad {noun}s of {n_lines:,}, too many to leave"
            f" out: it has another format. {noun.capitalize()} {bad[0].number}: {bad[0].reason}"
        )


def count_lines(data: bytes) -> int:
    """Number of lines that are not empty. An unclosed quote turns many lines into one row, which this count reveals."""
    codes, n_lines, ends_in_text = np.frombuffer(data, dtype=np.uint8), 0, False
    for start in range(0, len(codes), _BLOCK_BYTES):
        block = codes[start : start + _BLOCK_BYTES]
        is_text = (block != _LINE_ENDS[0]) & (block != _LINE_ENDS[1])
        n_lines += int(np.count_nonzero(is_text[1:] & ~is_text[:-1])) + int(is_text[0] and not ends_in_text)
        ends_in_text = bool(is_text[-1])
    return n_lines


def table_of(data: bytes, form: Format, how: How) -> tuple[pa.Table, str]:
    """The columns in `data`, and in words how many ids had spaces around, which are removed.

    Raises:
        ValueError: a number or a time cannot be read.
    """
    ids, number = pa.dictionary(pa.int32(), pa.string()), pa.float64()
    name_at = {position: name for name, position in form.columns.items()}
    for time in (pa.float64(), pa.string()):  # text: dates, perhaps among numbers
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(data),
                arrow_csv.ReadOptions(
                    column_names=[name_at.get(position, f"unused {position}") for position in range(form.n_columns)],
                    skip_rows=form.n_header_lines,
                    block_size=1 << 22,
                ),
                arrow_csv.ParseOptions(delimiter=form.delimiter, quote_char='"' if form.is_quoted else False),
                arrow_csv.ConvertOptions(
                    column_types=dict(zip(NAMES, (ids, ids, number, time), strict=True)),
                    include_columns=list(form.columns),
                    strings_can_be_null=False,
                    null_values=[""],  # no time; a rating is checked
                ),
            ).unify_dictionaries()
            break
        except pa.ArrowInvalid:
            if "timestamp" not in form.columns or time == pa.string():
                raise
    if "timestamp" in form.columns:
        place = table.column_names.index("timestamp")
        table = table.set_column(place, "timestamp", seconds_of_column(table.column(place), how.per_second))
    n_spaced = 0
    for name in NAMES[:N_NEEDED]:
        texts = ids_in(table, name)
        trimmed = pc.utf8_trim_whitespace(texts)
        if trimmed.equals(texts):
            continue
        n_spaced += pc.sum(pc.not_equal(trimmed, texts)).as_py()
        encoded = trimmed.dictionary_encode()
        chunks = [
            pa.DictionaryArray.from_arrays(encoded.indices.take(chunk.indices), encoded.dictionary)
            for chunk in table.column(name).chunks
        ]
        table = table.set_column(table.column_names.index(name), name, pa.chunked_array(chunks))
    return table, f"; without the spaces around {n_spaced:,} different ids" if n_spaced else ""


def ids_in(table: pa.Table, name: str) -> pa.StringArray:
    """The different ids of a column whose chunks share one dictionary."""
    column = table.column(name)
    return column.chunk(0).dictionary if column.num_chunks else pa.array([], pa.string())


def is_clean(data: bytes, table: pa.Table, form: Format, how: How) -> bool:
    """Whether no line of `data`, whose columns are in `table`, can be bad. If not, each line has to be looked at."""
    for name in table.column_names:
        column = table.column(name)
        if name in NAMES[:N_NEEDED]:
            if not are_ids(ids_in(table, name)):
                return False
        elif (column.null_count and name != "timestamp") or not pc.all(
            pc.less_equal(pc.abs(column), how.limits[name]), min_count=0
        ).as_py():
            return False
    # Columns do not show wrong bytes, wrong quotes and, without numbers, a header.
    if not is_utf8(data) or (form.is_quoted and b'"' in data and not are_quotes(data, form.delimiter)):
        return False
    if len(form.columns) > N_NEEDED:
        return True
    # A header would be there if among the ids of each column is the name that it has in the header, or may have.
    for name in NAMES[:N_NEEDED]:
        texts = ids_in(table, name)
        if form.header is not None and pc.any(pc.equal(texts, form.header[form.columns[name]].strip())).as_py():
            continue
        words = texts.filter(pc.invert(pc.match_substring_regex(texts, "[0-9]")))
        if not any(map(is_alias, words.to_pylist())):
            return True
    return False


def fault_of(line: bytes, form: Format, how: How) -> str | None:
    """The fault of a line, or None."""
    if reason := utf8_fault(line):
        return reason
    try:
        fields = form.fields(line.decode())
    except csv.Error as error:
        reason = str(error)
        return NO_QUOTE if reason == "unexpected end of data" else reason
    if is_header_within(fields, form):
        return "expected a rating, got a header within the file: were files joined? Remove it"
    if len(fields) != form.n_columns:
        return f"expected {form.n_columns} columns, got {len(fields)}: {line[:_EXCERPT].decode(errors='replace')!r}"
    try:
        for name, place in form.columns.items():
            text = fields[place]
            if name in NAMES[:N_NEEDED]:
                if form.is_quoted and text[:1].isspace() and text.lstrip()[:1] == '"':
                    raise ValueError(f"expected a quote right behind the separator, got {text[:_EXCERPT]!r}")
                checked_id(text.strip())
            elif name == "timestamp":
                seconds_of(text or "0", how.per_second)  # without a text the rating has no time
            elif NUMBER.fullmatch(text) is None or not math.isfinite(float(text)):
                raise ValueError(f"expected a finite number as {name}, got {text[:_EXCERPT]!r}")
            elif abs(float(text)) > how.largest:
                raise ValueError(f"expected at most {how.largest:.2g} as {name}, got {text[:_EXCERPT]!r}")
    except ValueError as error:
        return str(error)
    return None


def is_header_within(fields: list[str], form: Format) -> bool:
    """Whether a line repeats the header, or names columns as another one."""
    place = form.columns["user"]
    if len(fields) == form.n_columns:
        user, header = fields[place].strip(), form.header
        if header is not None and user == header[place].strip() and plain_names(fields) == plain_names(header):
            return True
        if not is_alias(user):
            return False
    return is_header(plain_names(fields))


def plain_names(fields: list[str]) -> list[str]:
    """Names of columns without quotes, and without the byte order mark of a joined file."""
    return [field.strip().removeprefix("\ufeff").strip('"') for field in fields]


def is_utf8(data: bytes) -> bool:
    """Whether all of `data` is UTF-8; needs no memory for a decoded copy."""
    ends = pa.array([0, len(data)], pa.int64()).buffers()[1]
    try:
        pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def utf8_fault(line: bytes) -> str | None:
    """Why a line is not UTF-8; None if it is."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        around = line[max(0, error.start - _N_SHOWN // 2) : error.start + _N_SHOWN // 2]
        return (
            f"expected text in UTF-8, got the byte 0x{line[error.start]:02x} in {around.decode('latin-1')!r}"
            " (shown as Latin-1); name the encoding, as by --encoding latin-1, or mend this line"
        )
    return None
