"""Files of ratings: CSV and TSV, MovieLens (`::` or tab), JSON, Parquet, and matrices in .npz, .mat or .mtx.

Text files have a header that names the columns (`service.cli.files.ratings_columns`), or the columns
user,item[,rating[,timestamp]] in this order. Without ratings every pair counts 1. Timestamps are Unix seconds, or dates
and datetimes of ISO 8601. Text and JSON are UTF-8, with or without a byte order mark, and may be compressed by gzip.
Fields of JSON and columns of Parquet are found by name. A folder of part files, as Spark writes it, is one file.

A reader tells in words what it understood, and refuses what it could understand in several ways.
"""

from __future__ import annotations

import gzip
import hashlib
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.cli.files.doubtful_ids import stand_for_nothing
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.ratings_columns import NAMES
from service.cli.files.ratings_json import read_json
from service.cli.files.ratings_matrix import is_matrix_market, read_matrix
from service.cli.files.ratings_parquet import read_parquet
from service.cli.files.ratings_text import BadLine, TextRatings, read_text
from service.cli.files.ratings_times import range_of

_BITS = 63  # of an int64 that is not negative
NO_IDS = pa.array([], pa.string()), np.zeros(0, np.int32)

MATRIX_SUFFIXES = (".npz", ".mat")
PARQUET_SUFFIXES = (".parquet", ".pq")
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
GZIP_SUFFIX = ".gz"
_GZIP = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# First bytes of unsupported formats, and what to do about them.
_OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive (unpack it, or save a spreadsheet as CSV)",
    b"PAR1": "Parquet (name it .parquet)",
    b"BZh": "bzip2 (unpack it)",
    b"\xfd7zXZ": "xz (unpack it)",
    b"\x28\xb5\x2f\xfd": "zstandard (unpack it)",
    b"7z\xbc\xaf": "a 7z archive (unpack it)",
    b"\xff\xfe": "UTF-16 (say --encoding utf-16)",
    b"\xfe\xff": "UTF-16 (say --encoding utf-16)",
    b"%%MatrixMarket": "a Matrix Market file (name it .mtx)",
}
_IRREGULAR = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
}


class RatingsFile(NamedTuple):
    """The ratings of a file, each pair of a user and an item once, in the order of the file; all have N entries.

    Attributes:
        users, items: ids as strings.
        values: float32; ones if the file has none.
        timestamps: float64 Unix seconds, NaN for a rating without; None if the file has none.
        bad: lines that were left out because of `skip_bad`.
        columns: what was understood, in words: the meaning of the columns, the format, ranges, and the first rating.
    """

    users: list[str]
    items: list[str]
    values: NDArray[np.float32]
    timestamps: NDArray[np.float64] | None
    bad: list[BadLine]
    columns: str = ""

    def at(self, places: NDArray[np.int64]) -> RatingsFile:
        """Some of the ratings."""
        users, items = ([ids[place] for place in places.tolist()] for ids in (self.users, self.items))
        timestamps = None if self.timestamps is None else self.timestamps[places]
        return RatingsFile(users, items, self.values[places], timestamps, [], self.columns)


