"""`ItemTerms`: what lists add to the bias of each item: less if few have rated it, more if many do now.

* The list score of item j of an explicit model is r̂ − PER_LOG · unit · ln((n + 1) / (n_j + 1)), where item j has n_j
  ratings and the most rated item has n. An estimate predicts how much a user who rates an item likes it. The few raters
  of an obscure film chose it; most users would not like it. docs/decisions/0045-lists-count-raters.md has the forms
  that were compared.
* `lifts` are added to the scores of any model: the owner sets them, such as what is popular now (`gpu.trend`).

Both depend only on the item, so ranking adds them to the item's bias, at no cost for a list, and lists stay exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.growing import Growing
from gpu.data.model import Model

PER_LOG = 1.0  # units; with 1 each model beats popularity on held-out training data of each of four sets
NONE = np.zeros(0, dtype=np.float32)


class ItemTerms:
    """The differences between estimates and list scores of one model.

    Attributes:
        deductions: float32 (n + 1,), amount by number of ratings, in the unit of ratings, at least 0. Empty if nothing
            is deducted: for implicit models, and for snapshots without counts.
        lifts: float32 (I,), added to scores; 0 until they are set. It may be shorter than the model: the others are 0.
    """

    def __init__(self, model: Model) -> None:
        """The deductions of `model` as trained, which do not change while items learn online; no lifts."""
        most, self.deductions, self.lifts = 0, NONE, Growing(NONE)
        if not model.is_implicit:
            most = int(model.item_counts[model.item_trained].max(initial=0))
        if most:
            shares = (most + 1) / np.arange(1, most + 2)
            self.deductions = (PER_LOG * model.calibration.unit * np.log(shares)).astype(np.float32)

    @property
    def unrated(self) -> np.float32:
        """The bias in lists of an item without ratings, parameters and lift."""
        return -self.deductions[0] if len(self.deductions) else np.float32(0)

    def lift(self, items: NDArray[np.integer], lifts: NDArray[np.float32]) -> None:
        """Set the lifts of rows `items` (B,)."""
        self.lifts.grow(int(items.max(initial=-1)) + 1)
        self.lifts.values[items] = lifts

    def biases(self, model: Model, items: NDArray[np.integer]) -> NDArray[np.float32]:
        """b̂_j minus the deduction plus the lift, float32 (B,), for rows `items` (B,).

        An item with more ratings than any item of the training gets the deduction of the most rated one, 0.
        """
        biases: NDArray[np.float32] = model.item_bias[items]
        if len(self.deductions):
            biases -= self.deductions[np.minimum(model.item_counts[items], len(self.deductions) - 1)]
        if len(self.lifts.values):
            are_lifted = items < len(self.lifts.values)
            biases[are_lifted] += self.lifts.values[items[are_lifted]]
        return biases
