"""`ItemIndex`: what scoring reads of a model, laid out for it once and kept up to date."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.arena import Arena
from gpu.backend import HOST, Backend
from gpu.model import Model
from gpu.scoring import LANE, PANEL, Catalogue

ENLIST_ROOM = 4  # lists that grow by doubling need less than this many places an entry


class ItemIndex:
    """The item side of a model, laid out for scoring: factors in panels, neighbour lists inverted.

    Built once for a model, then told which items changed. Takes the memory of the item factors, W and C once more.

    Attributes:
        catalogue: what the primitives read; replaced by `refresh`.
    """

    def __init__(self, model: Model, backend: Backend = HOST) -> None:
        self._model, self._kernels = model, backend.primitives("item_index")
        self._listed: dict[int, NDArray[np.int32]] = {}  # lists of refreshed items as they stand in the inverse
        n_factors = -(-model.item_factors.shape[1] // LANE) * LANE
        self._panels = np.zeros((0, n_factors, PANEL), dtype=np.float32)
        self._parts = np.zeros((3, 0), dtype=np.float32)  # fixed, baselines, implicit sums of `Catalogue`
        self._n_slots = np.zeros(0, dtype=np.int32)
        self._inverse = Arena(np.int32, np.float32, np.float32)
        self._inverse.make_room(ENLIST_ROOM * model.neighbours.size)
        self.catalogue = self._renewed(np.arange(model.n_items))

    def refresh(self, items: NDArray[np.integer]) -> None:
        """Take over the model's present length, and its parameters and lists of `items` (B,), distinct rows.

        Items that the model has gained need not be named while they have no parameters.
        """
        for item in items.tolist():
            if item in self._listed:
                self._kernels.unlist(item, self._listed[item], self._inverse.directory, self._inverse.columns)
            self._listed[item] = self._model.neighbours[item].copy()
        self.catalogue = self._renewed(items.astype(np.int64))

    def _renewed(self, items: NDArray[np.int64]) -> Catalogue:
        model = self._model
        self._grow(model.n_items)
        self._kernels.pack(self._panels, model.item_factors, items)
        self._enlist(items)
        is_slot = model.neighbours[items] >= 0
        self._parts[0, items] = model.item_bias[items] + np.float32(model.mean)
        self._parts[1, items] = model.item_baseline[items] + np.float32(model.mean)
        self._parts[2, items] = np.where(is_slot, model.implicit_weights[items], 0).sum(axis=1)
        self._n_slots[items] = np.count_nonzero(is_slot, axis=1)
        n, inverse = model.n_items, self._inverse
        fixed, baselines, implicit_sums = self._parts[:, :n]
        owners, explicit, implicit = inverse.columns
        return Catalogue(
            self._panels[: -(-n // PANEL)], fixed, baselines, implicit_sums, self._n_slots[:n],
            inverse.starts, inverse.lengths, owners, explicit, implicit, model.is_implicit,
        )  # fmt: skip

    def _grow(self, n_items: int) -> None:
        self._inverse.grow(n_items)
        held = self._parts.shape[1]
        if n_items > held:
            n_panels = -(-max(n_items, held + held // 2) // PANEL)
            spare = n_panels * PANEL - held
            self._panels = np.pad(self._panels, ((0, n_panels - len(self._panels)), (0, 0), (0, 0)))
            self._parts = np.pad(self._parts, ((0, 0), (0, spare)))
            self._parts[:2, held:] = self._model.mean
            self._n_slots = np.pad(self._n_slots, (0, spare))

    def _enlist(self, items: NDArray[np.int64]) -> None:
        slots = self._model.neighbours, self._model.explicit_weights, self._model.implicit_weights
        n_slots, done = len(items) * slots[0].shape[1], 0
        while (
            done := self._kernels.enlist(items, done, slots, self._inverse.directory, self._inverse.columns)
        ) < n_slots:
            self._inverse.make_room(2 * int(self._inverse.lengths.max()) + n_slots - done)
