"""Item weights of EASE on a device, with CuPy's linear algebra; the twin of `gpu.ease.host`.

XᵀX is inverted in place (`gpu.ease.objective.sweep`), in float64 where it fits and in float32 where only that does: for
100,000 items 80 GB or 40 GB.
"""

from __future__ import annotations

from typing import Any

import cupy
import cupyx
import numpy as np
from cupyx import lapack
from cupyx.scipy import sparse
from numpy.typing import NDArray

from gpu.base.device import free_bytes
from gpu.data.model import MAX_WEIGHTED_ON_DEVICE
from gpu.ease.objective import PIVOT, no_inverse, sweep

BLOCK_BYTES = 2**28  # bytes of a dense block of X, and of the rows that are updated at a time
LIKE_BYTES = 12  # bytes of an entry of X


def most_items() -> int:
    """Items with weights, at most, where memory suffices."""
    return MAX_WEIGHTED_ON_DEVICE


def bytes_needed(n_items: int, n_likes: int, number_bytes: int = 4) -> int:
    """Bytes that a training takes on the device: the matrix, panels of the inverse, blocks, and X twice.

    Args:
        n_items, n_likes: T, and the entries of X.
        number_bytes: of a number of the matrix; 4, or 8 where it fits.
    """
    panels = 4 * PIVOT * max(n_items, PIVOT)
    return number_bytes * (n_items**2 + panels) + 3 * BLOCK_BYTES + 2 * LIKE_BYTES * n_likes


def item_weights(likes: Any, ridge: float) -> NDArray[np.float32]:
    """B, float32 (T, T) on the host.

    Args:
        likes: X, a SciPy CSR matrix, float64 (U, T).
        ridge: λ.

    Raises:
        TrainingDiverged: XᵀX + λ I has no inverse in the precision that fits.
    """
    n_items = likes.shape[1]
    dtype = cupy.float64 if bytes_needed(n_items, likes.nnz, 8) <= free_bytes() else cupy.float32
    matrix = gram(sparse.csr_matrix(likes.astype(dtype)))
    matrix[cupy.diag_indices_from(matrix)] += ridge
    n_rows = max(BLOCK_BYTES // (matrix.itemsize * n_items), 1)
    try:
        with cupyx.errstate(linalg="raise"):
            sweep(matrix, _inverse, n_rows)
    except np.linalg.LinAlgError as error:
        raise no_inverse() from error
    diagonal, weights = -cupy.diagonal(matrix), np.empty(matrix.shape, dtype=np.float32)
    for first in range(0, n_items, n_rows):
        rows = slice(first, first + n_rows)
        weights[rows] = (matrix[rows] / diagonal).astype(cupy.float32).get()
    np.fill_diagonal(weights, 0)
    return weights


def gram(likes: Any) -> Any:
    """XᵀX (T, T) in the precision of X, computed in blocks of columns: a dense block of X takes `BLOCK_BYTES`."""
    n_users, n_items = likes.shape
    by_item, matrix = likes.T.tocsr(), cupy.empty((n_items, n_items), dtype=likes.dtype)
    n_columns = max(BLOCK_BYTES // (likes.dtype.itemsize * max(n_users, n_items)), 1)
    for first in range(0, n_items, n_columns):
        block = slice(first, first + n_columns)
        matrix[block] = (by_item @ likes[:, block].toarray()).T
    return matrix


def _inverse(pivot: Any) -> Any:
    exact = pivot.astype(cupy.float64)
    return lapack.posv(exact, cupy.eye(len(exact))).astype(pivot.dtype)
