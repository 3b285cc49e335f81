"""Files of ratings: CSV and TSV, MovieLens (`::` or tab), JSONL, Parquet, and matrices in .npz or .mat.

Text files have a header that names the columns (`service.cli.files.ratings_columns`), or the columns
user,item[,rating[,timestamp]] in this order. Without ratings every pair counts 1. Timestamps are Unix seconds, or dates
and datetimes of ISO 8601. Text and JSONL are UTF-8, with or without a byte order mark, and may be compressed by gzip.
Fields of JSONL and columns of Parquet are found by name.
"""

from __future__ import annotations

import gzip
import stat
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.cli.files.ratings_columns import NAMES, columns_of, described
from service.cli.files.ratings_json import read_json
from service.cli.files.ratings_matrix import read_matrix
from service.cli.files.ratings_text import LARGEST, BadLine, TextRatings, read_text
from service.cli.files.ratings_times import is_in_milliseconds, range_of, seconds_of_column, wrong_time
from service.errors import InvalidRatingsFile
from service.ids import MAX_ID_BYTES

MATRIX_SUFFIXES = (".npz", ".mat")
PARQUET_SUFFIXES = (".parquet", ".pq")
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
GZIP_SUFFIX = ".gz"
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# First bytes of unsupported formats, and what to do about them.
_OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive (unpack it, or save a spreadsheet as CSV)",
    b"PAR1": "Parquet (name it .parquet)",
    b"BZh": "bzip2 (unpack it)",
    b"\xfd7zXZ": "xz (unpack it)",
    b"\x28\xb5\x2f\xfd": "zstandard (unpack it)",
    b"7z\xbc\xaf": "a 7z archive (unpack it)",
    b"\xff\xfe": "UTF-16 (save it as UTF-8)",
    b"\xfe\xff": "UTF-16 (save it as UTF-8)",
}
_IRREGULAR = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}
_ID = f"1 to {MAX_ID_BYTES} bytes"
_EXPECTED = {
    "user": _ID,
    "item": _ID,
    "rating": f"a finite number up to {LARGEST['rating']:.2g}",
    "timestamp": "Unix seconds, a date or a datetime",
}


class RatingsFile(NamedTuple):
    """The ratings of a file, in its order; all columns have N entries.

    Attributes:
        users, items: ids as strings.
        values: float32; ones if the file has none.
        timestamps: float64 Unix seconds; None if the file has none.
        bad: lines that were left out because of `skip_bad`.
        columns: the meaning of the columns, in words.
    """

    users: list[str]
    items: list[str]
    values: NDArray[np.float32]
    timestamps: NDArray[np.float64] | None
    bad: list[BadLine]
    columns: str = ""


def read(path: Path, key: str | None = None, skip_bad: bool = False) -> RatingsFile:
    """Read a file of ratings. Its suffix and its first line determine the format.

    Args:
        path: the file.
        key: variable of an .npz or .mat file. Default: `fea`, else its largest two-dimensional numeric one.
        skip_bad: leave out bad lines of a text file instead of refusing the file.

    Raises:
        InvalidRatingsFile: the file cannot be used, or has a bad line; the message has its number, from 1.
        FileNotFoundError: there is no such file.
    """
    check_regular(path)
    try:
        return _read(path, key, skip_bad)
    except InvalidRatingsFile:
        raise
    except Exception as error:  # the libraries raise many kinds of errors for damaged files
        reason = str(error) or type(error).__name__
        raise InvalidRatingsFile(f"Invalid {path}: expected {_kind(path)} that can be read, got: {reason}") from error


def check_regular(path: Path) -> None:
    """Check that `path` is a regular file that can be opened: reading a pipe or a device may never end.

    Raises:
        InvalidRatingsFile: it is something else.
        OSError: there is no such file, or it may not be read.
    """
    kind = stat.S_IFMT(path.stat().st_mode)
    if kind != stat.S_IFREG:
        raise InvalidRatingsFile(f"Invalid {path}: expected a file, got {_IRREGULAR.get(kind, 'something else')}")
    with path.open("rb"):
        pass  # raises errors of the file system here, so that they do not count as bad content


