"""Files of ratings: CSV and TSV, MovieLens (`::` or tab), Parquet, and matrices in .npz or .mat.

Text files hold user,item,rating[,timestamp] in this order; a header is optional. Parquet files have columns of these
names. A matrix has users as rows, numbered from 0, and items as columns; its non-zero entries are the ratings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.errors import InvalidRatingsFile
from service.events import MAX_ID_BYTES
from service.ratings_text import LARGEST, BadLine, read_text

DEFAULT_KEY = "fea"
MATRIX_SUFFIXES = (".npz", ".mat")
PARQUET_SUFFIXES = (".parquet", ".pq")


class RatingsFile(NamedTuple):
    """The ratings of a file, in its order; all columns are N long.

    Attributes:
        users, items: ids as strings.
        values: float32.
        timestamps: float64 Unix seconds; None if the file has none.
        bad: lines that were left out because of `skip_bad`.
    """

    users: list[str]
    items: list[str]
    values: NDArray[np.float32]
    timestamps: NDArray[np.float64] | None
    bad: list[BadLine]


def read(path: Path, key: str | None = None, skip_bad: bool = False) -> RatingsFile:
    """Read a file of ratings; its suffix and its first line tell the format.

    Args:
        path: the file.
        key: variable of an .npz or .mat file. Default: `fea`, else its largest two-dimensional numeric one.
        skip_bad: leave out lines of a text file that cannot be used instead of refusing the file.

    Raises:
        InvalidRatingsFile: the file, or the first bad line of it (named by its number from 1), cannot be used.
        FileNotFoundError: there is no such file.
    """
    suffix = path.suffix.lower()
    if suffix in MATRIX_SUFFIXES:
        return _read_matrix(path, key)
    table, bad = (_read_parquet(path), []) if suffix in PARQUET_SUFFIXES else read_text(path, skip_bad)
    has_times = "timestamp" in table.column_names
    return RatingsFile(
        _strings(table.column("user")),
        _strings(table.column("item")),
        table.column("rating").to_numpy().astype(np.float32),
        table.column("timestamp").to_numpy() if has_times else None,
        bad,
    )


def _strings(column: pa.ChunkedArray) -> list[str]:
    """Ids of a dictionary-encoded column, equal ones sharing one string."""
    if not len(column):
        return []
    whole = column.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    names = whole.dictionary.to_pylist()
    return [names[code] for code in whole.indices.to_numpy().tolist()]


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq  # noqa: PLC0415 (text files need no Parquet)

    try:
        file = pq.ParquetFile(path)
        names = [name for name in ("user", "item", "rating", "timestamp") if name in file.schema_arrow.names]
        if names[:3] != ["user", "item", "rating"]:
            raise InvalidRatingsFile(f"Invalid {path}: expected columns user, item and rating, got {names}")
        table = file.read(columns=names)
        columns = [_converted(path, table.column(name), name) for name in names]
    except pa.ArrowException as error:
        raise InvalidRatingsFile(f"Invalid {path}: {error}") from error
    table = pa.table(columns, names=names)
    _check_columns(path, table)
    return table


def _converted(path: Path, column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    is_id = name in ("user", "item")
    try:
        converted = column.cast(pa.string() if is_id else pa.float64())
    except pa.ArrowNotImplementedError:
        kind = "text or integers" if is_id else "Unix seconds, as numbers" if name == "timestamp" else "numbers"
        raise InvalidRatingsFile(f"Invalid {name} of {path}: expected {kind}, got {column.type}") from None
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
            raise InvalidRatingsFile(f"Invalid {name} in row {unusable[0] + 1} of {path}: got {str(value)[:80]!r}")


def _read_matrix(path: Path, key: str | None) -> RatingsFile:
    from scipy import sparse  # noqa: PLC0415 (heavy, and only matrices need it)

    matrix = sparse.coo_array(_load_npz(path, key) if path.suffix.lower() == ".npz" else _load_mat(path, key))
    matrix.sum_duplicates()
    kept = matrix.data != 0
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused as infinite
        values = matrix.data[kept].astype(np.float32)
    if not np.isfinite(values).all():
        found = matrix.data[kept][~np.isfinite(values)][0]
        raise InvalidRatingsFile(f"Invalid {path}: expected entries that are finite in float32, got {found}")
    users, items = (_row_names(axis[kept]) for axis in matrix.coords)
    return RatingsFile(users, items, values, None, [])


def _row_names(rows: NDArray[np.integer]) -> list[str]:
    """Each row as its number, equal ones sharing one string."""
    numbers, places = np.unique(rows, return_inverse=True)
    names = [str(number) for number in numbers.tolist()]
    return [names[place] for place in places.tolist()]


def _load_npz(path: Path, key: str | None) -> Any:
    from scipy import sparse  # noqa: PLC0415

    try:
        with np.load(path, allow_pickle=False) as file:
            names = set(file.files)
            _check_key(path, key, names)
            if key is None and {"format", "shape", "data"} <= names:
                return sparse.load_npz(path)
            return _chosen(path, {name: file[name] for name in names if key in (None, name)}, key)
    except (OSError, ValueError, MemoryError, BadZipFile) as error:
        raise _refusal(path, error) from error


def _load_mat(path: Path, key: str | None) -> Any:
    from scipy import io  # noqa: PLC0415

    try:
        _check_key(path, key, {name for name, _, _ in io.whosmat(str(path))})
        return _chosen(path, io.loadmat(str(path), variable_names=key and [key]), key)
    except (OSError, ValueError, MemoryError, NotImplementedError) as error:  # the last: version 7.3, an HDF5 file
        raise _refusal(path, error) from error


def _check_key(path: Path, key: str | None, names: set[str]) -> None:
    if key is not None and key not in names:
        raise InvalidRatingsFile(f"Invalid {path}: expected a variable {key}, got {', '.join(sorted(names)) or 'none'}")


def _refusal(path: Path, error: Exception) -> Exception:
    if isinstance(error, InvalidRatingsFile | FileNotFoundError):
        return error
    return InvalidRatingsFile(
        f"Invalid {path}: expected a matrix that can be read, got: {error or type(error).__name__}"
    )


def _chosen(path: Path, variables: dict[str, Any], key: str | None) -> Any:
    """The variable named `key`, else `fea`, else the largest two-dimensional numeric one."""
    matrices = {name: value for name, value in variables.items() if _is_matrix(value)}
    wanted = key or (
        DEFAULT_KEY if DEFAULT_KEY in matrices else max(matrices, key=lambda n: _size(matrices[n]), default=None)
    )
    if wanted not in matrices:
        found = ", ".join(f"{name} {_kind(value)}" for name, value in sorted(variables.items()) if name[:2] != "__")
        wanted = f"a matrix {key} of real numbers" if key else "a matrix of real numbers"
        raise InvalidRatingsFile(f"Invalid {path}: expected {wanted} with two axes, got {found or 'nothing'}")
    return matrices[wanted]


def _is_matrix(value: Any) -> bool:
    return getattr(value, "ndim", 0) == 2 and value.dtype.kind in "biuf"


def _kind(value: Any) -> str:
    return f"{value.dtype} {value.shape}" if hasattr(value, "dtype") else type(value).__name__


def _size(matrix: Any) -> int:
    return int(np.prod(matrix.shape))
