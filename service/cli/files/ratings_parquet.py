"""Reads Parquet files of ratings. Ids are text or whole numbers; a number with a fraction is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.base.ids import MAX_ID_BYTES
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.ratings_columns import N_NEEDED, NAMES, columns_of, described
from service.cli.files.ratings_text import TextRatings
from service.cli.files.ratings_times import is_in_milliseconds, seconds_of_column, wrong_time

EXACT = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}  # below, each whole number is one of the type


def read_parquet(path: Path, how: How) -> TextRatings:
    """The ratings in the file `path`.

    Raises:
        InvalidRatingsFile: a column is missing, has another type, or has a value that cannot be used.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 (text files need no Parquet)

    if how.is_of_text or (how.choice is not None and not how.choice.has_names):
        wanted = "--columns with names, such as user=NAME,item=NAME, and no --delimiter or --encoding"
        raise InvalidRatingsFile(f"Invalid {path}: expected {wanted}: it is Parquet")
    with pq.ParquetFile(path) as file:
        names = list(file.schema_arrow.names)
        try:
            places = columns_of(names, how.choice)
        except ValueError as error:
            raise InvalidRatingsFile(f"Invalid {path}: {error}") from None
        table = file.read(columns=[names[place] for place in places.values()])
    columns = {}
    for name, place in places.items():
        column, is_id, is_time = table.column(names[place]), name in NAMES[:N_NEEDED], name == "timestamp"
        try:
            if is_id:
                values = ids_of(column)
            else:
                values = seconds_of_column(column, how.per_second) if is_time else column.cast(pa.float64())
        except pa.ArrowNotImplementedError:
            kind = "text or whole numbers" if is_id else "Unix seconds, dates or datetimes" if is_time else "numbers"
            raise InvalidRatingsFile(f"Invalid {name} of {path}: expected {kind}, got {column.type}") from None
        except ValueError as error:
            raise InvalidRatingsFile(f"Invalid {name} of {path}: {error}") from None
        values.validate(full=True)  # finds text that is not UTF-8
        columns[name] = values.dictionary_encode().unify_dictionaries() if is_id else values
    for name, column in columns.items():
        check_values(path, name, column, how)
    return TextRatings(pa.table(columns), [], f"{described(places, names)}; Parquet, {len(table):,} rows")


def ids_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids as text: whole numbers in digits alone, without a point or an exponent.

    Raises:
        ValueError: a number that is not whole, or too large for its type to tell it from the next one.
        pa.ArrowNotImplementedError: values of a type that has no ids.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return ids_of(column.cast(kind.value_type))
    if kind == pa.uuid():
        return pa.chunked_array(
            [pa.array([None if uuid is None else str(uuid) for uuid in column.to_pylist()], pa.string())]
        )
    if pa.types.is_floating(kind):
        check_all(column, pc.equal(column, pc.floor(column)), "expected whole numbers as ids")
        limit = EXACT[kind]
        check_all(column, pc.less(pc.abs(column), limit), f"expected ids below {limit:,}, where {kind} is exact")
        return column.cast(pa.int64()).cast(pa.string())
    if pa.types.is_decimal(kind):
        whole = pa.chunked_array(
            [pa.array([value is None or value % 1 == 0 for value in column.to_pylist()], pa.bool_())]
        )
        check_all(column, whole, "expected whole numbers as ids")
        return column.cast(pa.decimal256(76, 0) if kind.bit_width > 128 else pa.decimal128(38, 0)).cast(pa.string())
    is_text = any(is_kind(kind) for is_kind in _OF_TEXT)
    if not (is_text or pa.types.is_integer(kind)):
        raise pa.ArrowNotImplementedError(str(kind))
    return column.cast(pa.string())


_OF_TEXT = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


def check_all(column: pa.ChunkedArray, is_right: pa.ChunkedArray, expected: str) -> None:
    """ValueError if a value is not right."""
    wrong = np.flatnonzero(~is_right.fill_null(True).to_numpy())
    if len(wrong):
        raise ValueError(f"{expected}, got {column[int(wrong[0])].as_py()} in row {wrong[0] + 1}; write them as text")


def check_values(path: Path, name: str, column: pa.ChunkedArray, how: How) -> None:
    """Check that no id, rating or time is missing or out of its bounds; else raise `InvalidRatingsFile`."""
    if name in NAMES[:N_NEEDED]:
        wanted = f"1 to {MAX_ID_BYTES} bytes"
        n_bytes = pc.binary_length(column.cast(pa.string()))
        usable = pc.and_(pc.greater(n_bytes, 0), pc.less_equal(n_bytes, MAX_ID_BYTES))
    else:
        is_time = name == "timestamp"
        wanted = "Unix seconds, a date or a datetime" if is_time else f"a finite number up to {how.largest:.2g}"
        usable = pc.less_equal(pc.abs(column), how.limits[name])
    unusable = np.flatnonzero(~usable.fill_null(name == "timestamp").to_numpy())  # a time may be missing
    if len(unusable):
        value = column[int(unusable[0])].as_py()
        shown = "nothing" if value is None else repr(str(value)[:80])
        reason = f"expected {wanted}, got {shown}"
        if name == "timestamp" and value is not None and is_in_milliseconds(value):
            reason = wrong_time(value)
        raise InvalidRatingsFile(f"Invalid {name} in row {unusable[0] + 1} of {path}: {reason}")
