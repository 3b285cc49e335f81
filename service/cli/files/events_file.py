"""Files of events: CSV and TSV, JSON, Parquet; or folders of part files.

Columns are found by name: user, item, type, and perhaps value, timestamp and event_id, as this service, Gorse,
RetailRocket, Amazon Personalize and Google Analytics name them. An event may be one of several items: a list of objects
with an `item_id` each.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from service.base.ids import check_id
from service.base.limits import MAX_RATING
from service.cli.files.doubtful_ids import NO_QUOTE, checked_id
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.item_values import EXCERPT, number_of, time_of
from service.cli.files.items_file import check_text, lines_of
from service.cli.files.quotes import are_quotes, without_newlines
from service.cli.files.ratings_columns import EVENT_NAMES as NAMES
from service.cli.files.ratings_columns import N_NEEDED_OF_EVENTS as N_NEEDED
from service.cli.files.ratings_columns import Choice, chosen_among, columns_named, plain, types_among
from service.cli.files.ratings_file import BYTE_ORDER_MARK, GZIP_SUFFIX, JSON_SUFFIXES, PARQUET_SUFFIXES, parts_of
from service.cli.files.ratings_json import object_in, objects_in
from service.cli.files.ratings_text import BadLine, check_bad
from service.cli.files.ratings_times import range_of
from service.cli.files.text_format import SPACE

# Names of columns in lower-case letters and digits; an earlier one takes precedence, and all before those of ratings.
_ALIASES = {
    "user": ("userpseudoid",),  # of Google Analytics, where few rows have a user_id
    "value": ("value", "eventvalue", "quantity", "count"),
    "timestamp": ("eventtimestamp", "creationtimestamp"),
    "event_id": ("eventid",),
}
_OF_SEVERAL = "items"  # a column of lists of items
_OF_GORSE = "feedbacktype"  # a value of 0 beside it is none
_DELIMITERS = (",", "\t", ";", "|", "::")
_N_TYPES_SHOWN = 20


class Event(NamedTuple):
    """One event, as POST /events takes it; None: the file does not tell it."""

    user: str
    item: str
    type: str
    value: float | None
    timestamp: float | None
    event_id: str | None

    @property
    def element(self) -> dict[str, Any]:
        """The same as an element of the body."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class EventsFile(NamedTuple):
    """The events of a file, the oldest first; without times, and among equal ones, in its order.

    Attributes:
        events: those without a time come last.
        bad: lines that were left out because of `skip_bad`.
        columns: what was understood, in words.
    """

    events: list[Event]
    bad: list[BadLine]
    columns: str


class Row(NamedTuple):
    """A line, an element or a row of a file: its values by the names of columns, or why there are none."""

    number: int
    values: Mapping[str, Any] | str


def read(path: Path, how: How = How()) -> EventsFile:  # noqa: B008 (it never changes)
    """Read a file of events, or a folder of part files. Its suffix and its first line determine the format.

    Raises:
        InvalidRatingsFile: the file cannot be used, or has a bad line; the message has its number, from 1.
        FileNotFoundError: there is no such file.
    """
    events, bad, n_rows, n_without_item = list[Event](), list[BadLine](), 0, 0
    words, texts = "", dict[str, str]()
    for part in parts_of(path):
        noun, rows = rows_of(part, how)
        of_part, bad_of_part, n_of_part = list[Event](), list[BadLine](), 0
        meanings: dict[tuple[str, ...], dict[str, str]] = {}
        for number, values in rows:
            n_of_part += 1
            try:
                if isinstance(values, str):
                    raise ValueError(values)
                header = tuple(values)
                if header not in meanings:
                    meanings[header] = columns_of(header, how.choice)
                    words = words or described(meanings[header], header)
                made = events_of(values, meanings[header], how)
            except ValueError as error:
                if not (meanings or isinstance(values, str)):
                    raise InvalidRatingsFile(f"Invalid {noun} {number} of {part}: {error}") from None
                bad_of_part.append(BadLine(number, str(error)))
                continue
            n_without_item += not made
            of_part += [event._replace(user=texts.setdefault(event.user, event.user)) for event in made]
        check_bad(part, bad_of_part, n_of_part, how.skip_bad, noun=noun)
        events, bad, n_rows = events + of_part, bad + bad_of_part, n_rows + n_of_part
    events.sort(key=lambda event: float("inf") if event.timestamp is None else event.timestamp)
    words += f"; {n_rows:,} rows" + (f", {n_without_item:,} without an item left out" if n_without_item else "")
    if events:
        types = Counter(event.type for event in events).most_common(_N_TYPES_SHOWN)
        times = [float("nan") if event.timestamp is None else event.timestamp for event in events]
        import numpy as np  # noqa: PLC0415 (a file without events needs it not)

        words += "; types: " + ", ".join(f"{name} {n:,}" for name, n in types) + range_of(np.array(times))
        first = events[0]
        words += f"; the first: user {first.user}, item {first.item}, type {first.type}"
    return EventsFile(events, bad, words)


