"""`Refits`: how single rows of a model are solved while the other side stands still, by what trained the model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.backend import Backend
from gpu.drift import AsTrained, Column
from gpu.exact import ExactRefits
from gpu.model import Model
from gpu.params import AlsImplicitParams, AlsParams, GradientParams, NmfParams
from gpu.prolific import Prolific
from gpu.sampled import SampledRefits
from gpu.table import RatingTable
from gpu.weighted import HistoryRefits


class Refits(Protocol):
    """How rows are solved, in place in a model, while the other side stands still.

    What works in slices is an iterator that does one of a few milliseconds a step and, where there is but one, none.

    Attributes:
        gram: see `gpu.exact`; None where explanations need no such thing.
    """

    gram: NDArray[np.float64] | None

    def prepare(self) -> Iterator[None]:
        """Sums over the snapshot that refits need; must end before the first refit."""

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Follow the growth of the model and take the keys of all rows."""

    def refit_users(self, users: NDArray[np.int64]) -> Iterator[None]:
        """Refit `users` (B,) over their present ratings of trained items."""

    def refit_items(self, items: NDArray[np.int64]) -> Iterator[None]:
        """Refit new `items` (B,) over their present raters."""

    def fold_in(self, items: NDArray[np.int32], values: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
        """([u; b] (F + 1,), b̄_i) of somebody with these ratings, items ascending."""

    def refit_trained(self, columns: Sequence[Column]) -> Iterator[None]:
        """Refit trained items over these ratings, beside users as the snapshot has them."""

    def readers_of(self, user: int) -> Collection[int]:
        """New items whose refits read the parameters of `user`, beside those that the user has rated."""

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
) -> Refits:
    """How rows of `model` are solved."""
    if isinstance(model.params, AlsParams | AlsImplicitParams | NmfParams):
        return ExactRefits(model, model.params, table, as_trained, prolific, backend)
    if model.params.has_item_weights:
        return HistoryRefits(model, table)
    assert isinstance(model.params, GradientParams)  # noqa: S101 - the last of `ALGORITHMS`; this narrows the type
    return SampledRefits(model, model.params, table, as_trained, prolific, user_keys, item_keys, backend)
