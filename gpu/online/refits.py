"""`Refits`: solves single rows of a model while the other side stays fixed, by the algorithm of the model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import Backend
from gpu.data.model import Model
from gpu.data.param_kinds import descending
from gpu.data.rating_table import RatingTable
from gpu.online.drift import AsTrained, Column
from gpu.online.exact import ExactRefits, solver_of
from gpu.online.history_refits import HistoryRefits
from gpu.online.host.exact import Solver
from gpu.online.list_refits import ListRefits
from gpu.online.priors import Priors
from gpu.online.prolific import Prolific
from gpu.online.reading import ANONYMOUS, Reading
from gpu.online.sampled import SampledRefits


class Refits(Protocol):
    """Solves rows in place in a model, while the other side stays fixed.

    Work in slices is an iterator that yields between slices of a few milliseconds; with a single slice it yields
    nothing.

    Attributes:
        gram: see `gpu.online.exact`; None if explanations do not need it.
        most_users, most_items: largest number of rows in a slice.
    """

    gram: NDArray[np.float64] | None
    most_users: int
    most_items: int

    def prepare(self) -> Iterator[None]:
        """Compute the sums over the snapshot that refits need; must end before the first refit."""

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Grow to the size of the model, with the keys of all its rows."""

    def first_users(self, users: NDArray[np.int64]) -> int:
        """How many of `users` (B,), from the first on, fit into a slice: at least one, at most `most_users`."""

    def first_items(self, items: NDArray[np.int64]) -> int:
        """The same for `items` (B,), new or trained."""

    def refresh(self, items: NDArray[np.int64]) -> None:
        """Copy the parameters of `items` (B,), which have been refitted or restored, from the model."""

    def refit_users(self, users: NDArray[np.int64]) -> Iterator[None]:
        """Refit `users` (B,) over their present ratings of trained items."""

    def refit_items(self, items: NDArray[np.int64]) -> Iterator[None]:
        """Refit new `items` (B,) over their present raters."""

    def fold_in(
        self, items: NDArray[np.int32], values: NDArray[np.float32], reading: Reading = ANONYMOUS
    ) -> tuple[NDArray[np.float64], float]:
        """([u; b] (F + 1,), b̄_i) of a user with these ratings, items ascending."""

    def refit_trained(self, columns: Sequence[Column]) -> Iterator[None]:
        """Refit trained items over these ratings, against the users of the snapshot."""

    def readers_of(self, users: NDArray[np.int64]) -> Collection[int]:
        """New items whose refits read the parameters of `users` (B,), except the items that these users have rated."""

    def forget(self, user: int) -> Collection[int]:
        """Stop reading a user, whose parameters are still in the model; returns new items whose refits read them."""


def refits_of(
    model: Model,
    table: RatingTable,
    as_trained: AsTrained,
    prolific: Prolific,
    user_keys: NDArray[np.uint64],
    item_keys: NDArray[np.uint64],
    backend: Backend,
    solver: Solver | None = None,
    priors: Priors | None = None,
    late_items: set[int] | None = None,
) -> Refits:
    """The refits of `model`.

    Args:
        solver: of `model`, from `gpu.online.exact.solver_of`. Default: built now, if the model needs one.
        priors: of new items; only exact refits read them. Default: 0.
        late_items: where refits of lists put the items that they make stale.
    """
    solver = solver or solver_of(model, backend)
    if solver is not None:
        return ExactRefits(model, table, as_trained, prolific, solver, priors)
    if model.params.refits == "lists":
        return ListRefits(model, table, item_keys, set() if late_items is None else late_items)
    if model.params.refits == "none":
        return HistoryRefits(model, table)
    return SampledRefits(model, descending(model.params), table, as_trained, prolific, user_keys, item_keys)