def rows_of(path: Path, how: How) -> tuple[str, Iterator[Row]]:
    """What a row is called, and the rows of a regular file.

    Raises:
        InvalidRatingsFile: the file cannot be read, or no separator gives it columns of user, item and type.
    """
    suffix = (path.with_suffix("") if path.suffix.lower() == GZIP_SUFFIX else path).suffix.lower()
    try:
        if suffix in PARQUET_SUFFIXES:
            import pyarrow.parquet as pq  # noqa: PLC0415 (text files need no Parquet)

            with pq.ParquetFile(path) as file:
                table = file.read()
            batches = table.to_batches(max_chunksize=1 << 16)
            values = (row for batch in batches for row in batch.to_pylist())
            return "row", (Row(number, row) for number, row in enumerate(values, 1))
        data = path.read_bytes()
        data = gzip.decompress(data) if suffix != path.suffix.lower() else data
        data = data if how.encoding is None else data.decode(how.encoding).encode()
    except Exception as error:  # the libraries raise many kinds of errors for damaged files
        raise InvalidRatingsFile(f"Invalid {path}: expected events that can be read, got: {error}") from error
    data = data.removeprefix(BYTE_ORDER_MARK)
    if suffix in JSON_SUFFIXES:
        noun, objects = objects_in(path, data)
        return noun, (Row(number, object_or_reason(text)) for number, text in objects)
    return "line", rows_of_text(path, data, how)


def object_or_reason(text: bytes) -> dict[str, Any] | str:
    """The JSON object in `text`, or why there is none."""
    try:
        return object_in(text)
    except ValueError as error:
        return str(error)


def rows_of_text(path: Path, data: bytes, how: How) -> Iterator[Row]:
    """The rows of text with a header, or with columns that the caller named in their order."""
    lines = lines_of(data)
    n_before = next((n for n, line in enumerate(lines) if line.strip()), 0)
    is_by_place = how.choice is not None and not how.choice.has_names
    delimiter, reason = None, ""
    for candidate in (how.delimiter,) if how.delimiter is not None else _DELIMITERS:
        header = fields_of(lines[n_before], candidate, is_quoted=True)
        try:
            columns_of(header, how.choice)
        except ValueError as error:
            reason = reason or str(error)
        else:
            delimiter = candidate
            break
    if delimiter is None:
        raise InvalidRatingsFile(f"Invalid header of {path}: {reason}")
    is_quoted = delimiter != "::" and (delimiter == "," or are_quotes(data, delimiter))
    if is_quoted and b'"' in data:
        lines = lines_of(without_newlines(data, delimiter, len(header), b" "))
    names = [str(place) for place in range(len(header))] if is_by_place else header
    start = n_before + (not is_by_place)
    for number, line in enumerate(lines[start:], start + 1):
        if not line.strip():
            continue
        try:
            check_text(line)
            fields = fields_of(line, delimiter, is_quoted)
        except (ValueError, csv.Error) as error:
            yield Row(number, NO_QUOTE if str(error) == "unexpected end of data" else str(error))
            continue
        if len(fields) == len(names):
            yield Row(number, dict(zip(names, fields, strict=True)))
        else:
            yield Row(number, f"expected {len(names)} columns, got {len(fields)}: {line[:EXCERPT]!r}")


def fields_of(line: str, delimiter: str, is_quoted: bool) -> list[str]:
    """The fields of a line; `csv.Error` if its quotes are wrong."""
    if delimiter == SPACE:
        return line.split()
    if not is_quoted or len(delimiter) > 1:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter, strict=True), [])


