"""What the training and prediction primitives of every backend read and write, as plain tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.model import Model


class Arrays(NamedTuple):
    """The arrays of a model that eq. 1 of [004] reads and eq. 5 writes; views, not copies.

    For implicit models a rating from `middle` on is a like and counts as 1, one below it a dislike and counts as −1.
    For others one below `low` or above `high` counts as that (`Model.learned_scale`).
    """

    mean: np.float32
    middle: np.float32
    low: np.float32
    high: np.float32
    is_implicit: bool
    user_factors: NDArray[np.float32]
    item_factors: NDArray[np.float32]
    user_bias: NDArray[np.float32]
    item_bias: NDArray[np.float32]
    user_baseline: NDArray[np.float32]
    item_baseline: NDArray[np.float32]
    neighbors: NDArray[np.uint32]
    explicit_weights: NDArray[np.float32]
    implicit_weights: NDArray[np.float32]
    item_slots: NDArray[np.int32]
    item_weights: NDArray[np.float32]


class Samples(NamedTuple):
    """One epoch's targets: those of user i in item group g are `items[cuts[i, g] : cuts[i, g + 1]]`.

    Attributes:
        items (S,), targets (S,): int32 item rows and float32 values to learn, grouped by user, then by item group.
        cuts (U, D + 1): int64.
    """

    items: NDArray[np.int32]
    targets: NDArray[np.float32]
    cuts: NDArray[np.int64]


class Rates(NamedTuple):
    """Step lengths γ and regularization λ of one epoch (eq. 5)."""

    step: np.float32
    weight_step: np.float32
    regularization: np.float32
    bias_regularization: np.float32
    weight_regularization: np.float32

    @classmethod
    def none(cls) -> Rates:
        """Rates that move nothing."""
        return cls(*[np.float32(0)] * 5)


class Shares(NamedTuple):
    """Shares of the parameters that the constant part λ0 of their ridges λ n + λ0 takes off in an epoch."""

    factors: float
    biases: float
    weights: float


def arrays_of(model: Model) -> Arrays:
    """The view of `model` that primitives take.

    Neighbors become unsigned, so that `NO_NEIGHBOR` is larger than any row and an index needs no sign check.
    """
    low, high = model.learned_scale
    return Arrays(
        np.float32(model.mean),
        np.float32(model.middle),
        np.float32(low),
        np.float32(high),
        model.is_implicit,
        model.user_factors,
        model.item_factors,
        model.user_bias,
        model.item_bias,
        model.user_baseline,
        model.item_baseline,
        model.neighbors.view(np.uint32),
        model.explicit_weights,
        model.implicit_weights,
        model.item_slots,
        model.item_weights,
    )


def balanced_bounds(lengths: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Bounds, int64 (D + 1,), of `n_groups` runs of rows that hold about equally many ratings."""
    ends = np.cumsum(lengths)
    targets = np.arange(1, n_groups) * (ends[-1] / n_groups)
    return np.concatenate([[0], np.searchsorted(ends, targets), [len(lengths)]]).astype(np.int64)
