"""`ItemIndex`: what scoring reads of a model, laid out for it once and kept up to date."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.backend import HOST, Backend
from gpu.errors import InvalidInput
from gpu.model import Model


def prepare(n_factors: int, backend: Backend) -> None:
    """Compile, or load, what ranking by so many factors needs; on a device some seconds the first time. Any thread."""
    backend.primitives("item_index").prepare(n_factors)


class ItemIndex:
    """The item side of a model where it is ranked, laid out for that.

    Built once for a model, then told which items changed and which are hidden. On the host it takes the memory of the
    item factors, W and C once more; on a device it is the copy of them that lies there.

    Attributes:
        model: what it follows.
        backend: where it ranks; models with item weights do so on the host.
        catalog: what the primitives of "topn" read.
    """

    def __init__(self, model: Model, backend: Backend = HOST) -> None:
        self.model, self.backend = model, HOST if model.params.has_item_weights else backend
        self._primitives = self.backend.primitives("item_index")
        self._hidden = np.zeros(model.n_items, dtype=np.bool_)
        self.ranked_items = self._primitives.ranked_items_of(model)

    def refresh(self, items: NDArray[np.integer]) -> None:
        """Take over the model's present length, and its parameters and lists of `items` (B,), distinct rows.

        Items that the model has gained need not be named while they have no parameters.
        """
        gained = self.model.n_items - len(self._hidden)
        self._hidden = np.pad(self._hidden, (0, gained))
        self._primitives.refresh(self.ranked_items, self.model, items.astype(np.int64))

    def hide(self, hidden: NDArray[np.bool_]) -> None:
        """Keep the items of `hidden`, bool (I,) at least, out of every list, and no others.

        Raises:
            InvalidInput: it is shorter than the model was at the last `refresh`.
        """
        if len(hidden) < len(self._hidden):
            raise InvalidInput(f"Invalid length of hidden: expected at least {len(self._hidden)}, got {len(hidden)}")
        wanted = hidden[: len(self._hidden)]
        changed = np.flatnonzero(wanted != self._hidden)
        if len(changed):
            self._primitives.hide(self.ranked_items, self.model, changed, wanted[changed])
            self._hidden = wanted.copy()
