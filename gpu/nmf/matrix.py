"""The matrix that NMF factorizes: checks, its form, and its division among ranks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import Backend
from gpu.base.errors import InvalidRatings
from gpu.data.calibration import in_units
from gpu.data.memory import check_room
from gpu.data.ratings import Ratings
from gpu.nmf import host as hals
from gpu.nmf.host_blocks import Floats
from gpu.nmf.params import NmfParams
from gpu.ranks.exchange import Exchange
from gpu.ranks.row_split import RowSplit, split_rows

DENSE_FROM = 0.15  # share of entries above 0; from here on products with a dense A are faster
FAR = 2.0**10  # factor from 1; a matrix whose entries are farther away is divided


def shape_of(matrix: Ratings | Floats) -> tuple[int, int]:
    """(V, D)."""
    if isinstance(matrix, Ratings):
        return matrix.n_users, matrix.n_items
    return matrix.shape[0], matrix.shape[1]


def matrix_of(ratings: Ratings) -> Ratings | NDArray[np.float32]:
    """The ratings in the form with faster products: sparse, or dense with zeros."""
    if len(ratings) < DENSE_FROM * ratings.n_users * ratings.n_items:
        return ratings
    users, items, values = ratings.coo()
    dense: NDArray[np.float32] = np.zeros((ratings.n_users, ratings.n_items), dtype=np.float32)
    dense[users, items] = values
    return dense


def mean_of(matrix: Ratings | Floats) -> float:
    """The mean of all entries, zeros included."""
    n_rows, n_columns = shape_of(matrix)
    values = matrix.by_user.values if isinstance(matrix, Ratings) else matrix
    return float(values.sum(dtype=np.float64)) / n_rows / n_columns


def checked(matrix: Ratings | Floats) -> Ratings | Floats:
    """The matrix, a dense one as an array.

    Raises:
        InvalidRatings: not two axes, an entry below 0 or not finite, or none above 0.
    """
    if not isinstance(matrix, Ratings):
        matrix = np.asarray(matrix)
        is_number = np.issubdtype(matrix.dtype, np.integer) or np.issubdtype(matrix.dtype, np.floating)
        if matrix.ndim != 2 or not is_number:
            raise InvalidRatings(f"Invalid matrix of nmf: expected real (V, D), got {matrix.dtype} {matrix.shape}")
    values = matrix.by_user.values if isinstance(matrix, Ratings) else matrix
    lowest, highest = (values.min(), values.max()) if values.size else (0, 0)
    if lowest < 0:
        message = f"Invalid ratings for nmf: expected 0 or more, got {lowest:g}"
        at = int(values.argmin())
        if isinstance(matrix, Ratings):
            users, items, _ = matrix.coo()
            row, column = int(users[at]), int(items[at])
        else:
            row, column = divmod(at, matrix.shape[1])
        raise InvalidRatings(f"{message}; train als-implicit, which takes low values for dislikes", row, column)
    if not (lowest >= 0 and 0 < highest < np.inf):
        raise InvalidRatings(
            f"Invalid ratings for nmf: expected finite numbers, not all 0, got {lowest:g} to {highest:g}"
        )
    return matrix


def near_one(matrix: Ratings | Floats) -> tuple[Ratings | Floats, float]:
    """(the matrix in multiples of a unit, the unit).

    It is 1, or a power of two if the mean of the entries above 0 is far from 1. Sweeps square the squares of entries,
    and bound factors by a fixed ε: entries of 1e9 would overflow float32, and those of 1e-12 would vanish in ε.
    Divisions by a power of two do not round.
    """
    values = matrix.by_user.values if isinstance(matrix, Ratings) else matrix
    _, exponent = math.frexp(float(values.sum(dtype=np.float64)) / np.count_nonzero(values))
    unit = 2.0 ** (exponent - 1)
    if 1 / FAR < unit < FAR:
        return matrix, 1.0
    return in_units(matrix, unit) if isinstance(matrix, Ratings) else matrix / unit, unit


def splits_of(
    matrix: Ratings | Floats, params: NmfParams, backend: Backend, exchange: Exchange
) -> tuple[RowSplit, RowSplit]:
    """The rows and the columns of a matrix, divided among ranks: a row costs as much as K entries."""
    costs = [np.full(n, params.n_factors, dtype=np.int64) for n in shape_of(matrix)]
    if isinstance(matrix, Ratings):
        costs = [cost + rows.lengths for cost, rows in zip(costs, (matrix.by_user, matrix.by_item), strict=True)]
    alignment = backend.twin(hals.alignment)()
    return split_rows(costs[0], exchange, alignment), split_rows(costs[1], exchange, alignment)


def check_memory(
    matrix: Ratings | Floats, params: NmfParams, tile: int, backend: Backend, splits: tuple[RowSplit, RowSplit]
) -> None:
    """Check that a training in tiles of `tile` columns has room on this rank.

    Raises:
        NotEnoughMemory: it would need more than is free; the message has both numbers.
    """
    n_rows, n_columns = shape_of(matrix)
    n_sparse, n_dense = 0, n_rows * n_columns
    if isinstance(matrix, Ratings):
        sides = zip((matrix.by_user, matrix.by_item), splits, strict=True)
        n_sparse, n_dense = sum(int(rows.lengths[split.own].sum()) for rows, split in sides) // 2, 0
    n_own = sum(split.own.stop - split.own.start for split in splits)
    itemsize = np.dtype(params.precision).itemsize
    n_copied = 2 * n_rows + n_columns if params.solver == "extrapolated" else 0
    needed = backend.twin(hals.bytes_needed)(
        shape=(n_rows, n_columns),
        n_own=n_own,
        n_sparse=n_sparse,
        n_dense=n_dense,
        n_factors=params.n_factors,
        tile=tile,
        itemsize=itemsize,
        n_copied=n_copied,
    )
    what = f"Training on the {backend.name} with {params.n_factors} factors ({n_rows:,} × {n_columns:,})"
    check_room(what, needed, backend)
