"""Reads matrices of ratings in .npz, .mat and .mtx files: rows are users, columns items, non-zero entries ratings.

A dense matrix of few columns may as well be a list of (user, item, rating); the caller has to say which.
"""

from __future__ import annotations

import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.base.limits import LATEST_S
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.ratings_columns import MATRIX, NAMES, Choice, described

MATRIX_MARKET = (".mtx", ".mtx.gz")
DEFAULT_KEY = "fea"
LIST_COLUMNS = range(3, 6)  # columns of a list of user, item, rating, and perhaps time and one more


class Entries(NamedTuple):
    """The non-zero entries of a matrix, or the lines of a list of ratings, (N,) each.

    Attributes:
        users, items: row and column numbers from 0, or the ids in the list, as text.
        values: float32.
        timestamps: float64 Unix seconds; None without any.
        words: what was read, in words.
    """

    users: list[str]
    items: list[str]
    values: NDArray[np.float32]
    timestamps: NDArray[np.float64] | None
    words: str


def read_matrix(path: Path, how: How) -> Entries:
    """The entries of the variable `how.key`; default: `fea`, else the largest two-dimensional numeric one.

    A separate process reads a .mat or .mtx file, because SciPy's reader writes past its buffers for some damaged files.

    Raises:
        InvalidRatingsFile: no such variable, entries too large, a matrix that may be a list of ratings, or a file that
            crashed the process.
        Exception: any error of the libraries for a damaged file.
    """
    if path.suffix.lower() == ".npz":
        return entries_of(path, how)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["scipy.io", "scipy.sparse"])
    with ProcessPoolExecutor(1, context) as pool:
        try:
            return pool.submit(entries_of, path, how).result()
        except BrokenProcessPool:
            raise InvalidRatingsFile(
                f"Invalid {path}: expected a matrix that can be read, got one that ended the process which read it:"
                " it is damaged, or too large for the memory"
            ) from None


def entries_of(path: Path, how: How) -> Entries:
    """The same, read in this process."""
    from scipy import io, sparse  # noqa: PLC0415 (heavy, and only matrices need it)

    choice = how.choice
    if how.is_of_text or (choice is not None and choice.has_names):
        wanted = f"--columns with positions, such as user,item,rating, or {MATRIX}, and no --delimiter or --encoding"
        raise InvalidRatingsFile(f"Invalid {path}: expected {wanted}: it is a matrix without a header")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the libraries warn about damaged parts, which are refused or read as they are
        if is_matrix_market(path):
            name, loaded = "", io.mmread(path)
        else:
            with path.open("rb") as file:  # the libraries leave it open when they fail
                name, loaded = variable_of(path, file, how.key)
    name = f"the matrix {name + ' ' * bool(name)}of {loaded.shape[0]:,} rows and {loaded.shape[1]:,} columns"
    if not sparse.issparse(loaded):
        if choice is not None and choice.places:
            return listed(path, name, loaded, choice, how)
        may_be_list = choice is None and len(loaded) and loaded.shape[1] in LIST_COLUMNS and loaded.dtype != np.bool_
        if may_be_list and are_ids(loaded[:, 0]) and are_ids(loaded[:, 1]):
            columns = ",".join((*NAMES[:3], *"--")[: loaded.shape[1]])
            row = ", ".join(f"{value:g}" for value in loaded[0].tolist())
            raise InvalidRatingsFile(
                f"Invalid {path}: expected a matrix of users and items, got {name}, which may be a list of"
                f" ratings: its first row is {row}. Say which column is what, such as"
                f" --columns {columns}; or --columns {MATRIX}, if each column is an item"
            )
    elif choice is not None and choice.places:
        raise InvalidRatingsFile(f"Invalid {path}: expected a dense matrix with --columns user,item, got a sparse one")
    elif loaded.format in ("csr", "csc", "bsr"):
        loaded.check_format(full_check=True)  # the conversion below writes wherever damaged indices point
    matrix = sparse.coo_array(loaded)
    matrix.sum_duplicates()
    kept = matrix.data != 0
    values = ratings_of(path, matrix.data[kept], how.largest)
    first = int(is_matrix_market(path))  # the number of the first row and column, as the file writes it
    users, items = (ids_of(axis[kept].astype(np.int64) + first) for axis in matrix.coords)
    return Entries(users, items, values, None, f"{name}: rows are users, columns are items, from {first}")


def is_matrix_market(path: Path) -> bool:
    """Whether a file is text of Matrix Market, perhaps compressed by gzip."""
    return path.name.lower().endswith(MATRIX_MARKET)


