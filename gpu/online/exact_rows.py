"""What solves rows of ALS and NMF models on a backend, and what it is given; see `gpu.online.exact`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Solved = Generator[None, None, NDArray[np.float64]]  # works in slices of some milliseconds
Read = Callable[[NDArray[np.int32]], tuple[NDArray[np.float32], NDArray[np.float32]]]


class RatedRows(NamedTuple):
    """B rows that are to be solved, from N ratings in all.

    Attributes:
        others: int32 (N,), rows of the other side.
        values: float32 (N,), what the model learns of the ratings (`gpu.refit_rules.learned_values`).
        bounds: int64 (B + 1,), row b has the ratings `bounds[b]` to `bounds[b + 1]`.
        ridges: float64 (B,), ρ.
    """

    others: NDArray[np.int32]
    values: NDArray[np.float32]
    bounds: NDArray[np.int64]
    ridges: NDArray[np.float64]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Ratings of each row, int64 (B,)."""
        return np.diff(self.bounds)

    def part(self, first: int, last: int) -> RatedRows:
        """Rows `first` to `last` (excluded)."""
        ratings = slice(self.bounds[first], self.bounds[last])
        bounds = self.bounds[first : last + 1] - self.bounds[first]
        return RatedRows(self.others[ratings], self.values[ratings], bounds, self.ridges[first:last])

    def piece(self, first: int, last: int) -> RatedRows:
        """Ratings `first` to `last` (excluded) of the only row."""
        bounds = np.array([0, last - first])
        return RatedRows(self.others[first:last], self.values[first:last], bounds, self.ridges)


class Sums(NamedTuple):
    """Sums over the trained rows of a side that stands still, as the snapshot has it.

    Attributes:
        gram: float64 (F, F), the upper triangle of VᵀV; zeros for explicit models.
        usual: float64 (F,), where implicit models keep a row that has dislikes alone; zeros for no such place.
    """

    gram: NDArray[np.float64]
    usual: NDArray[np.float64]


class Solver(Protocol):
    """Solves rows of one model on one backend.

    Attributes:
        most_users, most_items: rows that a slice takes at most.
    """

    most_users: int
    most_items: int

    def take_sums(self, of_items: Sums, of_users: Sums) -> None:
        """Take over these sums; before the first row, and whenever they have changed."""

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Take over the model's parameters of `items` (B,), which have changed."""

    def n_users(self, counts: NDArray[np.int64]) -> int:
        """How many of the first users fit into a slice, at least one.

        Args:
            counts: ratings of each user, (B,).
        """

    def n_items(self, counts: NDArray[np.int64]) -> int:
        """The same for items."""

    def users(self, rows: RatedRows) -> Solved:
        """[u; b] (B, F + 1) of users beside the trained items of the model; zeros for rows without ratings."""

    def items(self, rows: RatedRows, read: Read) -> Solved:
        """[v; b] of items beside the users that `read` gives: (factors (n, F), biases (n,)) of n of `rows.others`.

        What is read of a user is the same in every slice.
        """


def parts_of(costs: NDArray[np.integer], most: int) -> Iterator[tuple[int, int]]:
    """(first, last) of consecutive rows whose `costs` (B,) come to at most `most`; a row that costs more is alone."""
    first = 0
    while first < len(costs):
        last = first + n_fitting(costs[first:], most)
        yield first, last
        first = last


def n_fitting(costs: NDArray[np.integer], most: int) -> int:
    """How many of `costs` (B,), from the first on, add up to at most `most`; one at least."""
    return max(int(np.searchsorted(np.cumsum(costs), most, side="right")), 1)