def read(path: Path, how: How = How()) -> RatingsFile:  # noqa: B008 (it never changes)
    """Read a file of ratings, or a folder of part files. Its suffix and its lines determine the format.

    Of several ratings of a pair the one with the newest time is kept, and of the same time, or without times, the last.

    Raises:
        InvalidRatingsFile: the file cannot be used, or has a bad line; the message has its number, from 1.
        FileNotFoundError: there is no such file.
    """
    paths = parts_of(path)
    suffix = paths[0].suffix.lower()
    is_matrix, is_parquet = suffix in MATRIX_SUFFIXES or is_matrix_market(paths[0]), suffix in PARQUET_SUFFIXES
    values: NDArray[np.float32]
    times: NDArray[np.float64] | None
    try:
        # Of users and of items: the different ids, and the place of each rating's id among them.
        sides: list[tuple[pa.StringArray, NDArray[np.int32]]] = []
        if is_matrix:
            entries = read_matrix(path, how)
            for ids in (entries.users, entries.items):
                encoded = pa.array(ids, pa.string()).dictionary_encode()
                sides.append((encoded.dictionary, encoded.indices.to_numpy()))
            values, times, words, bad = entries.values, entries.timestamps, entries.words, list[BadLine]()
        else:
            read_part = read_parquet if is_parquet else read_text_or_json
            table, bad, words = joined([read_part(part, how) for part in paths], paths)
            for name in NAMES[:2]:
                chunks = table.column(name).chunks  # which share one dictionary
                codes = [chunk.indices.to_numpy() for chunk in chunks]
                sides.append((chunks[0].dictionary, np.concatenate(codes)) if chunks else NO_IDS)
            ratings, times = (table[name].to_numpy() if name in table.column_names else None for name in NAMES[2:])
            values = np.ones(len(table), np.float32) if ratings is None else ratings.astype(np.float32)
    except InvalidRatingsFile:
        raise
    except Exception as error:  # the libraries raise many kinds of errors for damaged files
        kind = "a matrix" if is_matrix else "a Parquet file" if is_parquet else "text"
        reason = str(error) or type(error).__name__
        raise InvalidRatingsFile(f"Invalid {path}: expected {kind} that can be read, got: {reason}") from error
    words += f"; ratings from {values.min():g} to {values.max():g}" if len(values) else ""
    words += range_of(times)
    for ids, places in sides:  # of JSONL and Parquet, which have a null of their own, ids may be words for it
        is_doubtful = stand_for_nothing(ids)
        if pc.any(is_doubtful).as_py():
            n = int(np.count_nonzero(is_doubtful.to_numpy(zero_copy_only=False)[places]))
            words += f"; {n:,} ids are words for a missing value, such as {ids.filter(is_doubtful)[0]}"
    if len(values):
        user, item = (ids[int(codes[0])] for ids, codes in sides)
        words += f"; the first: user {user}, item {item}, rating {values[0]:g}"
    (users, user_codes), (items, item_codes) = sides
    order = None if times is None else np.where(np.isnan(times), -np.inf, times)  # a known time is newer than none
    kept = newest_of_each_pair(user_codes, item_codes, len(items), order)
    if kept is not None:
        which = "last" if times is None else "newest"
        n = len(values) - len(kept)
        words += f"; {n:,} ratings left out: of each pair of a user and an item the {which} one counts"
        user_codes, item_codes, values = user_codes[kept], item_codes[kept], values[kept]
        times = None if times is None else times[kept]
    user_ids, item_ids = users.to_pylist(), items.to_pylist()  # equal ids share one string
    return RatingsFile(
        [user_ids[code] for code in user_codes.tolist()],
        [item_ids[code] for code in item_codes.tolist()],
        values,
        times,
        bad,
        words,
    )


def digest_of(path: Path, how: How) -> str:
    """A text that stands for the content of a file and how it is read: the same for the same import."""
    digest = hashlib.sha256(repr(how).encode())
    for part in parts_of(path):
        digest.update(part.read_bytes())
    return digest.hexdigest()[:32]


def parts_of(path: Path) -> list[Path]:
    """The file itself, or the part files of a folder that Spark or Hadoop wrote, in their order.

    Raises:
        InvalidRatingsFile: the folder has none, or files of several formats or further folders; or see `check_regular`.
        OSError: see `check_regular`.
    """
    if not path.is_dir():
        check_regular(path)
        return [path]
    parts = sorted(part for part in path.iterdir() if not part.name.startswith(("_", ".")))
    suffixes = {part.suffix.lower() for part in parts}
    if len(suffixes) != 1 or suffixes & {*MATRIX_SUFFIXES} or any(part.is_dir() for part in parts):
        shown = ", ".join(part.name for part in parts[:10]) or "nothing"
        raise InvalidRatingsFile(
            f"Invalid {path}: expected a file, got a folder with {shown}, and not one of files of one format, such as"
            " part-00000.csv and part-00001.csv"
        )
    for part in parts:
        check_regular(part)
    return [part for part in parts if part.stat().st_size] or parts[:1]


