"""What host and device share: the error where EASE has no solution, and an inverse in place for the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu.base.errors import TrainingDiverged

PIVOT = 1024  # rows of a step of `sweep`


def no_inverse() -> TrainingDiverged:
    """The error for a singular XᵀX + λ I: λ is too small for the backend's precision."""
    return TrainingDiverged("Training of ease diverged: expected XᵀX + λ to have an inverse; raise regularization")


def sweep(matrix: Any, inverse_of: Callable[[Any], Any], n_rows: int) -> None:
    """Replace a symmetric positive definite matrix (T, T) by −1 times its inverse, in place (Beaton's sweep operator).

    A step takes the rows k of a pivot: A_kk becomes −A_kk⁻¹, A_ik becomes A_ik A_kk⁻¹, and A_ij loses A_ik A_kk⁻¹ A_kj.
    All steps take 2 T³ multiply-adds in products of matrices, and the memory of two panels and of `n_rows` rows.

    Args:
        matrix: of NumPy or CuPy.
        inverse_of: the inverse of a pivot; raises an error if that is not positive definite.
        n_rows: rows that are updated at a time.
    """
    for first in range(0, len(matrix), PIVOT):
        own = slice(first, first + PIVOT)
        inverse = inverse_of(matrix[own, own])
        column = matrix[own].T.copy()
        scaled = column @ inverse
        column[own] = 0
        for begin in range(0, len(matrix), n_rows):
            rows = slice(begin, begin + n_rows)
            matrix[rows] -= scaled[rows] @ column.T
        matrix[:, own], matrix[own] = scaled, scaled.T
        matrix[own, own] = -inverse