def _read(path: Path, key: str | None, skip_bad: bool) -> RatingsFile:
    suffix = path.suffix.lower()
    if suffix in MATRIX_SUFFIXES:
        users, items, values = read_matrix(path, key)
        return RatingsFile(users, items, values, None, [], "rows are users, columns are items")
    found = _read_parquet(path) if suffix in PARQUET_SUFFIXES else _read_text(path, skip_bad)
    table = found.table
    ratings, times = (table[name].to_numpy() if name in table.column_names else None for name in NAMES[2:])
    return RatingsFile(
        _strings(table.column("user")),
        _strings(table.column("item")),
        np.ones(len(table), np.float32) if ratings is None else ratings.astype(np.float32),
        times,
        found.bad,
        found.columns + range_of(times),
    )


def _read_text(path: Path, skip_bad: bool) -> TextRatings:
    data, suffix = path.read_bytes(), _inner_suffix(path)
    if suffix in (*MATRIX_SUFFIXES, *PARQUET_SUFFIXES):
        raise InvalidRatingsFile(f"Invalid {path}: expected text or JSONL in {GZIP_SUFFIX}, got {suffix}; unpack it")
    if data.startswith(_GZIP):
        data = gzip.decompress(data)
    elif path.suffix.lower() == GZIP_SUFFIX:
        raise InvalidRatingsFile(f"Invalid {path}: expected a file compressed by gzip, got {data[:8]!r}")
    for beginning, kind in _OTHER_KINDS.items():
        if data.startswith(beginning):
            raise InvalidRatingsFile(f"Invalid {path}: expected text, JSONL, Parquet, .npz or .mat, got {kind}")
    return (read_json if suffix in JSON_SUFFIXES else read_text)(path, data.removeprefix(_BYTE_ORDER_MARK), skip_bad)


def _inner_suffix(path: Path) -> str:
    """The suffix before .gz, or the suffix itself."""
    inner = path.with_suffix("") if path.suffix.lower() == GZIP_SUFFIX else path
    return inner.suffix.lower()


def _kind(path: Path) -> str:
    """The kind of file that its suffix announces."""
    suffix = path.suffix.lower()
    if suffix in MATRIX_SUFFIXES:
        return "a matrix"
    return "a Parquet file" if suffix in PARQUET_SUFFIXES else "text"


def _strings(column: pa.ChunkedArray) -> list[str]:
    """Ids of a dictionary-encoded column; equal ids share one string."""
    if not len(column):
        return []
    whole = column.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    names = whole.dictionary.to_pylist()
    return [names[code] for code in whole.indices.to_numpy().tolist()]


def _read_parquet(path: Path) -> TextRatings:
    import pyarrow.parquet as pq  # noqa: PLC0415 (text files need no Parquet)

    with pq.ParquetFile(path) as file:
        names = list(file.schema_arrow.names)
        try:
            places = columns_of(names)
        except ValueError as error:
            raise InvalidRatingsFile(f"Invalid {path}: {error}") from None
        table = file.read(columns=[names[position] for position in places.values()])
    columns = [_converted(path, table.column(names[position]), name) for name, position in places.items()]
    table = pa.table(columns, names=list(places))
    _check_columns(path, table)
    return TextRatings(table, [], described(places, names))


def _converted(path: Path, column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    is_id, is_time = name in ("user", "item"), name == "timestamp"
    try:
        converted = seconds_of_column(column) if is_time else column.cast(pa.string() if is_id else pa.float64())
    except pa.ArrowNotImplementedError:
        kind = "text or integers" if is_id else "Unix seconds, dates or datetimes" if is_time else "numbers"
        raise InvalidRatingsFile(f"Invalid {name} of {path}: expected {kind}, got {column.type}") from None
    except ValueError as error:
        raise InvalidRatingsFile(f"Invalid {name} of {path}: {error}") from None
    converted.validate(full=True)  # finds text that is not UTF-8
    return converted.dictionary_encode() if is_id else converted


def _check_columns(path: Path, table: pa.Table) -> None:
    for name in table.column_names:
        column = table.column(name)
        if name in ("user", "item"):
            n_bytes = pc.binary_length(column.cast(pa.string()))
            usable = pc.and_(pc.greater(n_bytes, 0), pc.less_equal(n_bytes, MAX_ID_BYTES))
        else:
            usable = pc.less_equal(pc.abs(column), LARGEST[name])
        unusable = np.flatnonzero(~usable.fill_null(False).to_numpy())
        if len(unusable):
            value = column[int(unusable[0])].as_py()
            is_time = name == "timestamp" and value is not None and is_in_milliseconds(value)
            reason = wrong_time(value) if is_time else f"expected {_EXPECTED[name]}, got {_shown(value)}"
            raise InvalidRatingsFile(f"Invalid {name} in row {unusable[0] + 1} of {path}: {reason}")


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(str(value)[:80])
