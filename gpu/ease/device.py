"""Item weights of EASE on a device, with CuPy's linear algebra; the twin of `gpu.ease.host`."""

from __future__ import annotations

from typing import Any

import cupy
import cupyx
import numpy as np
from cupyx import lapack
from cupyx.scipy import sparse
from numpy.typing import NDArray

from gpu.ease.objective import no_inverse

BLOCK_BYTES = 2**28  # bytes of a dense block of X
LIKE_BYTES = 12  # bytes of an entry of X
N_MATRICES = 4  # XᵀX, the identity matrix, and the solver's copies of both


def bytes_needed(n_items: int, n_likes: int) -> int:
    """Bytes that a training takes on the device: matrices (T, T), two blocks of X, and X twice.

    Args:
        n_items, n_likes: T, and the entries of X.
    """
    return 8 * N_MATRICES * n_items**2 + 2 * BLOCK_BYTES + 2 * LIKE_BYTES * n_likes


def item_weights(likes: Any, ridge: float) -> NDArray[np.float32]:
    """B, float32 (T, T) on the host.

    Args:
        likes: X, a SciPy CSR matrix, float64 (U, T).
        ridge: λ.

    Raises:
        TrainingDiverged: XᵀX + λ I has no inverse in float64.
    """
    matrix = gram(sparse.csr_matrix(likes))
    matrix[cupy.diag_indices_from(matrix)] += ridge
    try:
        with cupyx.errstate(linalg="raise"):
            inverse = lapack.posv(matrix, cupy.eye(len(matrix)))
    except np.linalg.LinAlgError as error:
        raise no_inverse() from error
    del matrix
    weights = (inverse / -cupy.diagonal(inverse)).astype(cupy.float32)
    cupy.fill_diagonal(weights, 0)
    on_host: NDArray[np.float32] = weights.get()
    return on_host


def gram(likes: Any) -> Any:
    """XᵀX, float64 (T, T), computed in blocks of columns: a dense block of X takes `BLOCK_BYTES`."""
    n_users, n_items = likes.shape
    by_item, matrix = likes.T.tocsr(), cupy.empty((n_items, n_items))
    n_columns = max(BLOCK_BYTES // (8 * n_users), 1)
    for first in range(0, n_items, n_columns):
        matrix[:, first : first + n_columns] = by_item @ likes[:, first : first + n_columns].toarray()
    return matrix