def ratings_of(path: Path, numbers: NDArray[Any], largest: float) -> NDArray[np.float32]:
    """The numbers as ratings; raises `InvalidRatingsFile` if one is not finite or above `largest`."""
    with np.errstate(over="ignore"):  # entries too large for float32 become infinite and are refused here
        values: NDArray[np.float32] = numbers.astype(np.float32)
    if not np.isfinite(values).all():
        number = numbers[~np.isfinite(values)][0]
        raise InvalidRatingsFile(f"Invalid {path}: expected entries that are finite in float32, got {number}")
    if (too_large := np.abs(numbers.astype(np.float64)) > largest).any():
        number = numbers[too_large][0]
        raise InvalidRatingsFile(f"Invalid {path}: expected entries of at most {largest:.2g}, got {number}")
    return values


def are_ids(numbers: NDArray[Any]) -> bool:
    """Whether all numbers are whole, from 0 and exact."""
    return bool((np.isfinite(numbers) & (numbers >= 0) & (numbers < 2**53) & (numbers == np.floor(numbers))).all())


def listed(path: Path, name: str, matrix: NDArray[Any], choice: Choice, how: How) -> Entries:
    """The ratings of a matrix that has one in each row."""
    if matrix.shape[1] != choice.n_columns:
        wanted = f"{choice.n_columns} columns, as chosen"
        raise InvalidRatingsFile(f"Invalid {path}: expected {wanted}, got {name}")
    columns = {meaning: matrix[:, int(place)] for meaning, place in choice.places.items()}
    for meaning in NAMES[:2]:
        if not are_ids(columns[meaning]):
            raise InvalidRatingsFile(f"Invalid {meaning} of {path}: expected whole numbers from 0, got others")
    times = columns["timestamp"] / how.per_second if "timestamp" in columns else None
    if times is not None and not (np.abs(times) <= LATEST_S).all():
        raise InvalidRatingsFile(f"Invalid timestamp of {path}: expected Unix seconds, got others")
    places = {meaning: int(place) for meaning, place in choice.places.items()}
    return Entries(
        ids_of(columns["user"].astype(np.int64)),
        ids_of(columns["item"].astype(np.int64)),
        ratings_of(path, columns.get("rating", np.ones(len(matrix))), how.largest),
        None if times is None else times.astype(np.float64),
        f"{described(places, None, choice.n_columns)}; {name} is a list of ratings",
    )


def ids_of(rows: NDArray[np.integer]) -> list[str]:
    """Each row number as text; equal ones share one string."""
    numbers, places = np.unique(rows, return_inverse=True)
    names = [str(number) for number in numbers.tolist()]
    return [names[position] for position in places.tolist()]


def variable_of(path: Path, file: BinaryIO, key: str | None) -> tuple[str, Any]:
    """Name and value of the variable named `key`, else `fea`, else the largest two-dimensional numeric one."""
    from scipy import io, sparse  # noqa: PLC0415

    is_npz = path.suffix.lower() == ".npz"
    arrays = np.load(file, allow_pickle=False) if is_npz else None
    names = {name for name, _, _ in io.whosmat(file)} if arrays is None else set(arrays.files)
    if key is not None and key not in names:
        raise InvalidRatingsFile(f"Invalid {path}: expected a variable {key}, got {', '.join(sorted(names)) or 'none'}")
    if arrays is None:
        file.seek(0)
        variables = io.loadmat(file, variable_names=key and [key])
    elif key is None and {"format", "shape", "data"} <= names:
        file.seek(0)
        return "of SciPy", sparse.load_npz(file)
    else:
        variables = {name: arrays[name] for name in names if key in (None, name)}
    matrices = {
        name: value
        for name, value in variables.items()
        if getattr(value, "ndim", 0) == 2 and value.dtype.kind in "biuf"
    }
    largest = max(matrices, key=lambda name: np.prod(matrices[name].shape), default=None)
    name = key or (DEFAULT_KEY if DEFAULT_KEY in matrices else largest)
    if name is None or name not in matrices:
        shown = ", ".join(
            f"{other} {value.dtype} {value.shape}" if hasattr(value, "dtype") else f"{other} {type(value).__name__}"
            for other, value in sorted(variables.items())
            if other[:2] != "__"
        )
        wanted = f"a matrix {key} of real numbers" if key else "a matrix of real numbers"
        raise InvalidRatingsFile(f"Invalid {path}: expected {wanted} with two axes, got {shown or 'nothing'}")
    return name, matrices[name]
