"""What a half-iteration of ALS has to move and to compute, and how long an H100 needs for it at its ceilings.

Counted is the useful work alone: no padding of F, nothing read twice but the gathered rows, half of the symmetric A.
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
    """What a card reaches at most: bytes a second of gathered rows, FLOP a second of matrix products.

    Attributes:
        cached: from tables of up to `cached_bytes`, which stay in L2.
        gathered: from longer ones.
        float16, float32: matrix products, with sums in float32.
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
        """Milliseconds that the slower of moving and computing takes, and which of the two it is."""
        gather = ceilings.cached if self.table_bytes <= ceilings.cached_bytes else ceilings.gathered
        arithmetic = ceilings.float16 if self.precision == "float16" else ceilings.float32
        memory_ms, arithmetic_ms = self.bytes / gather * 1e3, self.flop / arithmetic * 1e3
        return (memory_ms, "memory") if memory_ms >= arithmetic_ms else (arithmetic_ms, "arithmetic")


def work_of(rows: Rows, n_columns: int, problem: AlsObjective) -> Work:
    """The work of solving `rows` against a table of `n_columns` rows.

    Bytes: for each rating itself and a gathered row; the solved table read and written once. FLOP: F (F + 1) for each
    rating (half of z zᵀ, a product and a sum), 2 F² for each step and row with ratings; where the objective is
    implicit, F (F + 1) for each row of the other table as well.
    """
    n_ratings, n_solved, size = int(rows.lengths.sum()), int(np.count_nonzero(rows.lengths)), width(problem)
    in_row = row_bytes(problem)
    moved = n_ratings * (in_row + BYTES_OF_A_RATING) + 2 * len(rows.lengths) * size * 4
    flop = n_ratings * size * (size + 1) + n_solved * _solve_flop(size, problem)
    if problem.is_implicit:
        flop += n_columns * size * (size + 1)
    return Work(moved, flop, n_columns * in_row, problem.precision)


def row_bytes(problem: AlsObjective) -> int:
    """Bytes of one row of the table that is gathered from."""
    if problem.precision == "float32":
        return width(problem) * 4
    columns = problem.n_factors + HALVES_OF_A_BIAS * problem.biases
    return math.ceil(columns / HALVES_OF_A_CHUNK) * HALVES_OF_A_CHUNK * 2


def _solve_flop(size: int, problem: AlsObjective) -> int:
    return size**3 // 3 if problem.solver == "cholesky" else problem.n_cg_steps * 2 * size**2
