"""The rows of a half-iteration of ALS on the CPU: (A + ρ I) x = b by conjugate gradients ([000] Alg. 1) or Cholesky.

A is never formed for conjugate gradients: A p = VᵀV p + Σ w (z·p) z over the ratings of the row. Rows z are gathered
into a scratch, rounded up to whole vectors with zeros that change no sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpu.host.solve import BATCH, add_observations
from gpu.host.solve import solve as solve_symmetric
from gpu.ratings import Rows

LANES = 16  # columns of the scratch are a multiple of it
TOGETHER = 8  # ratings that share one pass over a vector
PANEL = 512  # ratings gathered at once; sums over longer rows are made of sums over panels
_ZERO = np.float32(0)


class Terms(NamedTuple):
    """What the ratings of a row stand for, and how it is solved; see `gpu.als.Problem`."""

    is_implicit: bool
    biases: bool
    alpha: np.float32
    mean: np.float32
    is_exact: bool
    n_steps: int
    tolerance: np.float32


class Panel(NamedTuple):
    """Ratings of one row, side by side: z (PANEL, LD), and w, y (PANEL,)."""

    z: NDArray[np.float32]
    weights: NDArray[np.float32]
    targets: NDArray[np.float32]


def scratch_bytes(n_columns: int) -> int:
    """Memory that one thread needs."""
    padded = n_columns + -n_columns % LANES
    return 4 * (PANEL * (padded + 2) + 5 * padded + padded**2) + 8 * n_columns * (n_columns + 1)


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def solve_rows(
    rows: Rows, bounds: NDArray[np.int64], ridges: NDArray[np.float64], gram: NDArray[np.float32], terms: Terms,
    fixed: NDArray[np.float32], solved: NDArray[np.float32],
) -> None:  # fmt: skip
    """Solve every row of `solved`, in place; `bounds` deals the rows to threads."""
    for run in prange(len(bounds) - 1):
        _solve_run(rows, bounds[run], bounds[run + 1], ridges, gram, terms, fixed, solved)


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_run(
    rows: Rows, first: int, last: int, ridges: NDArray[np.float64], gram: NDArray[np.float32], terms: Terms,
    fixed: NDArray[np.float32], solved: NDArray[np.float32],
) -> None:  # fmt: skip
    panel = Panel(np.zeros((PANEL, len(gram)), np.float32), np.zeros(PANEL, np.float32), np.zeros(PANEL, np.float32))
    vectors = np.zeros((5, len(gram)), np.float32)
    for row in range(first, last):
        items = rows.items[rows.starts[row] : rows.starts[row] + rows.lengths[row]]
        values = rows.values[rows.starts[row] : rows.starts[row] + rows.lengths[row]]
        if len(items) == 0:
            solved[row] = 0
        elif terms.is_exact:
            _solve_exactly(items, values, ridges[row], gram, terms, fixed, panel, solved[row])
        else:
            _solve_by_cg(items, values, np.float32(ridges[row]), gram, terms, fixed, panel, vectors, solved[row])


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(
    items: NDArray[np.int32], values: NDArray[np.float32], terms: Terms, fixed: NDArray[np.float32], panel: Panel
) -> int:
    """Copy the ratings into `panel`, and zeros up to the next multiple of `TOGETHER`; returns how many that makes."""
    n_columns = fixed.shape[1]
    for k in range(len(items)):
        panel.z[k, :n_columns] = fixed[items[k]]
        if terms.is_implicit:
            panel.weights[k] = terms.alpha * values[k]
            panel.targets[k] = 1 + terms.alpha * values[k] if values[k] > 0 else _ZERO
        else:
            panel.weights[k] = 1
            panel.targets[k] = values[k] - terms.mean
        if terms.biases:
            panel.targets[k] -= fixed[items[k], n_columns - 1]
            panel.z[k, n_columns - 1] = 1
    n = (len(items) + TOGETHER - 1) // TOGETHER * TOGETHER
    panel.z[len(items) : n] = 0
    panel.weights[len(items) : n] = 0
    panel.targets[len(items) : n] = 0
    return n


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def dot(one: NDArray[np.float32], other: NDArray[np.float32]) -> np.float32:
    """Inner product of two vectors."""
    total = _ZERO
    for f in range(np.uintp(len(one))):
        total += one[f] * other[f]
    return total


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _dots(z: NDArray[np.float32], p: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """z·p of `TOGETHER` rows."""
    a, b, c, d, e, g, h, i = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
    for f in range(np.uintp(len(p))):
        a += z[0, f] * p[f]
        b += z[1, f] * p[f]
        c += z[2, f] * p[f]
        d += z[3, f] * p[f]
        e += z[4, f] * p[f]
        g += z[5, f] * p[f]
        h += z[6, f] * p[f]
        i += z[7, f] * p[f]
    out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7] = a, b, c, d, e, g, h, i


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _add_scaled(z: NDArray[np.float32], s: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Add Σ s z over `TOGETHER` rows."""
    a, b, c, d, e, g, h, i = s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
    for f in range(np.uintp(len(out))):
        first = a * z[0, f] + b * z[1, f] + c * z[2, f] + d * z[3, f]
        out[f] += first + e * z[4, f] + g * z[5, f] + h * z[6, f] + i * z[7, f]


