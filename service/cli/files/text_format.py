"""Recognizes the format of a text file of ratings by its first lines and by lines throughout the file.

The separator is the one that splits every line into equally many columns, of which those of ratings and times are
numbers and times. What several readings fit is refused, with the option that decides.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.quotes import are_quotes, have_quotes, is_wrapped
from service.cli.files.ratings_columns import (
    N_NEEDED,
    NAMES,
    Choice,
    columns_named,
    columns_of,
    is_alias,
    is_header,
    option_for,
)
from service.cli.files.ratings_times import NUMBER, seconds_of
from service.settings.errors import InvalidSetting

_MOVIELENS = "::"
_TAB = "\t"
_SEPARATORS = {",": "commas", _TAB: "tabs", _MOVIELENS: "::", ";": "semicolons", "|": "bars", " ": "spaces"}
SPACE = " "  # stands for spaces and tabs, as many as there are
_RECOGNIZED = (",", _TAB, _MOVIELENS)  # the others need the option
_N_SAMPLED = 200  # lines at the beginning, and again throughout the rest
_HEAD_BYTES = 1 << 16
_EXCERPT = 80
_NAME_OF_COLUMN = re.compile(r"(?i:.*[\W_](id|key|name|code|no|number|index))|.*[a-z]I[dD]|(?i:id|key|name)")


class Format(NamedTuple):
    """The format of the lines.

    Attributes:
        delimiter: one character; a tab in the place of `::`.
        is_quoted: whether quotes around a field are no part of it.
        columns: positions of user, item, and perhaps rating and timestamp.
        n_columns: columns of each line.
        n_header_lines: lines up to and including the header; 0 without one.
        header: the names in the header.
        separator: what stands between columns, in words.
    """

    delimiter: str
    is_quoted: bool
    columns: dict[str, int]
    n_columns: int
    n_header_lines: int
    header: list[str] | None
    separator: str = "commas"

    def fields(self, text: str) -> list[str]:
        """The fields of a line; `csv.Error` if its quotes are wrong."""
        return fields_of(text, self.delimiter, self.is_quoted)


class Reading(NamedTuple):
    """The lines of the sample, read with one separator.

    Attributes:
        separator: as it is in the file.
        rows: the fields of each line.
        n_columns: of the header, else of most lines.
        has_header: whether the first line names the columns.
        is_even: whether all lines have `n_columns`.
        n_understood: columns with a meaning; half a column less if numbers need a decimal comma; 0 if most ratings or
            times are none.
    """

    separator: str
    rows: list[list[str]]
    n_columns: int
    has_header: bool
    is_even: bool
    n_understood: float

    @classmethod
    def of(cls, lines: list[str], separator: str, choice: Choice | None) -> Reading | None:
        """The lines with this separator; None if it does not split most of them."""
        if not any(separator in line for line in lines):
            return None
        delimiter = _TAB if separator == _MOVIELENS else separator
        texts = [line.replace(_MOVIELENS, _TAB) for line in lines] if separator == _MOVIELENS else lines
        is_quoted = delimiter == "," or have_quotes(texts, delimiter)
        rows = [fields_of(text, delimiter, is_quoted, is_strict=False) for text in texts]
        names = [name.strip() for name in rows[0]]
        is_chosen = choice is not None and choice.has_names and all(name in names for name in choice.places.values())
        has_header = is_chosen or is_header(names)
        n_columns = len(names) if has_header else Counter(map(len, rows)).most_common(1)[0][0]
        if n_columns < N_NEEDED:
            return None
        body = [row for row in rows[has_header:] if len(row) == n_columns]
        is_even = len(body) == len(rows) - has_header
        if has_header:
            n_understood: float = len(columns_named(names)) or N_NEEDED
        else:
            if choice is not None and choice.n_columns:
                columns = {name: int(place) for name, place in choice.places.items()}
                body = body if n_columns == choice.n_columns else []
            else:
                columns = {name: place for place, name in enumerate(NAMES[:n_columns])} if body else {}
                columns = columns if n_columns <= len(NAMES) else {}
            n_understood = len(columns) if body else 0
            for name in columns.keys() & set(NAMES[N_NEEDED:]):
                cells = [row[columns[name]] for row in body]
                if 2 * sum(stands_for(name, cell) for cell in cells) < len(cells):
                    if 2 * sum(stands_for(name, cell.replace(",", ".")) for cell in cells) < len(cells):
                        n_understood = 0
                        break
                    n_understood = len(columns) - 0.5
        return cls(separator, rows, n_columns, has_header, is_even, n_understood)


def delimiter_of(text: str) -> str:
    """The separator that an option names: one character, `::`, or tab or space in words.

    Raises:
        InvalidSetting: it cannot separate columns.
    """
    mark = {"tab": _TAB, r"\t": _TAB, "space": SPACE}.get(text.lower(), text)
    if mark != _MOVIELENS and (len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in '"\r\n\0.-+_'):
        raise InvalidSetting(
            f"Invalid delimiter: expected one character such as ; or |, tab, space, or ::, got {text!r}"
        )
    return mark


def recognized(path: Path, data: bytes, delimiter: str | None, choice: Choice | None) -> tuple[Format, bytes]:
    """The format of `data`, and the data with a delimiter of one character.

    Args:
        path: the file, for messages.
        data: its content.
        delimiter: the separator, if the caller chose it.
        choice: the columns, if the caller chose them.

    Raises:
        InvalidRatingsFile: no format fits, or several do.
    """
    number, lines = sample_of(data)
    separators = _SEPARATORS if delimiter is None else (delimiter,)
    readings = [reading for separator in separators if (reading := Reading.of(lines, separator, choice))]
    shown = repr(lines[0][:_EXCERPT]) if lines else "''"
    expected = "user, item[, rating[, timestamp]], or a header that names them, with commas or tabs between"
    refusal = f"Invalid {path}: expected {expected} in line {number}, got {shown}"
    best = best_of(readings)
    if best is None:
        raise InvalidRatingsFile(refusal)
    if delimiter is None:
        _check_separator(path, refusal, best, readings)
    if best.n_columns > len(NAMES) and not best.has_header and choice is None:
        raise InvalidRatingsFile(
            f"{refusal}; name all {best.n_columns} columns in their order, such as --columns user,item,-,rating,-"
        )
    header = best.rows[0] if best.has_header else None
    try:
        if best.has_header or choice is not None:
            has_names = best.has_header or (choice is not None and choice.has_names)
            columns = columns_of(best.rows[0] if has_names else [""] * best.n_columns, choice)
        else:
            columns = {name: place for place, name in enumerate(NAMES[: best.n_columns])}
    except ValueError as error:
        raise InvalidRatingsFile(f"Invalid header of {path}: {error}") from None
    if header is None and choice is None:
        _check_first(path, number, best)
    users = [row[columns["user"]] for row in best.rows[best.has_header :] if len(row) == best.n_columns]
    if users and all(is_wrapped(user, "'") for user in users):
        raise InvalidRatingsFile(
            f"Invalid {path}: expected double quotes around ids, or none, got {users[0][:_EXCERPT]}"
        )
    mark = _TAB if best.separator == _MOVIELENS else best.separator
    data = data.replace(_MOVIELENS.encode(), _TAB.encode()) if best.separator == _MOVIELENS else data
    is_quoted = mark == "," or have_quotes(lines, mark) or (b'"' in data and are_quotes(data, mark))
    words = (
        _SEPARATORS.get(best.separator, repr(best.separator)) + " between" + ", in quotes" * (is_quoted and mark != ",")
    )
    n_columns = len(header) if header else best.n_columns
    return Format(mark, is_quoted, columns, n_columns, number if header else 0, header, words), data


def sample_of(data: bytes) -> tuple[int, list[str]]:
    """The number of the first line that is not empty, from 1, and lines from the beginning and from throughout."""
    head = data[:_HEAD_BYTES].splitlines()
    number = next((n for n, line in enumerate(head, start=1) if line), 1)
    lines, later = [line for line in head if line], list[bytes]()
    if len(data) > _HEAD_BYTES:
        lines = lines[:-1] or lines  # the last one may go on
        for place in range(1, _N_SAMPLED):
            start = data.find(b"\n", len(data) * place // _N_SAMPLED) + 1
            end = data.find(b"\n", start)
            if not 0 < start < end:
                break  # long lines, or line ends of another kind
            later.append(data[start:end].rstrip(b"\r"))
    return number, [line.decode(errors="replace") for line in (*lines[:_N_SAMPLED], *later) if line]


def stands_for(name: str, text: str) -> bool:
    """Whether `text` may be the rating or the time; in milliseconds too, which are refused later."""
    if NUMBER.fullmatch(text):
        return True
    try:
        return name == "timestamp" and seconds_of(text) is not None
    except ValueError:
        return False


def best_of(readings: Sequence[Reading]) -> Reading | None:
    """The reading that understands most; with a header if there is one."""
    order = [r for r in readings if r.separator != " "] or list(readings)
    return max(order, key=lambda r: (r.has_header, r.n_understood, r.is_even, r.n_columns <= len(NAMES)), default=None)


def _check_separator(path: Path, refusal: str, best: Reading, readings: Sequence[Reading]) -> None:
    """Check that the separator of `best` alone fits, and that it is one of those that are recognized."""
    rivals = [
        other
        for other in readings
        if other is not best
        and other.is_even
        and other.n_understood
        and other.has_header == best.has_header
        and (other.n_understood == best.n_understood or (best.separator == _MOVIELENS and other.separator != " "))
    ]
    if best.separator not in _RECOGNIZED and best.n_understood:
        others = " or commas" * any(other.separator == "," and other.is_even for other in readings)
        raise InvalidRatingsFile(
            f"{refusal}: are {_SEPARATORS[best.separator]}{others} between?"
            f" Choose by --delimiter '{best.separator}'" + " or --delimiter ," * bool(others)
        )
    if rivals and best.n_understood:
        fitting = [best, *rivals]
        ways = "; ".join(
            f"{_SEPARATORS[r.separator]}: {' and '.join(map(repr, r.rows[-1]))[:_EXCERPT]}" for r in fitting
        )
        options = " or ".join(f"--delimiter {'tab' if r.separator == _TAB else r.separator}" for r in fitting)
        raise InvalidRatingsFile(
            f"Invalid {path}: expected one separator that fits, got several ({ways}); choose by {options}"
        )


def _check_first(path: Path, number: int, reading: Reading) -> None:
    """Check that the first line is no header with names of its own."""
    first, *others = reading.rows
    body = [row for row in others if len(row) == reading.n_columns]
    if len(first) != reading.n_columns or not all(cell.strip() and not any(map(str.isdigit, cell)) for cell in first):
        return
    if any(cell.strip().lower().lstrip("+-") in ("nan", "inf", "infinity") for cell in first[N_NEEDED:]):
        return
    if reading.n_columns > N_NEEDED:
        is_doubtful = bool(body) and reading.n_understood > 0
    else:
        recurs = any(first[place] == row[place] for row in body for place in range(N_NEEDED))
        has_names = any(is_alias(cell) or _NAME_OF_COLUMN.fullmatch(cell.strip()) for cell in first)
        is_doubtful = not recurs and (
            has_names or (bool(body) and all(any(map(str.isdigit, cell)) for row in body for cell in row))
        )
    if is_doubtful:
        plainly = ",".join(NAMES[: reading.n_columns])
        raise InvalidRatingsFile(
            f"Invalid line {number} of {path}: expected ratings, or a header with usual names, got"
            f" {', '.join(first)[:_EXCERPT]!r}; if it is a header, say which column is what by"
            f" {option_for(first, columns_named(first))}; if it is none, by --columns {plainly}"
        )


def fields_of(text: str, delimiter: str, is_quoted: bool, is_strict: bool = True) -> list[str]:
    """The fields of a line. If its quotes are wrong: `csv.Error`, or what is between delimiters."""
    if not is_quoted:
        return text.split(delimiter)
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error:
        if is_strict:
            raise
        return text.split(delimiter)
