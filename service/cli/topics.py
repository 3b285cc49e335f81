"""Shows the factors of an NMF model as topics: the strongest items and users of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.errors import InvalidInput
from gpu.params import NmfParams
from service.storage.snapshots.snapshot import Snapshot

SHARE = 1e-6  # of the largest entry of a factor; smaller entries are the ε of the training, which stands for 0


def topics(snapshot: Snapshot, n: int) -> Iterator[dict[str, Any]]:
    """The strongest `n` items and users of each factor, strongest factor first.

    Each is `{"topic", "weight", "items", "users"}`: the number of the factor from 0, the length of its row of H (its
    column of W has length 1), and ids in order of descending entries, without those whose entry is 0.

    Raises:
        InvalidInput: the model is not an NMF model; only those have non-negative factors that can be read as topics.
    """
    model = snapshot.model
    if not isinstance(model.params, NmfParams):
        raise InvalidInput(f"Invalid model: expected one trained by nmf, got {model.params.algorithm}")
    weights = np.linalg.norm(model.item_factors, axis=0)
    for k in np.argsort(-weights, kind="stable").tolist():
        yield {
            "topic": k,
            "weight": float(weights[k]),
            "items": _strongest(model.item_factors[:, k], snapshot.item_ids, n),
            "users": _strongest(model.user_factors[:, k], snapshot.user_ids, n),
        }


def _strongest(factor: NDArray[np.float32], ids: Sequence[str], n: int) -> list[str]:
    best = np.argsort(-factor, kind="stable")[:n]
    is_there = factor[best] > SHARE * factor.max(initial=0.0)
    return [ids[row] for row in best[is_there].tolist()]