@njit(cache=True, nogil=True, error_model="numpy")
def _apply(
    items: NDArray[np.int32], values: NDArray[np.float32], terms: Terms, fixed: NDArray[np.float32], panel: Panel,
    p: NDArray[np.float32], out: NDArray[np.float32], right: NDArray[np.float32],
) -> None:  # fmt: skip
    """Add Σ w (z·p) z to `out` and Σ y z to `right` (nothing where it is empty)."""
    part, scaled = np.zeros((2, len(p)), np.float32), np.zeros(TOGETHER, np.float32)
    for first in range(0, len(items), PANEL):
        last = min(first + PANEL, len(items))
        n = _gather(items[first:last], values[first:last], terms, fixed, panel)
        part[:] = 0
        for k in range(0, n, TOGETHER):
            z = panel.z[k : k + TOGETHER]
            _dots(z, p, scaled)
            for x in range(TOGETHER):
                scaled[x] *= panel.weights[k + x]
            _add_scaled(z, scaled, part[0])
            if len(right):
                _add_scaled(z, panel.targets[k : k + TOGETHER], part[1])
        out += part[0]
        right += part[1][: len(right)]


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_by_cg(
    items: NDArray[np.int32], values: NDArray[np.float32], ridge: np.float32, gram: NDArray[np.float32],
    terms: Terms, fixed: NDArray[np.float32], panel: Panel, vectors: NDArray[np.float32], solved: NDArray[np.float32],
) -> None:  # fmt: skip
    """[000] Alg. 1 with line 5 as r ← r − α·a_p."""
    x, p, residual, applied, right = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]
    vectors[:] = 0
    x[: len(solved)] = solved
    _apply_fixed(gram, ridge, terms, x, applied)
    _apply(items, values, terms, fixed, panel, x, applied, right)
    residual[:] = right - applied
    p[:] = residual
    squares, goal = dot(residual, residual), terms.tolerance * terms.tolerance * dot(right, right)
    for _ in range(terms.n_steps):
        if squares <= goal < np.inf:  # what overflowed shall become NaN and be noticed
            break
        _apply_fixed(gram, ridge, terms, p, applied)
        _apply(items, values, terms, fixed, panel, p, applied, right[:0])
        curvature = dot(p, applied)
        if curvature <= 0:
            break
        step = squares / curvature
        x += step * p
        residual -= step * applied
        before, squares = squares, dot(residual, residual)
        p[:] = residual + squares / before * p
    solved[:] = x[: len(solved)]


@njit(cache=True, nogil=True, error_model="numpy")
def _apply_fixed(
    gram: NDArray[np.float32], ridge: np.float32, terms: Terms, p: NDArray[np.float32], out: NDArray[np.float32]
) -> None:
    """Set `out` to VᵀV p + ρ p."""
    out[:] = ridge * p
    if terms.is_implicit:
        for k in range(0, len(p), TOGETHER):
            _add_scaled(gram[k : k + TOGETHER], p[k : k + TOGETHER], out)


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_exactly(
    items: NDArray[np.int32], values: NDArray[np.float32], ridge: float, gram: NDArray[np.float32], terms: Terms,
    fixed: NDArray[np.float32], panel: Panel, solved: NDArray[np.float32],
) -> None:  # fmt: skip
    n = len(solved)
    matrix, right = gram[:n, :n].astype(np.float64), np.zeros(n)
    for a in range(n):
        matrix[a, a] += ridge
    for first in range(0, len(items), PANEL):
        last = min(first + PANEL, len(items))
        n_gathered = _gather(items[first:last], values[first:last], terms, fixed, panel)
        for k in range(0, n_gathered, BATCH):
            rows = panel.z[k : k + BATCH, :n].astype(np.float64)
            weights, targets = panel.weights[k : k + BATCH], panel.targets[k : k + BATCH]
            add_observations(matrix, right, rows, weights.astype(np.float64), targets.astype(np.float64))
    solve_symmetric(matrix, right)
    solved[:] = right
