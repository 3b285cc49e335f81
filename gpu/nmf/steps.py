"""An epoch of NMF: the two steps of FAST-HALS as in [002], or exact ones with extrapolation (Ang & Gillis 2019).

Both alternate a W step and an H step, and report the relative error of the factors that result. One H step comes before
the first epoch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gpu.base.backend import Backend
from gpu.nmf import host as hals
from gpu.nmf.host_blocks import Floats
from gpu.nmf.params import EPSILON
from gpu.ranks.exchange import Exchange
from gpu.training.loop import State

GROWTH, LIMIT_GROWTH, SHRINKAGE = 1.05, 1.01, 1.5  # γ, γ̄ and η of Ang & Gillis 2019, section 3.2
FIRST_SHARE = 0.5  # β of their first epoch
LEAST_SHARE = 0.01  # with a smaller β an epoch is a plain one
FARTHEST = 1e8  # between the lengths of two columns that belong together
LEAST_SIZE = 1e-6  # of the largest product of two such lengths; smaller ones stand for 0


class Problem(NamedTuple):
    """A matrix and both factors on a backend, as `gpu.nmf.host` and its twin load them.

    Attributes:
        rows: the side of W.
        columns: the side of Hᵀ.
        squares: Σ A².
        tile: T, or 0 for a sweep without tiles.
        exchange: all ranks take the error of rank 0.
    """

    backend: Backend
    matrix: hals.Matrix
    rows: hals.Side
    columns: hals.Side
    squares: float
    tile: int
    exchange: Exchange


class Steps:
    """The steps of [002] Alg. 1 and 2: the columns of W have length 1.

    Attributes:
        error: relative error of W and H.
        gain: what the last epoch took off the error; NaN before the first, and after one that was taken back.
        is_exact: whether a step minimizes each column exactly, whatever the length of the fixed ones.
    """

    is_exact = False

    def __init__(self, problem: Problem) -> None:
        """Take both factors as they are."""
        self._problem, self._twin = problem, problem.backend.twin
        self._rows, self._columns = problem.rows, problem.columns
        self._gram_of_W = self._gram_of_H = np.zeros((0, 0))
        self.error, self.gain = math.nan, math.nan

    def begin(self) -> None:
        """Do the H step before the first epoch."""
        self.error = self._solve_columns()

    def epoch(self) -> None:
        """Do a W step and an H step."""
        self._solve_rows(self._gram_of_H)
        error = self._solve_columns()
        self.gain, self.error = self.error - error, error

    def factors(self) -> tuple[Floats, Floats]:
        """W (V, K), columns of length 1, and Hᵀ (D, K), on the host."""
        return self._twin(hals.fetch)(self._rows), self._twin(hals.fetch)(self._columns)

    def state(self) -> State:
        """All that the next epoch depends on, on the host."""
        W, H = self._twin(hals.fetch)(self._rows), self._twin(hals.fetch)(self._columns)
        return {"W": W, "H": H, "errors": np.array([self.error, self.gain])}

    def restore(self, state: State) -> None:
        """Continue from what `state` returned."""
        self._twin(hals.restore)(self._rows, state["W"])
        self._twin(hals.restore)(self._columns, state["H"])
        self._gram_of_H = self._twin(hals.gram)(self._columns)
        self.error, self.gain = state["errors"].tolist()

    def _solve_rows(self, gram_of_H: Floats) -> None:
        self._solve(self._rows, self._columns, gram_of_H, is_W=True)

    def _solve_columns(self) -> float:
        """Do an H step; the relative error after it, from its products. Waits for the device."""
        self._gram_of_W = self._twin(hals.gram)(self._rows)
        self._solve(self._columns, self._rows, self._gram_of_W, is_W=False)
        self._gram_of_H = self._twin(hals.gram)(self._columns)
        problem, inner = self._problem, self._twin(hals.inner)(self._columns)
        products = self._twin(hals.sum_of_products)(self._gram_of_W, self._gram_of_H)
        squares = problem.squares - 2 * inner + products
        error = float(np.sqrt(max(squares, 0.0) / problem.squares))
        (error,) = problem.exchange.totals(0.0 if problem.exchange.rank else error)  # all ranks take that of rank 0
        self._twin(hals.finish)()
        return error

    def _solve(self, solved: hals.Side, fixed: hals.Side, gram: Floats, *, is_W: bool) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # `Trainer.is_finite` finds an overflow in the error
            self._twin(hals.multiply)(self._problem.matrix, is_W, fixed, solved)
            if self.is_exact:
                self._twin(hals.sweep_exactly)(solved, gram, tile=self._problem.tile)
            else:
                self._twin(hals.sweep)(solved, gram, tile=self._problem.tile, normalize=is_W)


class ExtrapolatedSteps(Steps):
    """Exact steps from points ahead of the last ones (Ang & Gillis 2019, Algorithm 3 without its projection of H).

    A step minimizes each column exactly, while [002] takes H's columns as if those of W still had the length 1. After a
    step, a factor X moves on by β (X − last X), and the other factor is solved there. If the error rises, the epoch is
    taken back, β shrinks, and the next epoch starts without a move. So the error never rises.
    """

    is_exact = True

    def __init__(self, problem: Problem) -> None:
        """Take both factors as they are."""
        super().__init__(problem)
        self._share, self._limit = FIRST_SHARE, 1.0
        self._last_W, self._best_W = (self._twin(hals.copy_of)(self._rows) for _ in range(2))
        self._best_H = self._twin(hals.copy_of)(self._columns)

    def begin(self) -> None:
        """Do the H step before the first epoch."""
        super().begin()
        self._twin(hals.keep)(self._columns, self._best_H)

    def epoch(self) -> None:
        """Do a W step and an H step from where the last epoch moved to, and keep or take back the result."""
        self._solve_rows(self._twin(hals.gram)(self._columns))
        self._twin(hals.extrapolate)(self._rows, self._last_W, self._share)
        error = self._solve_columns()
        if error > self.error:
            # Return to the best factors. The epoch says nothing about convergence unless it was a plain one.
            self.gain = 0.0 if self._share < LEAST_SHARE else math.nan
            self._limit, self._share = self._share, self._share / SHRINKAGE
            self._twin(hals.put)(self._best_W, self._rows)
            self._twin(hals.put)(self._best_H, self._columns)
            self._twin(hals.keep)(self._rows, self._last_W)
        else:  # also one that is not a number, so that training ends
            self.gain, self.error = self.error - error, error
            self._twin(hals.keep)(self._rows, self._best_W)
            self._twin(hals.extrapolate)(self._columns, self._best_H, self._share)
            self._share = min(self._limit, GROWTH * self._share)
            self._limit = min(1.0, LIMIT_GROWTH * self._limit)
            self._balance()

    def factors(self) -> tuple[Floats, Floats]:
        """W (V, K), columns of length 1, and Hᵀ (D, K), on the host."""
        W, H = self._twin(hals.fetch)(self._rows), self._twin(hals.fetch_copy)(self._columns, self._best_H)
        norms = np.linalg.norm(W, axis=0)
        return np.maximum(W / norms, EPSILON), np.maximum(H * norms, EPSILON)

    def state(self) -> State:
        """All that the next epoch depends on, on the host."""
        last_W = self._twin(hals.fetch_copy)(self._rows, self._last_W)
        best_H = self._twin(hals.fetch_copy)(self._columns, self._best_H)
        return {**super().state(), "last_W": last_W, "best_H": best_H, "shares": np.array([self._share, self._limit])}

    def restore(self, state: State) -> None:
        """Continue from what `state` returned."""
        for side, name, copy in ((self._rows, "last_W", self._last_W), (self._columns, "best_H", self._best_H)):
            self._twin(hals.restore)(side, state[name])
            self._twin(hals.keep)(side, copy)
        super().restore(state)
        self._twin(hals.keep)(self._rows, self._best_W)  # W is the best one at the end of every epoch
        self._share, self._limit = state["shares"].tolist()

    def _balance(self) -> None:
        """Make columns of W and H equally long if one is so short that its entries are close to ε.

        A column whose entries are all ε says nothing about them. The next step gives the other one its length.
        """
        if not math.isfinite(self.error):
            return
        lengths = self._twin(hals.lengths)(self._gram_of_W), self._twin(hals.lengths)(self._gram_of_H)
        sizes, ratios = lengths[0] * lengths[1], lengths[1] / lengths[0]
        is_far = (np.maximum(ratios, 1 / ratios) > FARTHEST) & (sizes > LEAST_SIZE * sizes.max())
        if not is_far.any():
            return
        state, scales = dict(self.state()), np.where(is_far, np.sqrt(ratios), 1)
        for names, factors in ((("W", "last_W"), scales), (("H", "best_H"), 1 / scales)):
            for name in names:
                table = state[name]
                state[name] = np.maximum(table * factors, EPSILON).astype(table.dtype)
        self.restore(state)


STEPS: dict[str, type[Steps]] = {"extrapolated": ExtrapolatedSteps, "tiled": Steps, "plain": Steps}
