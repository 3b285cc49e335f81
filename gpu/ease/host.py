"""Item weights of EASE on the host: XᵀX by SciPy, its inverse in place by LAPACK (see `gpu.ease.trainer`)."""

from __future__ import annotations

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack

from gpu.data.model import MAX_WEIGHTED
from gpu.ease.objective import no_inverse

BLOCK = 256  # rows of XᵀX multiplied at a time, and edge of the tiles that are mirrored
ENTRY_BYTES = 12  # bytes of an entry of a sparse matrix
LIKE_BYTES = 64  # bytes of a like in X, its transpose and their construction


def most_items() -> int:
    """Items with weights, at most."""
    return MAX_WEIGHTED


def bytes_needed(n_items: int, n_likes: int) -> int:
    """Bytes that a training takes in addition to its ratings: matrix, weights, two blocks of the product, and likes."""
    return (8 + 4) * n_items**2 + 2 * ENTRY_BYTES * BLOCK * n_items + LIKE_BYTES * n_likes


def item_weights(likes: sparse.csr_matrix, ridge: float) -> NDArray[np.float32]:
    """B, float32 (T, T), of X (U, T).

    Raises:
        TrainingDiverged: XᵀX + λ I has no inverse in float64.
    """
    matrix = gram(likes)
    matrix[np.diag_indices_from(matrix)] += ridge
    invert(matrix)
    return scaled(matrix)


def gram(likes: sparse.csr_matrix) -> NDArray[np.float64]:
    """XᵀX (T, T), a block of rows at a time: as a sparse matrix it could be longer than it is here."""
    n_items, by_item = likes.shape[1], likes.T.tocsr()
    matrix = np.zeros((n_items, n_items))
    for first in range(0, n_items, BLOCK):
        (by_item[first : first + BLOCK] @ likes).toarray(out=matrix[first : first + BLOCK])
    return matrix


def invert(matrix: NDArray[np.float64]) -> None:
    """Replace the lower triangle of a symmetric positive definite matrix by that of its inverse, on all threads."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - only a training needs it

    transposed = matrix.T  # LAPACK goes by columns; the lower triangle of rows is its upper one
    with threadpool_limits(limits=get_num_threads(), user_api="blas"):
        _, fault = lapack.dpotrf(transposed, lower=0, clean=0, overwrite_a=1)
        if not fault:
            _, fault = lapack.dpotri(transposed, lower=0, overwrite_c=1)
    if fault:
        raise no_inverse()


def scaled(inverse: NDArray[np.float64]) -> NDArray[np.float32]:
    """B_ij = −P_ij / P_jj and B_jj = 0 of the lower triangle of P, tile by tile."""
    n_items, diagonal = len(inverse), np.diagonal(inverse)
    weights = np.empty(inverse.shape, dtype=np.float32)
    for first in range(0, n_items, BLOCK):
        rows = slice(first, first + BLOCK)
        corner = np.tril(inverse[rows, rows])
        weights[rows, :first] = inverse[rows, :first] / -diagonal[:first]
        weights[rows, rows] = (corner + np.tril(corner, -1).T) / -diagonal[rows]
        weights[rows, first + BLOCK :] = inverse[first + BLOCK :, rows].T / -diagonal[first + BLOCK :]
    np.fill_diagonal(weights, 0)
    return weights
