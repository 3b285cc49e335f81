"""`Deduction`: how far below its estimate an explicit model lists an item that few have rated.

The list score of item j is r̂ − PER_LOG · unit · ln((n + 1) / (n_j + 1)), where item j has n_j ratings and the most
rated item has n. The deduction depends only on the item, so ranking adds it to the item's bias, at no cost for a list.

An estimate predicts how much a user who rates an item likes it. The few raters of an obscure film chose it; most users
would not like it. docs/decisions/0045-lists-count-raters.md has the forms that were compared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.model import Model

PER_LOG = 1.0  # units; with 1 each model beats popularity on held-out training data of each of four sets
NONE = np.zeros(0, dtype=np.float32)


class Deduction(NamedTuple):
    """The differences between estimates and list scores of one model.

    Attributes:
        amounts: float32 (n + 1,), amount by number of ratings, in the unit of ratings, at least 0. Empty if nothing is
            deducted: for implicit models, and for snapshots without counts.
    """

    amounts: NDArray[np.float32]

    @classmethod
    def of(cls, model: Model) -> Deduction:
        """The deduction of `model` as trained; it does not change while items learn online."""
        most = int(model.item_counts[model.item_trained].max(initial=0))
        if model.is_implicit or not most:
            return cls(NONE)
        shares = (most + 1) / np.arange(1, most + 2)
        return cls((PER_LOG * model.calibration.unit * np.log(shares)).astype(np.float32))

    @property
    def unrated(self) -> np.float32:
        """The bias in lists of an item without ratings and parameters."""
        return -self.amounts[0] if len(self.amounts) else np.float32(0)

    def biases(self, model: Model, items: NDArray[np.integer]) -> NDArray[np.float32]:
        """b̂_j minus the amount, float32 (B,), for rows `items` (B,).

        An item with more ratings than any item of the training gets the amount of the most rated one, 0.
        """
        biases: NDArray[np.float32] = model.item_bias[items]
        if not len(self.amounts):
            return biases
        biases -= self.amounts[np.minimum(model.item_counts[items], len(self.amounts) - 1)]
        return biases
