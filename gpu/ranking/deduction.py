"""`Deduction`: how far below its estimate an explicit model lists an item that few have rated.

The list score of item j is r̂ − PER_LOG · unit · ln((n + 1) / (n_j + 1)), n_j its ratings and n those of the item with
the most. It depends on the item alone, so it is a part of the bias that ranking adds, and no list costs more for it.

Estimates say how much somebody who rates an item likes it. Most people never come to like an obscure film, and the few
who rated it chose it: docs/decisions/0045-lists-count-raters.md has the forms that were compared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.model import Model

PER_LOG = 1.0  # units; with it each model beats the most popular on held-out training data of each of four sets
NONE = np.zeros(0, dtype=np.float32)


class Deduction(NamedTuple):
    """What the list scores of one model lack of its estimates.

    Attributes:
        amounts: float32 (n + 1,), by number of ratings, in the unit of ratings and never below 0; empty where nothing
            is taken off: implicit models, and those whose snapshot has no counts.
    """

    amounts: NDArray[np.float32]

    @classmethod
    def of(cls, model: Model) -> Deduction:
        """That of `model` as it was trained; the same for as long as it lives, though its items learn."""
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
        """b̂_j less the amount, float32 (B,), for rows `items` (B,).

        A newer item has no more ratings than the most rated item of the training here: its count has gone on.
        """
        biases: NDArray[np.float32] = model.item_bias[items]
        if not len(self.amounts):
            return biases
        biases -= self.amounts[np.minimum(model.item_counts[items], len(self.amounts) - 1)]
        return biases
