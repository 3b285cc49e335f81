"""The objective of ALS, and the sizes that follow from it: what trainer, host and device agree on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.data.baselines import mean_of
from gpu.data.ratings import Ratings
from gpu.data.refit_rules import ridges
from gpu.data.signals import Calibration

STRONG = 2.0  # factor of λ in all epochs but the last, in explicit problems; chosen on held-out parts of four sets
RATING_BYTES = 8  # column and value
ROW_COST = 16  # ratings; what a row costs beside its ratings
WHOLE, BLOCK = 256, 64  # factors; up to the first, rows are solved whole, beyond it in blocks of the second


class AlsObjective(NamedTuple):
    """Objective and solver of both half-iterations; the same for both sides.

    Attributes:
        n_factors: F.
        biases: whether the last column of a table is the row's bias; the table is then F + 1 wide.
        is_implicit, alpha: see the module; α is 0 for explicit problems.
        mean: μ, subtracted from ratings; 0 without biases.
        regularization: λ.
        exponent: ν; 1 for explicit problems.
        prior: λ0, the same for every row with ratings.
        n_cg_steps, cg_tolerance, solver, precision: as in `AlsParams`.
    """

    n_factors: int
    biases: bool
    is_implicit: bool
    alpha: float
    mean: float
    regularization: float
    exponent: float
    prior: float
    n_cg_steps: int
    cg_tolerance: float
    solver: str
    precision: str

    def ridges(self, lengths: NDArray[np.int64], n_others: int) -> NDArray[np.float64]:
        """ρ of rows with `lengths` (B,) ratings, if `n_others` rows of the other side have ratings."""
        return ridges(lengths, n_others, self.alpha, self.regularization, self.exponent, self.prior)


class Extent(NamedTuple):
    """The rows of one side, and those that a rank solves.

    Attributes:
        n_rows: of the side.
        lengths: int64 (n,), ratings of each row that the rank solves.
        is_shared: whether the rank has what solving the other side reads of all rows, or of its own alone.
        in_waves: whether what solving the other side reads lies in host memory, not of a shared side.
    """

    n_rows: int
    lengths: NDArray[np.int64]
    is_shared: bool
    in_waves: bool = False


def problem_of(ratings: Ratings, params: AlsParams | AlsImplicitParams, calibration: Calibration) -> AlsObjective:
    """The objective of a training with `params` on `ratings`."""
    is_implicit = isinstance(params, AlsImplicitParams)
    ridge = calibration.regularization if isinstance(params, AlsImplicitParams) else params.regularization
    biases = not is_implicit and params.biases
    return AlsObjective(
        n_factors=params.width,
        biases=biases,
        is_implicit=is_implicit,
        alpha=calibration.alpha if is_implicit else 0.0,
        mean=mean_of(ratings) if biases else 0.0,
        regularization=ridge,
        exponent=params.regularization_exponent if is_implicit else 1.0,
        prior=calibration.prior,
        n_cg_steps=params.n_cg_steps,
        cg_tolerance=params.cg_tolerance,
        solver=params.solver,
        precision=params.precision,
    )


def strong(problem: AlsObjective) -> AlsObjective:
    """The objective of all epochs but the last."""
    return problem if problem.is_implicit else problem._replace(regularization=STRONG * problem.regularization)


def is_blocked(problem: AlsObjective) -> bool:
    """Whether rows are improved block by block rather than solved as a whole."""
    return problem.solver == "cg" and problem.n_factors > WHOLE


def block_problem(problem: AlsObjective) -> AlsObjective:
    """The objective of one block of factors: no biases, and targets that are residuals."""
    return problem._replace(n_factors=BLOCK, biases=False, mean=0.0)


def n_blocks(problem: AlsObjective) -> int:
    """Blocks of factors; the last one may be shorter."""
    return -(-problem.n_factors // BLOCK)


def width(problem: AlsObjective) -> int:
    """Columns of a table: F, or F + 1 with biases."""
    return problem.n_factors + problem.biases
