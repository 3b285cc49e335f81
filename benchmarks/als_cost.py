"""Bytes and FLOP of a half-iteration of ALS, and the least time of an H100 for them.

Only useful work counts: no padding of F, one half of the symmetric A, and no repeated reads except of gathered rows.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from gpu.ratings import Rows
from gpu.training.als import AlsObjective, width

BYTES_OF_A_RATING = 8  # a column (int32) and a value (float32)
HALVES_OF_A_CHUNK = 8  # rows of the FP16 table are whole 16-byte chunks
HALVES_OF_A_BIAS = 3  # a one, and a bias in two FP16 numbers
# Measured on one H100 80GB HBM3: 256-byte rows at random out of 17,770 and of 480,189, and square matrix products.
CACHED, CACHED_BYTES = 6.2e12, 25e6  # bytes per second of rows gathered from tables of so many bytes, which stay in L2
GATHERED = 3.5e12  # the same from larger tables
FLOPS = {"float16": 738e12, "float32": 50.8e12}  # of matrix products with sums in float32


class Work(NamedTuple):
    """Cost of one half-iteration: `bytes` and `flop`; `table_bytes` is the size of the gathered table."""

    bytes: int
    flop: int
    table_bytes: int
    precision: str

    def floor_ms(self) -> tuple[float, Literal["memory", "arithmetic"]]:
        """(milliseconds, limit): the longer of the times to move the data and to compute, and which one it is."""
        memory_ms = self.bytes / (CACHED if self.table_bytes <= CACHED_BYTES else GATHERED) * 1e3
        arithmetic_ms = self.flop / FLOPS["float16" if self.precision == "float16" else "float32"] * 1e3
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
    to_solve = size**3 // 3 if problem.solver == "cholesky" else problem.n_cg_steps * 2 * size**2
    flop = (n_ratings + n_columns * problem.is_implicit) * size * (size + 1) + n_solved * to_solve
    return Work(moved, flop, n_columns * bytes_per_row, problem.precision)


def row_bytes(problem: AlsObjective) -> int:
    """Bytes of one row of the gathered table."""
    if problem.precision == "float32":
        return width(problem) * 4
    columns = problem.n_factors + HALVES_OF_A_BIAS * problem.biases
    return math.ceil(columns / HALVES_OF_A_CHUNK) * HALVES_OF_A_CHUNK * 2
