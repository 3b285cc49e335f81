"""NNDSVD: a start for NMF from the leading singular vectors (Boutsidis and Gallopoulos, 2008).

A randomized range finder with power iterations finds them (Halko, Martinsson and Tropp, 2011, Alg. 4.4). It needs only
products with A, which may be sparse or dense, on the host or the device.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpu.nmf.host_blocks import Floats
from gpu.nmf.params import NmfParams

Product = Callable[[bool, Floats], Floats]  # (whether A · rows, else Aᵀ · rows) -> product
OVERSAMPLING = 10  # vectors in addition to k
N_POWERS = 4  # power iterations; the singular values of text and ratings fall slowly


def nndsvd(product: Product, shape: tuple[int, int], params: NmfParams) -> tuple[Floats, Floats]:
    """(W (V, k), Hᵀ (D, k)), no entry below 0; k is `params.n_factors`, or less if A has fewer dimensions.

    It keeps the positive or the negative parts of each pair of singular vectors: those with the larger product of
    norms.
    """
    left, values, right = singular(product, shape, params.n_factors, params.seed)
    W, H = np.empty_like(left), np.empty_like(right)
    for k in range(len(values)):
        parts = [(np.maximum(sign * left[:, k], 0), np.maximum(sign * right[:, k], 0)) for sign in (1, -1)]
        w, h = max(parts, key=lambda part: float(np.linalg.norm(part[0]) * np.linalg.norm(part[1])))
        lengths = np.linalg.norm(w), np.linalg.norm(h)
        scale = np.sqrt(values[k] * lengths[0] * lengths[1])
        W[:, k], H[:, k] = scale * w / (lengths[0] or 1), scale * h / (lengths[1] or 1)
    return W, H


def singular(product: Product, shape: tuple[int, int], k: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """The `k` leading singular triples, or fewer if A has fewer dimensions: (V, k), (k,), (D, k), float64."""
    n_rows, n_columns = shape
    width = min(k + OVERSAMPLING, n_rows, n_columns)
    basis = np.random.default_rng((seed, k)).standard_normal((n_columns, width))
    for _ in range(N_POWERS):
        basis = _orthonormal(product(False, _orthonormal(product(True, basis))))
    rows = _orthonormal(product(True, basis))
    right, values, left = np.linalg.svd(product(False, rows).astype(np.float64), full_matrices=False)
    k = min(k, width)
    return (rows @ left.T)[:, :k], values[:k], right[:, :k]


def _orthonormal(columns: Floats) -> Floats:
    basis: Floats = np.linalg.qr(columns.astype(np.float64)).Q
    return basis
