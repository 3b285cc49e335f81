"""Item side of the scores on the host: factors in panels, neighbour lists inverted (see `gpu.item_index`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpu.host.arena import FULL, Directory, Int, new_place

PANEL = 256  # items a panel; with 128 factors 128 KiB, a part of the second-level cache
LANE = 4  # users that share a read, and factors taken in one pass

InverseColumns = tuple[NDArray[Any], ...]  # owners, explicit and implicit weights


class Catalogue(NamedTuple):
    """Item side of the scores. I items, P panels, G = F rounded up to a multiple of `LANE`.

    Attributes:
        panels: float32 (P, G, PANEL), item factors, transposed inside a panel; zeros beyond I and F.
        fixed: float32 (I,), μ + b̂_j.
        baselines: float32 (I,), μ + b̄_j, what a rating's residual is taken from.
        implicit_sums: float32 (I,), Σ_k c_jk.
        n_slots: int32 (I,), neighbours of each item.
        starts, lengths: int64 (I,), inverse lists: where each item is a neighbour.
        owners, explicit_weights, implicit_weights: flat; the item whose neighbour it is, w and c of that slot.
        scales: float32 (K + 1,), n^-½; 0 for n = 0.
        is_implicit: whether every residual counts as 1.
    """

    panels: NDArray[np.float32]
    fixed: NDArray[np.float32]
    baselines: NDArray[np.float32]
    implicit_sums: NDArray[np.float32]
    n_slots: NDArray[np.int32]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    owners: NDArray[np.int32]
    explicit_weights: NDArray[np.float32]
    implicit_weights: NDArray[np.float32]
    scales: NDArray[np.float32]
    is_implicit: bool


@njit(cache=True, nogil=True)
def pack(panels: NDArray[np.float32], item_factors: NDArray[np.float32], items: NDArray[np.int64]) -> None:
    """Copy the factors of `items` to their places in the panels."""
    for j in items:
        for f in range(item_factors.shape[1]):
            panels[j // PANEL, f, j % PANEL] = item_factors[j, f]


@njit(cache=True, nogil=True)
def unlist(item: Int, listed: NDArray[np.int32], inverse: Directory, columns: InverseColumns) -> None:
    """Take `item` out of the inverse lists of its former neighbours; the last of each list takes the free place."""
    starts, lengths = inverse[0], inverse[1]
    owners, explicit, implicit = columns
    for x in listed:
        if x < 0:
            continue
        last = starts[x] + lengths[x] - 1
        for place in range(starts[x], last + 1):
            if owners[place] == item:
                owners[place], explicit[place], implicit[place] = owners[last], explicit[last], implicit[last]
                lengths[x] -= 1
                break


@njit(cache=True, nogil=True)
def enlist(
    items: NDArray[np.int64],
    first: Int,
    slots: tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]],
    inverse: Directory,
    columns: InverseColumns,
) -> int:
    """Put the slots of `items` into the inverse lists, from the `first` slot on, counted over all of them.

    Args:
        slots: neighbours, W and C of all items, (I, K).

    Returns:
        The first slot that found no room; len(items) · K once all are in.
    """
    starts, lengths, capacities, end = inverse
    owners, explicit, implicit = columns
    neighbours, explicit_weights, implicit_weights = slots
    n_slots = neighbours.shape[1]
    n_all: int = len(items) * n_slots
    for slot in range(first, n_all):
        j, k = items[slot // n_slots], slot % n_slots
        x = neighbours[j, k]
        if x < 0:
            continue
        moved = new_place(x, len(owners), lengths, capacities, end)
        if moved == FULL:
            return int(slot)
        if moved >= 0:
            for n in range(lengths[x]):
                source = starts[x] + n
                owners[moved + n] = owners[source]
                explicit[moved + n], implicit[moved + n] = explicit[source], implicit[source]
            starts[x] = moved
        place = starts[x] + lengths[x]
        owners[place], explicit[place], implicit[place] = j, explicit_weights[j, k], implicit_weights[j, k]
        lengths[x] += 1
    return n_all
