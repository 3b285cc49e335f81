"""What the scoring primitives of every backend read, as plain tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PANEL = 256  # items a panel; with 128 factors 128 KiB, a part of the second-level cache
LANE = 4  # users that share a read, and factors taken in one pass


class Catalogue(NamedTuple):
    """Item side of the scores. I items, P panels, G = F rounded up to a multiple of `LANE`.

    Attributes:
        panels: float32 (P, G, PANEL), item factors, transposed inside a panel; zeros beyond I and F.
        fixed: float32 (I,), μ + b̂_j.
        baselines: float32 (I,), μ + b̄_j, what a rating's residual is taken from.
        implicit_sums: float32 (I,), Σ_k c_jk.
        n_slots: int32 (I,), neighbours of each item.
        starts, lengths: int64 (I,), inverse lists: where each item is a neighbour.
        owners, explicit_weights, implicit_weights: flat; the item whose neighbour it is, w and c of that slot.
        is_implicit: whether every residual counts as 1.
    """

    panels: NDArray[np.float32]
    fixed: NDArray[np.float32]
    baselines: NDArray[np.float32]
    implicit_sums: NDArray[np.float32]
    n_slots: NDArray[np.int32]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    owners: NDArray[np.int32]
    explicit_weights: NDArray[np.float32]
    implicit_weights: NDArray[np.float32]
    is_implicit: bool


class Requests(NamedTuple):
    """User side of the scores, B users.

    Attributes:
        factors (B, G), biases (B,), baselines (B,): float32; the baseline is b̄_i.
        starts, lengths, items, values: their rows of ratings (`gpu.ratings.Rows`).
        exclude_starts (B + 1,), excluded: item rows that must not appear, flat.
        candidate_starts (B + 1,), candidates: item rows that alone may appear, ascending; used where `has_candidates`.
        has_candidates: bool (B,).
        hidden: bool (I,) at least; items that never appear.
        include_seen: whether rated items may appear.
    """

    factors: NDArray[np.float32]
    biases: NDArray[np.float32]
    baselines: NDArray[np.float32]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    items: NDArray[np.int32]
    values: NDArray[np.float32]
    exclude_starts: NDArray[np.int64]
    excluded: NDArray[np.int64]
    candidate_starts: NDArray[np.int64]
    candidates: NDArray[np.int64]
    has_candidates: NDArray[np.bool_]
    hidden: NDArray[np.bool_]
    include_seen: bool
