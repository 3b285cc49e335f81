"""Rows of ALS and NMF models to solve, and in what parts; see `gpu.online.exact`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

Solved = Generator[None, None, NDArray[np.float64]]  # works in slices of some milliseconds
Read = Callable[[NDArray[np.int32]], tuple[NDArray[np.float32], NDArray[np.float32]]]
NO_PRIORS = np.zeros((0, 0))


class RatedRows(NamedTuple):
    """B rows to solve, which have N ratings together.

    Attributes:
        others: int32 (N,), rows of the other side.
        values: float32 (N,), the values that the model learns (`gpu.data.refit_rules.learned_values`).
        bounds: int64 (B + 1,), row b has the ratings `bounds[b]` to `bounds[b + 1]`.
        ridges: float64 (B,), ρ.
        priors: float64 (B, F + 1), [p; b]: the ridge draws each row toward its prior. No rows: toward 0.
    """

    others: NDArray[np.int32]
    values: NDArray[np.float32]
    bounds: NDArray[np.int64]
    ridges: NDArray[np.float64]
    priors: Annotated[NDArray[np.float64], 2] = NO_PRIORS

    @property
    def counts(self) -> NDArray[np.int64]:
        """Ratings of each row, int64 (B,)."""
        return np.diff(self.bounds)

    def part(self, first: int, last: int) -> RatedRows:
        """Rows `first` to `last` (excluded)."""
        ratings = slice(self.bounds[first], self.bounds[last])
        bounds = self.bounds[first : last + 1] - self.bounds[first]
        ridges, priors = self.ridges[first:last], self.priors[first:last]
        return RatedRows(self.others[ratings], self.values[ratings], bounds, ridges, priors)

    def piece(self, first: int, last: int) -> RatedRows:
        """Ratings `first` to `last` (excluded) of the only row."""
        bounds = np.array([0, last - first])
        return RatedRows(self.others[first:last], self.values[first:last], bounds, self.ridges, self.priors)


class Sums(NamedTuple):
    """Sums over the trained rows of the fixed side, from the snapshot.

    Attributes:
        gram: float64 (F, F), the upper triangle of VᵀV; zeros for explicit models.
        usual: float64 (F,), the starting vector of implicit models for a row that has only dislikes; zeros for none.
    """

    gram: NDArray[np.float64]
    usual: NDArray[np.float64]


def parts_of(costs: NDArray[np.integer], most: int) -> Iterator[tuple[int, int]]:
    """(first, last) of consecutive rows whose `costs` (B,) sum to at most `most`; a row that costs more is alone."""
    first = 0
    while first < len(costs):
        last = first + n_fitting(costs[first:], most)
        yield first, last
        first = last


def n_fitting(costs: NDArray[np.integer], most: int) -> int:
    """How many of `costs` (B,), from the first on, sum to at most `most`; at least one."""
    return max(int(np.searchsorted(np.cumsum(costs), most, side="right")), 1)
