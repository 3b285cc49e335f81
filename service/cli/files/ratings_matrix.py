"""Reads matrices of ratings in .npz and .mat files: rows are users, columns items, non-zero entries ratings."""

from __future__ import annotations

import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.errors import InvalidRatingsFile

DEFAULT_KEY = "fea"


class Entries(NamedTuple):
    """The non-zero entries of a matrix, (N,) each.

    Attributes:
        users, items: row and column numbers from 0, as text.
        values: float32.
    """

    users: list[str]
    items: list[str]
    values: NDArray[np.float32]


def read_matrix(path: Path, key: str | None) -> Entries:
    """The entries of the variable `key`; default: `fea`, else the largest two-dimensional numeric one.

    A separate process reads a .mat file, because SciPy's reader writes past its buffers for some damaged files.

    Raises:
        InvalidRatingsFile: no such variable, entries too large for float32, or a file that crashed the process.
        Exception: any error of the libraries for a damaged file.
    """
    if path.suffix.lower() == ".npz":
        return _entries(path, key)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["scipy.io", "scipy.sparse"])
    with ProcessPoolExecutor(1, context) as pool:
        try:
            return pool.submit(_entries, path, key).result()
        except BrokenProcessPool:
            raise InvalidRatingsFile(
                f"Invalid {path}: expected a matrix that can be read, got one that ended the process which read it:"
                " it is damaged, or too large for the memory"
            ) from None


def _entries(path: Path, key: str | None) -> Entries:
    from scipy import sparse  # noqa: PLC0415 (heavy, and only matrices need it)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the libraries warn about damaged parts, which are refused or read as they are
        with path.open("rb") as file:  # the libraries leave it open when they fail
            loaded = (_load_npz if path.suffix.lower() == ".npz" else _load_mat)(path, file, key)
    if sparse.issparse(loaded) and loaded.format in ("csr", "csc", "bsr"):
        loaded.check_format(full_check=True)  # the conversion below writes wherever damaged indices point
    matrix = sparse.coo_array(loaded)
    matrix.sum_duplicates()
    kept = matrix.data != 0
    with np.errstate(over="ignore"):  # entries too large for float32 become infinite and are refused below
        values = matrix.data[kept].astype(np.float32)
    if not np.isfinite(values).all():
        found = matrix.data[kept][~np.isfinite(values)][0]
        raise InvalidRatingsFile(f"Invalid {path}: expected entries that are finite in float32, got {found}")
    users, items = (_row_names(axis[kept]) for axis in matrix.coords)
    return Entries(users, items, values)


def _row_names(rows: NDArray[np.integer]) -> list[str]:
    """Each row number as text; equal ones share one string."""
    numbers, places = np.unique(rows, return_inverse=True)
    names = [str(number) for number in numbers.tolist()]
    return [names[position] for position in places.tolist()]


def _load_npz(path: Path, file: BinaryIO, key: str | None) -> Any:
    from scipy import sparse  # noqa: PLC0415

    arrays = np.load(file, allow_pickle=False)
    names = set(arrays.files)
    _check_key(path, key, names)
    if key is None and {"format", "shape", "data"} <= names:
        file.seek(0)
        return sparse.load_npz(file)
    return _chosen(path, {name: arrays[name] for name in names if key in (None, name)}, key)


def _load_mat(path: Path, file: BinaryIO, key: str | None) -> Any:
    from scipy import io  # noqa: PLC0415

    _check_key(path, key, {name for name, _, _ in io.whosmat(file)})
    file.seek(0)
    return _chosen(path, io.loadmat(file, variable_names=key and [key]), key)


def _check_key(path: Path, key: str | None, names: set[str]) -> None:
    if key is not None and key not in names:
        raise InvalidRatingsFile(f"Invalid {path}: expected a variable {key}, got {', '.join(sorted(names)) or 'none'}")


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
