"""Small symmetric systems on the host, built and solved without any library call.

Every sum runs over vectors in one fixed order, so that a result does not depend on other work in the call. Only the
upper triangle is stored, row by row, in float64. Indices are unsigned: signed ones may count from the end, which
prevents vector instructions.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.data.host_arena import Int
from gpu.data.refit_rules import N_SWEEPS, TOLERANCE

BATCH = 4  # observations added in one pass over the matrix
PANEL, TILE = 8, 64  # pivots of a factorization that are subtracted in one pass; lines and columns of a tile
_1, _2, _3, _4, _5, _6, _7 = (np.uintp(n) for n in range(1, 8))


class LinearSystem(NamedTuple):
    """matrix · x = right.

    Attributes:
        matrix: float64 (D, D), symmetric; only the upper triangle is read.
        right: float64 (D,).
    """

    matrix: Annotated[NDArray[np.float64], 2]
    right: NDArray[np.float64]


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def add_observations(
    matrix: NDArray[np.floating],
    right: NDArray[np.floating],
    rows: NDArray[np.floating],
    weights: NDArray[np.floating],
    targets: NDArray[np.floating],
) -> None:
    """Add Σ weight · x xᵀ to `matrix` and Σ target · x to `right` over `BATCH` observations x = `rows` (BATCH, D).

    All arrays are of one precision, float64 or float32.
    """
    n, unit = np.uintp(len(right)), np.uintp(1)
    one, two, three, four = rows[0], rows[1], rows[2], rows[3]
    for a in range(n):
        right[a] += targets[0] * one[a] + targets[1] * two[a] + targets[2] * three[a] + targets[3] * four[a]
    for a in range(np.uintp(0), n & ~unit, np.uintp(2)):  # two lines, so that each x is loaded half as often
        w1, w2, w3, w4 = weights[0] * one[a], weights[1] * two[a], weights[2] * three[a], weights[3] * four[a]
        b = a + unit
        v1, v2, v3, v4 = weights[0] * one[b], weights[1] * two[b], weights[2] * three[b], weights[3] * four[b]
        line, below = matrix[a], matrix[b]
        for c in range(a, n):  # `below` from its place left of the diagonal on, which nobody reads
            x1, x2, x3, x4 = one[c], two[c], three[c], four[c]
            line[c] = line[c] + w1 * x1 + w2 * x2 + w3 * x3 + w4 * x4
            below[c] = below[c] + v1 * x1 + v2 * x2 + v3 * x3 + v4 * x4
    if n & unit:
        last = n - unit
        x1, x2, x3, x4 = one[last], two[last], three[last], four[last]
        total = matrix[last, last] + weights[0] * x1 * x1 + weights[1] * x2 * x2 + weights[2] * x3 * x3
        matrix[last, last] = total + weights[3] * x4 * x4


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def factorize(matrix: NDArray[np.float64]) -> None:
    """Cholesky factor R, RᵀR = matrix, in place of a positive definite matrix's upper triangle.

    A matrix of many factors does not fit into the cache. So `TILE` lines at a time lose the products of all pivots
    above them, in tiles that stay in the cache, `PANEL` pivots in one pass. An entry loses its products one after the
    other, in the order of the pivots, as it would without tiles.
    """
    n, one, panel, tile = np.uintp(len(matrix)), np.uintp(1), np.uintp(PANEL), np.uintp(TILE)
    for top in range(np.uintp(0), n, tile):
        bottom = min(top + tile, n)
        for left in range(top, n, tile):
            for first in range(np.uintp(0), top, panel):
                subtract(matrix, first, (top, bottom), (left, min(left + tile, n)))
        for first in range(top, bottom, panel):
            end = min(first + panel, bottom)
            for k in range(first, end):
                pivot = matrix[k]
                scale = 1 / np.sqrt(pivot[k])
                for c in range(k, n):
                    pivot[c] *= scale
                for i in range(k + one, end):
                    line, factor = matrix[i], pivot[i]
                    for c in range(i, n):
                        line[c] -= factor * pivot[c]
            if end < bottom:
                subtract(matrix, first, (end, bottom), (end, n))


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def subtract(matrix: NDArray[np.float64], first: Int, lines: tuple[Int, Int], columns: tuple[Int, Int]) -> None:
    """Subtract the products of `PANEL` pivots, from `first` on, from a tile of the upper triangle."""
    p, q, r, s = matrix[first], matrix[first + _1], matrix[first + _2], matrix[first + _3]
    t, u, v, w = matrix[first + _4], matrix[first + _5], matrix[first + _6], matrix[first + _7]
    for i in range(lines[0], lines[1]):
        line = matrix[i]
        pi, qi, ri, si, ti, ui, vi, wi = p[i], q[i], r[i], s[i], t[i], u[i], v[i], w[i]
        for c in range(max(i, columns[0]), columns[1]):
            x = line[c] - pi * p[c]
            x -= qi * q[c]
            x -= ri * r[c]
            x -= si * s[c]
            x -= ti * t[c]
            x -= ui * u[c]
            x -= vi * v[c]
            line[c] = x - wi * w[c]


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def solve(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    """Solve matrix · x = right; x replaces `right`, the Cholesky factor replaces the upper triangle."""
    factorize(matrix)
    n, one = np.uintp(len(right)), np.uintp(1)
    for k in range(n):
        line = matrix[k]
        right[k] /= line[k]
        factor = right[k]
        for c in range(k + one, n):
            right[c] -= factor * line[c]
    for position in range(n):
        a = n - one - position
        line = matrix[a]
        total = right[a]
        for c in range(a + one, n):
            total -= line[c] * right[c]
        right[a] = total / line[a]


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def solve_nonnegative(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    """Minimize ½ xᵀ matrix x − right · x over x ≥ 0; x replaces `right`, the lower triangle is filled in.

    By coordinate descent from zero: HALS for one row. The matrix has to be positive definite.
    """
    n = np.uintp(len(right))
    for a in range(n):
        for c in range(a):
            matrix[a, c] = matrix[c, a]
    x = np.zeros(len(right))
    for _ in range(N_SWEEPS):
        change, largest = 0.0, 0.0
        for k in range(n):
            line = matrix[k]
            step = max(-x[k], right[k] / line[k])  # `right` holds the residual
            x[k] += step
            for c in range(n):
                right[c] -= step * line[c]
            change, largest = max(change, abs(step)), max(largest, x[k])
        if change <= TOLERANCE * largest:
            break
    right[:] = x