def columns_of(header: Sequence[str], choice: Choice | None) -> dict[str, str]:
    """Meaning → name of its column, or its place from 0 if the caller named all columns in their order.

    Raises:
        ValueError: user, item or type is missing, or several columns may be one of them.
    """
    if choice is not None and not choice.has_names:
        return {name: str(place) for name, place in chosen_among(header, choice).items()}
    chosen = {} if choice is None else chosen_among(header, choice)
    positions: dict[str, list[int]] = {name: [place] for name, place in chosen.items()}
    if choice is None or choice.is_partial:
        free = ["" if place in chosen.values() else name for place, name in enumerate(header)]
        plain_names = [plain(name) for name in free]
        named = columns_named(free) | {"type": types_among(free)}
        for name in NAMES:
            usual = [places for alias in _ALIASES.get(name, ()) if (places := places_of(alias, plain_names))]
            places = usual[0] if usual else named.get(name, [])
            if name not in positions and places:
                positions[name] = places
        if "item" not in positions and _OF_SEVERAL in plain_names:
            positions["item"] = places_of(_OF_SEVERAL, plain_names)
    shown = ", ".join(name.strip()[:40] for name in header[:20])
    for name in NAMES[:N_NEEDED]:
        if name not in positions:
            raise ValueError(
                f"expected columns user, item and type, found no {name} among {shown}; name it by --{name}"
            )
    for name, places in positions.items():
        if len(places) > 1:
            several = " and ".join(header[place].strip() for place in places)
            option = "time" if name == "timestamp" else name
            raise ValueError(f"expected one column {name}, got several: {several}; choose one by --{option}")
    return {name: header[positions[name][0]] for name in NAMES if name in positions}


def places_of(name: str, names: Sequence[str]) -> list[int]:
    """The positions of `name` in `names`."""
    return [place for place, other in enumerate(names) if other == name]


def described(columns: Mapping[str, str], header: Sequence[str]) -> str:
    """The meaning of the columns in one line."""
    text = "columns: " + ", ".join(f"{name} = {column.strip()}" for name, column in columns.items())
    unused = [name.strip() for name in header if name not in columns.values() and name.strip()]
    text += f"; not used: {', '.join(unused[:10])}" if unused else ""
    return text + ("" if "value" in columns else "; no values: every event counts 1")


def events_of(values: Mapping[str, Any], columns: Mapping[str, str], how: How) -> list[Event]:
    """The events in a row, one for each of its items; ValueError with the reason if a value is bad."""
    row = {name: values[column] for name, column in columns.items()}
    items = row["item"]
    if isinstance(items, list):
        items = [item.get("item_id", item.get("item")) if isinstance(item, Mapping) else item for item in items]
        items = [item for item in items if item not in (None, "")]
        if not items:
            return []
    else:
        items = [items]
    user, type_ = id_of("user", row["user"]), id_of("type", row["type"]).lower()
    value, time, event_id = (row.get(name) for name in NAMES[N_NEEDED:])
    number = None if value is None or value == "" else number_of(value)
    if number is not None and abs(number) > MAX_RATING:
        raise ValueError(f"expected at most {MAX_RATING:.2g} as value, got {value}")
    if number == 0 and plain(columns["type"]) == _OF_GORSE:
        number = None
    seconds = None if time is None or time == "" else time_of(time, how.per_second)
    key = None if event_id is None or event_id == "" else id_of("event_id", event_id)
    keys = [key] if key is None or len(items) == 1 else [f"{key}-{n}" for n in range(len(items))]
    keys = keys * len(items) if len(keys) == 1 else keys
    ids = [id_of("item", item) for item in items]
    return [Event(user, item, type_, number, seconds, key) for item, key in zip(ids, keys, strict=True)]


def id_of(name: str, value: Any) -> str:
    """Text, or a whole number, as an id; ValueError if it is none."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"expected text or a whole number as {name}, got {'nothing' if value is None else value!r}")
    if isinstance(value, int):
        return str(value)
    text = value.strip()
    try:
        return checked_id(text) if name in NAMES[:2] else check_id(text)
    except ValueError as error:
        raise ValueError(f"{error} as {name}" if not text else str(error)) from None
