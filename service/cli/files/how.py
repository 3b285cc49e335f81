"""How the caller wants a file of ratings to be read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from service.base.limits import LATEST_S
from service.cli.files.ratings_columns import Choice
from service.cli.files.text_format import delimiter_of

LARGEST_RATING = float(np.finfo(np.float32).max)


class How(NamedTuple):
    """The choices of the caller; the defaults leave them to the reader.

    Attributes:
        key: variable of an .npz or .mat file.
        skip_bad: leave out bad lines of a text file instead of refusing the file.
        delimiter: the separator of a text file.
        choice: which column is what.
        largest: the largest absolute rating that is taken.
    """

    key: str | None = None
    skip_bad: bool = False
    delimiter: str | None = None
    choice: Choice | None = None
    largest: float = LARGEST_RATING

    @classmethod
    def of(cls, key: str | None, skip_bad: bool, delimiter: str | None, columns: str | None, largest: float) -> How:
        """The same with `delimiter` and `columns` as options name them; InvalidSetting if they are wrong."""
        separator = None if delimiter is None else delimiter_of(delimiter)
        return cls(key, skip_bad, separator, None if columns is None else Choice.of(columns), largest)

    @property
    def limits(self) -> dict[str, float]:
        """The largest absolute value of rating and timestamp."""
        return {"rating": self.largest, "timestamp": LATEST_S}
