"""Bytes and FLOP of a half-iteration of ALS, and the least time of an H100 for them.

Only useful work counts: no padding of F, one half of the symmetric A, and no repeated reads except of gathered rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpu.ratings import Rows
from gpu.training.als import AlsObjective, width

Limit = Literal["memory", "arithmetic"]

BYTES_OF_A_RATING = 8  # a column (int32) and a value (float32)
HALVES_OF_A_CHUNK = 8  # rows of the FP16 table are whole 16-byte chunks
HALVES_OF_A_BIAS = 3  # a one, and a bias in two FP16 numbers


@dataclass(frozen=True)
class Ceilings:
    """Highest measured rates of a GPU.

    Attributes:
        cached: bytes per second of rows gathered from tables of up to `cached_bytes`, which stay in L2.
        gathered: bytes per second of rows gathered from larger tables.
        float16, float32: FLOP per second of matrix products with sums in float32.
    """

    cached: float
    cached_bytes: float
    gathered: float
    float16: float
    float32: float


# Measured on one H100 80GB HBM3: 256-byte rows at random out of 17,770 and of 480,189, and square matrix products.
H100 = Ceilings(cached=6.2e12, cached_bytes=25e6, gathered=3.5e12, float16=738e12, float32=50.8e12)


@dataclass(frozen=True)
class Work:
    """Cost of one half-iteration: `bytes` and `flop`; `table_bytes` is the size of the gathered table."""

    bytes: int
    flop: int
    table_bytes: int
    precision: str

    def floor_ms(self, ceilings: Ceilings) -> tuple[float, Limit]:
        """(milliseconds, limit): the longer of the times to move the data and to compute, and which one it is."""
        gather = ceilings.cached if self.table_bytes <= ceilings.cached_bytes else ceilings.gathered
        arithmetic = ceilings.float16 if self.precision == "float16" else ceilings.float32
        memory_ms, arithmetic_ms = self.bytes / gather * 1e3, self.flop / arithmetic * 1e3
        return (memory_ms, "memory") if memory_ms >= arithmetic_ms else (arithmetic_ms, "arithmetic")


def work_of(rows: Rows, n_columns: int, problem: AlsObjective) -> Work:
    """The work of solving `rows` against a table of `n_columns` rows.

    Bytes: each rating and its gathered row; the solved table is read and written once. FLOP: F (F + 1) for each rating
    (half of z zᵀ, a product and a sum), and 2 F² for each step of each row with ratings. An implicit objective adds
    F (F + 1) for each row of the other table.
    """
    n_ratings, n_solved, size = int(rows.lengths.sum()), int(np.count_nonzero(rows.lengths)), width(problem)
    bytes_per_row = row_bytes(problem)
    moved = n_ratings * (bytes_per_row + BYTES_OF_A_RATING) + 2 * len(rows.lengths) * size * 4
    flop = n_ratings * size * (size + 1) + n_solved * _solve_flop(size, problem)
    if problem.is_implicit:
        flop += n_columns * size * (size + 1)
    return Work(moved, flop, n_columns * bytes_per_row, problem.precision)


def row_bytes(problem: AlsObjective) -> int:
    """Bytes of one row of the gathered table."""
    if problem.precision == "float32":
        return width(problem) * 4
    columns = problem.n_factors + HALVES_OF_A_BIAS * problem.biases
    return math.ceil(columns / HALVES_OF_A_CHUNK) * HALVES_OF_A_CHUNK * 2


def _solve_flop(size: int, problem: AlsObjective) -> int:
    return size**3 // 3 if problem.solver == "cholesky" else problem.n_cg_steps * 2 * size**2
