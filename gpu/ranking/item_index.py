"""`ItemIndex`: the items of a model, laid out for scoring and kept up to date."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.base.errors import InvalidInput
from gpu.data.model import Model
from gpu.ranking import host_item_index as primitives


def prepare(n_factors: int, backend: Backend) -> None:
    """Compile, or load, the kernels that rank by `n_factors`; on a device some seconds the first time. Any thread."""
    backend.twin(primitives.prepare)(n_factors, *backend.ranking_devices)


class ItemIndex:
    """The items of a model, laid out for ranking on a backend.

    Build it once for a model; then call `refresh` for changed items and `hide` for hidden ones. On the host it takes
    the memory of the item factors, W and C once more. On a device it is their only copy there; on several devices each
    has an equal share (`Backend.ranking_devices`), and lists are those of one device.

    Attributes:
        model: the model that it follows.
        backend: where it ranks; the host for models with item weights.
        ranked_items: the arrays that `gpu.ranking.host_topn` or its twin reads.
    """

    def __init__(self, model: Model, backend: Backend = HOST) -> None:
        self.model, self.backend = model, HOST if model.params.has_item_weights else backend
        self._hidden = np.zeros(model.n_items, dtype=np.bool_)
        self.ranked_items = self.backend.twin(primitives.ranked_items_of)(model, *self.backend.ranking_devices)

    def refresh(self, items: NDArray[np.integer]) -> None:
        """Grow to the model's length, and copy the parameters and lists of distinct `items` (B,).

        New items need not be named while they have no parameters.
        """
        gained = self.model.n_items - len(self._hidden)
        self._hidden = np.pad(self._hidden, (0, gained))
        self.backend.twin(primitives.refresh)(self.ranked_items, self.model, items.astype(np.int64))

    def hide(self, hidden: NDArray[np.bool_]) -> None:
        """Keep exactly the items marked in `hidden`, bool (at least I,), out of every list.

        Raises:
            InvalidInput: `hidden` is shorter than the model at the last `refresh`.
        """
        if len(hidden) < len(self._hidden):
            raise InvalidInput(f"Invalid length of hidden: expected at least {len(self._hidden)}, got {len(hidden)}")
        wanted = hidden[: len(self._hidden)]
        changed = np.flatnonzero(wanted != self._hidden)
        if len(changed):
            self.backend.twin(primitives.hide)(self.ranked_items, self.model, changed, wanted[changed])
            self._hidden = wanted.copy()

    def lift(self, items: NDArray[np.int64], lifts: NDArray[np.float32]) -> None:
        """Add `lifts` (B,) to the scores of distinct `items` (B,), in place of their earlier lifts."""
        self.backend.twin(primitives.lift)(self.ranked_items, self.model, items, lifts.astype(np.float32, copy=False))
