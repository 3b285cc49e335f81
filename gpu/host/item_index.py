"""Item side of the scores on the host: factors in panels, neighbour lists inverted (see `gpu.item_index`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpu.host.arena import FULL, Directory, Int, new_place
from gpu.scoring import PANEL

InverseColumns = tuple[NDArray[Any], ...]  # owners, explicit and implicit weights


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
