"""How the caller wants a file of ratings, events or items to be read."""

from __future__ import annotations

import codecs
from typing import NamedTuple

import numpy as np

from service.base.limits import LATEST_S
from service.cli.files.ratings_columns import EVENT_NAMES, N_NEEDED_OF_EVENTS, Choice
from service.cli.files.text_format import delimiter_of
from service.settings.errors import InvalidSetting

LARGEST_RATING = float(np.finfo(np.float32).max)
TIME_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # of times that are numbers; how many are a second


class How(NamedTuple):
    """The choices of the caller; the defaults leave them to the reader.

    Attributes:
        key: variable of an .npz or .mat file.
        skip_bad: leave out bad lines of a text file instead of refusing the file.
        delimiter: the separator of a text file.
        choice: which column is what.
        encoding: of text, one of Python's; None: UTF-8.
        per_second: units of times in a second, where they are numbers.
        largest: the largest absolute rating that is taken.
    """

    key: str | None = None
    skip_bad: bool = False
    delimiter: str | None = None
    choice: Choice | None = None
    encoding: str | None = None
    per_second: float = 1.0
    largest: float = LARGEST_RATING

    @classmethod
    def of(
        cls,
        key: str | None = None,
        skip_bad: bool = False,
        delimiter: str | None = None,
        columns: str | None = None,
        encoding: str | None = None,
        time_unit: str = "s",
        largest: float = LARGEST_RATING,
        *,
        of_events: bool = False,
        **named: str | None,
    ) -> How:
        """The same as options name it.

        Args:
            of_events: whether the file has events. Their values are what ratings are in a file of ratings.
            named: columns by their meaning: user, item, rating, time, type.

        Raises:
            InvalidSetting: an option cannot be understood; or columns are chosen in two ways.
        """
        meanings = {"rating": "value" if of_events else "rating", "time": "timestamp"}
        choice = None
        if columns is not None:
            choice = Choice.of(columns, EVENT_NAMES, N_NEEDED_OF_EVENTS) if of_events else Choice.of(columns)
        names = {meanings.get(name, name): column.strip() for name, column in named.items() if column is not None}
        if "type" in names and not of_events:
            raise InvalidSetting(f"Invalid type: expected a column of types with --events, got {names['type']!r}")
        if names:
            if choice is not None:
                raise InvalidSetting("Invalid columns: expected --columns or the names of single columns, got both")
            choice = Choice(dict(names), is_partial=True)
        if encoding is not None:
            try:
                "".encode(encoding)
            except LookupError:  # also of codecs that are none of text
                raise InvalidSetting(
                    f"Invalid encoding: expected one such as latin-1, cp1252 or utf-16, got {encoding!r}"
                ) from None
            encoding = codecs.lookup(encoding).name
        if time_unit not in TIME_UNITS:
            raise InvalidSetting(f"Invalid time unit: expected {', '.join(TIME_UNITS)}, got {time_unit!r}")
        separator = None if delimiter is None else delimiter_of(delimiter)
        return cls(key, skip_bad, separator, choice, encoding, TIME_UNITS[time_unit], largest)

    @property
    def limits(self) -> dict[str, float]:
        """The largest absolute value of rating and timestamp."""
        return {"rating": self.largest, "timestamp": LATEST_S}

    @property
    def is_of_text(self) -> bool:
        """Whether the caller chose what only text has."""
        return self.delimiter is not None or self.encoding is not None
