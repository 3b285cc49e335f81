"""`count`: sums of weights that decay forward, as integers (see `service.engine.lists.trending`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import Int

BLOCK = 16  # half-lives; weights of a block differ by a factor of 2 ** BLOCK
UNIT_BITS = 20  # a weight of 1 is 2 ** UNIT_BITS, so a block has room for 2 ** 27 pairs of an item

Blocks = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # int64 (I,) each, the newest first


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def count(
    items: NDArray[np.int64],
    times: NDArray[np.float64],
    signs: NDArray[np.int64],
    half_life: float,
    newest: Int,
    sums: Blocks,
) -> None:
    """Add the weight of each pair, times its sign, to the block of its time; what is in no block is left out.

    Args:
        items, times, signs: of B pairs; times are in the unit of `half_life`.
        newest: index of the newest block.
        sums: changed in place.
    """
    for n in range(len(items)):
        halves = times[n] / half_life
        block = np.floor(halves / BLOCK)
        age = newest - block
        if 0 <= age < len(sums):
            weight = np.int64(np.rint(np.exp2(halves - block * BLOCK + UNIT_BITS)))
            sums[np.int64(age)][items[n]] += signs[n] * weight
