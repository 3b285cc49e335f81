"""`Users` and `RankingRequests`: users to rank for, as plain arrays for the primitives of every backend."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Users(NamedTuple):
    """Parameters of B users, with or without rows in a model.

    Attributes:
        factors: float32 (B, F).
        biases: float32 (B,).
        baselines: float32 (B,), b̄_i of the neighbor residuals r − (μ + b̄_i + b̄_j).
    """

    factors: Annotated[NDArray[np.float32], 2]
    biases: NDArray[np.float32]
    baselines: NDArray[np.float32]


class RankingRequests(NamedTuple):
    """B users to make lists for.

    Attributes:
        factors (B, F), biases (B,), baselines (B,): float32; the baseline is b̄_i.
        starts, lengths, items, values: their rows of ratings (`gpu.data.ratings.Rows`).
        exclude_starts (B + 1,), excluded: item rows that must not appear, flat; ascending and distinct for each user.
        candidate_starts (B + 1,), candidates: the only item rows that may appear, in the same form.
        has_candidates: bool (B,), users whose list is limited to `candidates`.
        include_seen: whether rated items may appear.
    """

    factors: Annotated[NDArray[np.float32], 2]
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
    include_seen: bool
