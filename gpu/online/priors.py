"""`Priors`: parameters of items newer than the snapshot before they have ratings (`gpu.training.content`)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Priors(Protocol):
    """The priors of new items. Only models of ALS read them.

    Attributes:
        most: how many items `of` should take in a slice of about a millisecond.
    """

    most: int

    def of(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """[p; b] of `items` (B,), float64 (B, F + 1) in C order; zeros for items of which nothing is known.

        The prior of an item must not depend on other items of the call. A caller that changes it
        calls `OnlineModel.renew` afterward.
        """
