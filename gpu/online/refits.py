"""`Refits`: how single rows of a model are solved while the other side stands still, by what trained the model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.backend import Backend
from gpu.model import Model
from gpu.online.drift import AsTrained, Column
from gpu.online.exact import ExactRefits, solver_of
from gpu.online.exact_rows import Solver
from gpu.online.history_refits import HistoryRefits
from gpu.online.prolific import Prolific
from gpu.online.rating_table import RatingTable
from gpu.online.sampled import SampledRefits
from gpu.param_kinds import descending


class Refits(Protocol):
    """How rows are solved, in place in a model, while the other side stands still.

    What works in slices is an iterator that does one of a few milliseconds a step and, where there is but one, none.

    Attributes:
        gram: see `gpu.online.exact`; None where explanations need no such thing.
        most_users, most_items: rows that a slice takes at most.
    """

    gram: NDArray[np.float64] | None
    most_users: int
    most_items: int

    def prepare(self) -> Iterator[None]:
        """Sums over the snapshot that refits need; must end before the first refit."""

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Follow the growth of the model and take the keys of all rows."""

    def first_users(self, users: NDArray[np.int64]) -> int:
        """How many of `users` (B,), `most_users` at most, a slice takes: the first ones, one at least."""

    def first_items(self, items: NDArray[np.int64]) -> int:
        """How many of `items` (B,), new or trained, a slice takes."""

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Take over the model's parameters of `items` (B,), which have been refitted or given back."""

    def refit_users(self, users: NDArray[np.int64]) -> Iterator[None]:
        """Refit `users` (B,) over their present ratings of trained items."""

    def refit_items(self, items: NDArray[np.int64]) -> Iterator[None]:
        """Refit new `items` (B,) over their present raters."""

    def fold_in(self, items: NDArray[np.int32], values: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
        """([u; b] (F + 1,), b̄_i) of somebody with these ratings, items ascending."""

    def refit_trained(self, columns: Sequence[Column]) -> Iterator[None]:
        """Refit trained items over these ratings, beside users as the snapshot has them."""

    def readers_of(self, users: NDArray[np.int64]) -> Collection[int]:
        """New items whose refits read the parameters of `users` (B,), beside those that these have rated."""

    def forget(self, user: int) -> Collection[int]:
        """Read the user, whose parameters are still there, no more; new items whose refits did."""


def refits_of(
    model: Model,
    table: RatingTable,
    as_trained: AsTrained,
    prolific: Prolific,
    user_keys: NDArray[np.uint64],
    item_keys: NDArray[np.uint64],
    backend: Backend,
    solver: Solver | None = None,
) -> Refits:
    """How rows of `model` are solved.

    Args:
        solver: of `model`, from `gpu.online.exact.solver_of`. Default: placed now, where the model needs one.
    """
    solver = solver or solver_of(model, backend)
    if solver is not None:
        return ExactRefits(model, table, as_trained, prolific, solver)
    if model.params.has_item_weights:
        return HistoryRefits(model, table)
    return SampledRefits(model, descending(model.params), table, as_trained, prolific, user_keys, item_keys, backend)
