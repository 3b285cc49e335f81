"""Item weights of next on a device: sums by a kernel, systems by CuPy's linear algebra; the twin of `gpu.next.host`."""

from __future__ import annotations

from typing import Any

import cupy
import cupyx
import numpy as np
from cupyx import lapack
from numpy.typing import NDArray

from gpu.cuda.launcher import Launcher
from gpu.next.histories import Histories
from gpu.next.objective import UNIT, in_fixed_point, no_inverse

THREADS = 128
N_MATRICES = 4  # XᵀX, XᵀY, and the solver's copies of both
PAIR_BYTES = 40  # bytes of what a user has met
LIBRARY_BYTES = 1 << 25  # that cuBLAS and cuSOLVER keep; 17 MB were seen on an H200
_launch = Launcher("next", {})


def bytes_needed(n_items: int, n_pairs: int) -> int:
    """Bytes that a training takes on the device: float64 matrices (T, T), what users have met, and the libraries."""
    return 8 * N_MATRICES * n_items**2 + PAIR_BYTES * n_pairs + LIBRARY_BYTES


def sums(histories: Histories, curve: NDArray[np.float64], n_items: int) -> tuple[Any, Any]:
    """(XᵀX (T, T), (XᵀY)ᵀ (T, T): a row for each next item), float64, on the device; the bits of the host."""
    items, n_newer = (cupy.asarray(column) for column in histories.packed())
    places, counts = cupy.argsort(items), cupy.bincount(items, minlength=n_items)
    firsts, popular = cupy.cumsum(counts) - counts, cupy.argsort(-counts)
    weights, shared = (cupy.asarray(table) for table in in_fixed_point(curve))
    together, following = (cupy.zeros((n_items, n_items), dtype=cupy.int64) for _ in range(2))
    by_item = places, firsts, counts, popular
    sizes = np.int32(len(curve) - 1), np.int64(n_items)
    _launch("add_pairs", n_items, THREADS, items, n_newer, *by_item, weights, shared, *sizes, together, following)
    cross = following / UNIT
    del following
    gram = together + together.T
    gram[cupy.diag_indices_from(gram)] //= 2
    del together
    return gram / UNIT, cross


def item_weights(gram: Any, cross: Any, ridge: float) -> NDArray[np.float32]:
    """W = (XᵀX + λ)⁻¹ XᵀY, float32 (T, T) on the host, a row for each item before; overwrites both sums.

    Raises:
        TrainingDiverged: XᵀX + λ has no inverse in float64.
    """
    on_host: NDArray[np.float32] = solved(gram, ridge, cross.T).astype(cupy.float32).get(order="C")
    return np.ascontiguousarray(on_host)


def scores(gram: Any, cross: Any, ridge: float, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """The x W of users with these `inputs` x (B, T), without W and in float32, which a choice needs: float32 (B, T)."""
    left = solved(gram.astype(cupy.float32), ridge, cupy.asarray(inputs).T)
    on_host: NDArray[np.float32] = (left.T @ cross.T.astype(cupy.float32)).get()
    return on_host


def solved(gram: Any, ridge: float, targets: Any) -> Any:
    """(XᵀX + λ)⁻¹ Y by Cholesky, for targets Y (T, B)."""
    gram[cupy.diag_indices_from(gram)] += ridge
    try:
        with cupyx.errstate(linalg="raise"):
            return lapack.posv(gram, targets)
    except np.linalg.LinAlgError as error:
        raise no_inverse() from error