def joined(parts: Sequence[TextRatings], paths: Sequence[Path]) -> TextRatings:
    """The ratings of all part files as those of one.

    Raises:
        InvalidRatingsFile: they have different columns.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    names = first.table.column_names
    for part, path in zip(parts, paths, strict=True):
        if sorted(part.table.column_names) != sorted(names):
            wanted, given = ", ".join(names), ", ".join(part.table.column_names)
            raise InvalidRatingsFile(f"Invalid {path}: expected {wanted} as in {paths[0].name}, got {given}")
    table = pa.concat_tables(part.table.select(names) for part in parts).unify_dictionaries()
    bad = [
        BadLine(line.number, f"{path.name}: {line.reason}")
        for part, path in zip(parts, paths, strict=True)
        for line in part.bad
    ]
    return TextRatings(table, bad, f"{first.columns} in the first of {len(parts)} files")


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


def read_text_or_json(path: Path, how: How) -> TextRatings:
    """The ratings in text or JSONL, unpacked; raises `InvalidRatingsFile` for content of another kind."""
    data = path.read_bytes()
    suffix = (path.with_suffix("") if path.suffix.lower() == GZIP_SUFFIX else path).suffix.lower()
    if suffix in (*MATRIX_SUFFIXES, *PARQUET_SUFFIXES):
        raise InvalidRatingsFile(f"Invalid {path}: expected text or JSONL in {GZIP_SUFFIX}, got {suffix}; unpack it")
    if data.startswith(_GZIP):
        data = gzip.decompress(data)
    elif path.suffix.lower() == GZIP_SUFFIX:
        raise InvalidRatingsFile(f"Invalid {path}: expected a file compressed by gzip, got {data[:8]!r}")
    if how.encoding is not None:
        try:
            data = data.decode(how.encoding).encode()
        except UnicodeError as error:
            raise InvalidRatingsFile(f"Invalid {path}: expected text in {how.encoding}, got: {error}") from None
    for beginning, kind in _OTHER_KINDS.items():
        if data.startswith(beginning):
            raise InvalidRatingsFile(f"Invalid {path}: expected text, JSONL, Parquet, .npz or .mat, got {kind}")
    if b"\0" in data:
        number = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise InvalidRatingsFile(
            f"Invalid line {number} of {path}: expected text in UTF-8, got a zero byte, as in UTF-16 and in other files"
        )
    return (read_json if suffix in JSON_SUFFIXES else read_text)(path, data.removeprefix(BYTE_ORDER_MARK), how)


def newest_of_each_pair(
    users: NDArray[np.int32], items: NDArray[np.int32], n_items: int, times: NDArray[np.float64] | None
) -> NDArray[np.int64] | None:
    """Positions, ascending, of the rating of each (user, item) with the newest time; None if each pair occurs once.

    Args:
        users, items: rows from 0, (N,).
        n_items: rows of items.
        times: (N,); None: the last position of a pair counts, as it does among equal times.
    """
    pairs = users.astype(np.int64)
    pairs *= max(n_items, 1)
    pairs += items
    # Sorting numbers is several times faster than sorting by them: a pair and its position go into one, if it has room.
    n_bits = max(len(pairs) - 1, 1).bit_length()
    if int(pairs.max(initial=0)).bit_length() + n_bits > _BITS:
        order = np.argsort(pairs, kind="stable")
        ordered = pairs[order]
    else:
        order = pairs << n_bits
        order |= np.arange(len(pairs))
        order.sort()
        ordered = np.right_shift(order, n_bits, out=pairs)
        order &= (1 << n_bits) - 1
    is_first = np.ones(len(pairs), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    if is_first.all():
        return None
    starts = np.flatnonzero(is_first)
    if times is not None:
        by_pair = times[order]
        newest = np.maximum.reduceat(by_pair, starts)
        order[by_pair != np.repeat(newest, np.diff(starts, append=len(pairs)))] = -1
    places: NDArray[np.int64] = np.sort(np.maximum.reduceat(order, starts))
    return places
