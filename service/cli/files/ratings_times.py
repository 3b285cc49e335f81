"""Reads times in files: Unix seconds, dates and datetimes of ISO 8601, and the times of Parquet."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.base.limits import LATEST_S
from service.base.times import unix_seconds

_EXCERPT = 80
NUMBER = re.compile(r"[ \t]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t]*", re.ASCII)  # what Arrow reads as a number
_UTC = re.compile(r"(?<=\d) UTC$")  # as BigQuery writes it


def is_in_milliseconds(timestamp: float) -> bool:
    """Whether a timestamp is too large for Unix seconds."""
    return abs(timestamp) > LATEST_S


def wrong_time(timestamp: object) -> str:
    """The reason for refusing a timestamp that is too large for Unix seconds."""
    return f"expected Unix seconds, got {timestamp}; divide milliseconds by 1,000, or name the unit by --time-unit ms"


def range_of(timestamps: NDArray[np.float64] | None) -> str:
    """The first and the last day (UTC) in words, which shows times that were written in another way; "" without any."""
    if timestamps is None or not len(timestamps):
        return ""
    is_given = np.isfinite(timestamps)
    n_missing = int(np.count_nonzero(~is_given))
    missing = f", {n_missing:,} without a time" if n_missing else ""
    if n_missing == len(timestamps):
        return "; no times"
    ends = timestamps[is_given].min(), timestamps[is_given].max()
    first, last = (np.datetime64(int(seconds), "s").astype("M8[D]") for seconds in ends)
    return f"; times from {first} to {last}{missing}"


def seconds_of(text: str, per_second: float = 1.0) -> float:
    """The Unix seconds of a text: a number, or a date or a datetime; ValueError with the reason if it is neither.

    `per_second` is how many units of the number are a second.
    """
    if not NUMBER.fullmatch(text):
        return unix_seconds(_UTC.sub("Z", text))
    number = float(text) / per_second
    if is_in_milliseconds(number):
        raise ValueError(wrong_time(text[:_EXCERPT]))
    return number


def seconds_of_column(column: pa.ChunkedArray, per_second: float = 1.0) -> pa.ChunkedArray:
    """Unix seconds as float64, from dates, datetimes (UTC without a time zone), texts as above, or numbers.

    An empty text is no time.

    Raises:
        ValueError: a text is neither; `pa.ArrowNotImplementedError`: values of another type.
    """
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        microseconds = column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)), safe=False)
        numbers = microseconds.cast(pa.int64()).to_numpy(zero_copy_only=False) / 1e6
        return pa.chunked_array([pa.array(numbers, pa.float64(), from_pandas=True)])
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        texts = column.to_pylist()
        return pa.chunked_array(
            [pa.array([seconds_of(text, per_second) if text else None for text in texts], pa.float64())]
        )
    return pc.divide(column.cast(pa.float64()), per_second)
