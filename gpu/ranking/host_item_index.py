"""Item side of the scores on the host: factors in panels, neighbor lists inverted (see `gpu.ranking.item_index`)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.growing import Growing
from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import FULL, Arena, Directory, Int, give_back, new_place
from gpu.data.host_rating_table import find
from gpu.data.model import Model
from gpu.ranking.item_terms import ItemTerms

PANEL = 256  # items of a panel; with 128 factors 128 KiB, a part of the second-level cache
LANE = 4  # users that share a read, and factors of one pass
ENLIST_ROOM = 4  # positions per entry, at most, of lists that grow by doubling

# Owners, explicit and implicit weights.
InverseColumns = tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]


class Tables(NamedTuple):
    """Arrays that the kernels read. I items, P panels, G = F rounded up to a multiple of `LANE`.

    Attributes:
        panels: float32 (P, G, PANEL), item factors, transposed inside a panel; zeros beyond I and F.
        plain: float32 (P · PANEL,), `fixed` + |N|^-½ Σ c: the start of the score for users who have rated no neighbor
            of the item. −inf for hidden items and padding.
        fixed: float32 (P · PANEL,), μ + b̂_j + the item's `gpu.ranking.item_terms`; −inf as above.
        baselines: float32 (I,), μ + b̄_j, subtracted from a rating to get its residual.
        implicit_sums: float32 (P · PANEL,), Σ_k c_jk.
        n_slots: int32 (P · PANEL,), neighbors of each item.
        starts, lengths: int64 (I,), inverse list of each item: the slots where it is a neighbor.
        owners, explicit_weights, implicit_weights: flat; the item of each slot, and w and c of the slot. Owners ascend
            in each list, so that the order of a sum depends only on the model.
        is_implicit: whether residuals are 1 for a like and −1 for a dislike.
        middle, lift: pairs whose merit is below `middle` are dislikes (`gpu.data.evidence.merits`).
        low, high: see `gpu.data.views.Arrays`.
        item_slots (I,), item_weights (T, T), listed (I, L), listed_weights (I, L): as in `gpu.data.model.Model`, the
            same arrays.
    """

    panels: Annotated[NDArray[np.float32], 3]
    plain: NDArray[np.float32]
    fixed: NDArray[np.float32]
    baselines: NDArray[np.float32]
    implicit_sums: NDArray[np.float32]
    n_slots: NDArray[np.int32]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    owners: NDArray[np.int32]
    explicit_weights: NDArray[np.float32]
    implicit_weights: NDArray[np.float32]
    is_implicit: bool
    middle: np.float32
    lift: np.float32
    low: np.float32
    high: np.float32
    item_slots: NDArray[np.int32]
    item_weights: Annotated[NDArray[np.float32], 2]
    listed: Annotated[NDArray[np.int32], 2]
    listed_weights: Annotated[NDArray[np.float32], 2]


class RankedItems:
    """The tables of one model with room to grow.

    Attributes:
        tables: at their present length.
        panels, plain, fixed, baselines, implicit_sums, n_slots: as in `tables`, with room to grow.
        hidden: bool (P · PANEL,).
        terms: differences between estimates and list scores.
        item_slots, item_weights, listed, listed_weights: those of the model.
    """

    panels: NDArray[np.float32]
    plain: NDArray[np.float32]
    fixed: NDArray[np.float32]
    baselines: NDArray[np.float32]
    implicit_sums: NDArray[np.float32]
    n_slots: NDArray[np.int32]
    hidden: NDArray[np.bool_]

    def __init__(self, model: Model) -> None:
        n_factors = -(-model.item_factors.shape[1] // LANE) * LANE
        self._panels = Growing(np.zeros((0, n_factors, PANEL), dtype=np.float32))
        self._vectors = {
            "plain": Growing(np.zeros(0, dtype=np.float32), -np.inf),
            "fixed": Growing(np.zeros(0, dtype=np.float32), -np.inf),
            "baselines": Growing(np.zeros(0, dtype=np.float32), model.mean),
            "implicit_sums": Growing(np.zeros(0, dtype=np.float32)),
            "n_slots": Growing(np.zeros(0, dtype=np.int32)),
            "hidden": Growing(np.zeros(0, dtype=np.bool_)),
        }
        self.inverse = Arena(np.int32, np.float32, np.float32)
        self.inverse.make_room(ENLIST_ROOM * model.neighbors.size)
        self.inverted: dict[int, NDArray[np.int32]] = {}  # lists of refreshed new items, as they stand in the inverse
        self.n_items = 0
        self.mean, self.is_implicit = np.float32(model.mean), model.is_implicit
        self.terms = ItemTerms(model)
        self.middle, self.lift = np.float32(model.middle), np.float32(model.lift)
        self.scale = np.float32(model.learned_scale[0]), np.float32(model.learned_scale[1])
        self.item_slots, self.item_weights = model.item_slots, model.item_weights
        self.listed, self.listed_weights = model.listed, model.listed_weights

    @property
    def tables(self) -> Tables:
        """The arrays that the kernels read."""
        inverse = self.inverse
        owners, explicit, implicit = inverse.columns
        return Tables(
            self.panels,
            self.plain,
            self.fixed,
            self.baselines[: self.n_items],
            self.implicit_sums,
            self.n_slots,
            inverse.starts,
            inverse.lengths,
            owners,
            explicit,
            implicit,
            self.is_implicit,
            self.middle,
            self.lift,
            *self.scale,
            self.item_slots,
            self.item_weights,
            self.listed,
            self.listed_weights,
        )

    def grow(self, n_items: int) -> None:
        """Grow to `n_items`; new items are not hidden and have no parameters."""
        n_panels = -(-n_items // PANEL)
        self.inverse.grow(n_items)
        self._panels.grow(n_panels)
        self.panels = self._panels.values
        for name, vector in self._vectors.items():
            vector.grow(n_panels * PANEL)
            setattr(self, name, vector.values)
        if n_items > self.n_items:
            start = self.terms.unrated + self.mean
            self.plain[self.n_items : n_items] = self.fixed[self.n_items : n_items] = start
            self.n_items = n_items


def prepare(n_factors: int) -> None:
    """Do nothing: kernels of the host are compiled for any number of factors."""
    del n_factors


def ranked_items_of(model: Model) -> RankedItems:
    """The items of `model`, laid out for ranking."""
    ranked_items = RankedItems(model)
    _renew(ranked_items, model, np.arange(model.n_items))
    return ranked_items


def refresh(ranked_items: RankedItems, model: Model, items: NDArray[np.int64]) -> None:
    """Grow to the model's length, and copy the parameters and lists of distinct `items` (B,).

    Lists of trained items never change.
    """
    inverse = ranked_items.inverse
    for item in items.tolist() if model.neighbors.shape[1] else ():
        if model.item_trained[item]:
            unlist(item, model.neighbors[item], inverse.directory, inverse.columns)
            continue
        if item in ranked_items.inverted:
            unlist(item, ranked_items.inverted[item], inverse.directory, inverse.columns)
        ranked_items.inverted[item] = model.neighbors[item].copy()
    _renew(ranked_items, model, items)


def hide(ranked_items: RankedItems, model: Model, items: NDArray[np.int64], hidden: NDArray[np.bool_]) -> None:
    """Hide those of `items` (B,) for which `hidden` (B,) is true from every list; show the others."""
    ranked_items.hidden[items] = hidden
    _open(ranked_items, model, items)


def lift(ranked_items: RankedItems, model: Model, items: NDArray[np.int64], lifts: NDArray[np.float32]) -> None:
    """Set what is added to the scores of distinct `items` (B,), see `gpu.ranking.item_terms`."""
    ranked_items.terms.lift(items, lifts)
    _open(ranked_items, model, items)


def _renew(ranked_items: RankedItems, model: Model, items: NDArray[np.int64]) -> None:
    ranked_items.grow(model.n_items)
    ranked_items.item_slots = model.item_slots
    ranked_items.listed, ranked_items.listed_weights = model.listed, model.listed_weights
    pack(ranked_items.panels, model.item_factors, items)
    slots = model.neighbors, model.explicit_weights, model.implicit_weights
    inverse, n_slots, done = ranked_items.inverse, len(items) * model.neighbors.shape[1], 0
    while (done := enlist(items, done, slots, inverse.directory, inverse.columns)) < n_slots:
        inverse.make_room(2 * int(inverse.lengths.max()) + n_slots - done)
    is_slot = model.neighbors[items] >= 0
    ranked_items.baselines[items] = model.item_baseline[items] + ranked_items.mean
    ranked_items.implicit_sums[items] = np.where(is_slot, model.implicit_weights[items], 0).sum(axis=1)
    ranked_items.n_slots[items] = np.count_nonzero(is_slot, axis=1)
    _open(ranked_items, model, items)


def _open(ranked_items: RankedItems, model: Model, items: NDArray[np.int64]) -> None:
    """Write the start of the scores of `items`."""
    biases = ranked_items.terms.biases(model, items)
    begin(ranked_items.tables, ranked_items.hidden, items, biases, ranked_items.mean)


@called_for(Use.RANKING, Use.TRAINING)
@njit(cache=True, nogil=True)
def begin(
    tables: Tables, hidden: NDArray[np.bool_], items: NDArray[np.int64], biases: NDArray[np.float32], mean: np.float32
) -> None:
    """Write `plain` and `fixed` of `items` (B,) with these biases: a request may hide a million at once."""
    for b in range(len(items)):
        j = items[b]
        fixed = np.float32(-np.inf) if hidden[j] else biases[b] + mean
        slots = np.sqrt(np.float32(max(tables.n_slots[j], 1)))
        tables.fixed[j], tables.plain[j] = fixed, fixed + tables.implicit_sums[j] / slots


@called_for(Use.RANKING, Use.TRAINING)
@njit(cache=True, nogil=True)
def pack(
    panels: Annotated[NDArray[np.float32], 3], item_factors: Annotated[NDArray[np.float32], 2], items: NDArray[np.int64]
) -> None:
    """Copy the factors of `items` to their positions in the panels."""
    for j in items:
        for f in range(item_factors.shape[1]):
            panels[j // PANEL, f, j % PANEL] = item_factors[j, f]


@called_for(Use.HASHED)
@njit(cache=True, nogil=True)
def unlist(item: Int, listed: NDArray[np.int32], inverse: Directory, columns: InverseColumns) -> None:
    """Remove `item` from the inverse lists of its former neighbors."""
    starts, lengths = inverse[0], inverse[1]
    owners, explicit, implicit = columns
    for x in listed:
        if x < 0:
            continue
        last = starts[x] + lengths[x] - 1
        position = find(owners, starts[x], lengths[x], item)
        if position > last or owners[position] != item:
            continue
        for n in range(position, last):
            owners[n], explicit[n], implicit[n] = owners[n + 1], explicit[n + 1], implicit[n + 1]
        lengths[x] -= 1


@called_for(Use.RANKING, Use.TRAINING)
@njit(cache=True, nogil=True)
def enlist(
    items: NDArray[np.int64],
    first: Int,
    slots: tuple[Annotated[NDArray[np.int32], 2], Annotated[NDArray[np.float32], 2], Annotated[NDArray[np.float32], 2]],
    inverse: Directory,
    columns: InverseColumns,
) -> int:
    """Add the slots of `items` to the inverse lists, from slot `first` on, counted over all items.

    Args:
        slots: neighbors, W and C of all items, (I, K).

    Returns:
        The first slot without room; len(items) · K if all slots are in the lists.
    """
    starts, lengths, capacities, ends = inverse
    owners, explicit, implicit = columns
    neighbors, explicit_weights, implicit_weights = slots
    n_slots = neighbors.shape[1]
    n_all: int = len(items) * n_slots
    for slot in range(first, n_all):
        j, k = items[slot // n_slots], slot % n_slots
        x = neighbors[j, k]
        if x < 0:
            continue
        capacity = capacities[x]
        moved = new_place(x, inverse, owners)
        if moved == FULL:
            return int(slot)
        if moved >= 0:
            for n in range(lengths[x]):
                source = starts[x] + n
                owners[moved + n] = owners[source]
                explicit[moved + n], implicit[moved + n] = explicit[source], implicit[source]
            give_back(starts[x], capacity, ends, owners)
            starts[x] = moved
        position = starts[x] + lengths[x]
        while position > starts[x] and owners[position - 1] > j:
            one = position - 1
            owners[position], explicit[position], implicit[position] = owners[one], explicit[one], implicit[one]
            position = one
        owners[position], explicit[position], implicit[position] = j, explicit_weights[j, k], implicit_weights[j, k]
        lengths[x] += 1
    return n_all
