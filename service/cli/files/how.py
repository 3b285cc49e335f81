"""How the caller wants a file of ratings, events or items to be read."""

from __future__ import annotations

import codecs
from typing import NamedTuple

import numpy as np

from service.base.limits import LATEST_S
from service.cli.files.ratings_columns import Choice
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
        **named: str | None,
    ) -> How:
        """The same as options name it; `named` has columns by their meaning.

        Raises:
            InvalidSetting: an option cannot be understood; or columns are chosen in two ways.
        """
        choice = None if columns is None else Choice.of(columns)
        names = {name: column.strip() for name, column in named.items() if column is not None}
        if names:
            if choice is not None:
                raise InvalidSetting(f"Invalid columns: expected --columns or --{next(iter(names))}, got both")
            places: dict[str, str | int] = {
                "timestamp" if name == "time" else name: column for name, column in names.items()
            }
            choice = Choice(places, is_partial=True)
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
