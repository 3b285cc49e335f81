"""`ItemPriors`: the priors of new items by the attributes that the catalog has now. Belongs to the engine thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.growing import Growing
from service.engine.state.catalog import Catalog
from service.storage.snapshots.content_map import ContentMap

MOST_ITEMS = 128  # items of a slice; to read the attributes of one takes some microseconds
NUMBERS_AT_ONCE = 2**18  # weights read in a slice; they are copied as float64
TAGS = 8  # known tags of a usual item


class ItemPriors:
    """See `gpu.online.priors.Priors`. Nothing is kept of an item but whether it has a prior.

    Attributes:
        most: see `gpu.online.priors.Priors`.
        moved: items that got a prior or lost it since the owner cleared this.
    """

    def __init__(self, content: ContentMap, catalog: Catalog) -> None:
        self._content, self._features = content, catalog.features
        n_numbers = content.weights.shape[1] * (content.features.n_dimensions + TAGS)
        self.most = max(min(NUMBERS_AT_ONCE // n_numbers, MOST_ITEMS), 1)
        self._exist = Growing(np.zeros(0, dtype=np.bool_))
        self.moved: set[int] = set()

    def exist(self, items: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether each of `items` (B,) had a prior when it was last refitted."""
        exist = np.zeros(len(items), dtype=np.bool_)
        is_noted = items < len(self._exist.values)
        exist[is_noted] = self._exist.values[items[is_noted]]
        return exist

    def of(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """[p; b] of `items` (B,), float64 (B, F + 1); zeros for items without known attributes. About 5 µs an item."""
        priors = np.zeros((len(items), self._content.weights.shape[1]))
        self._exist.grow(int(items.max(initial=-1)) + 1)
        for first in range(0, len(items), self.most):
            part = items[first : first + self.most]
            priors[first : first + self.most], exist = self._content.priors(list(map(self._features, part.tolist())))
            self.moved.update(part[self._exist.values[part] != exist].tolist())
            self._exist.values[part] = exist
        return priors
