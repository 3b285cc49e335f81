"""The order in which ESGD visits ratings; `gpu.descent.esgd` tells it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 2048  # ratings of a block, sh_size: the multiple of the threads nearest to the 2000 of [003]
CHUNK = 32  # adjacent ratings that stay together, one read of a warp


class Order(NamedTuple):
    """The order in which ratings are visited.

    Attributes:
        visits: uint16 (BLOCK,), *Rand*: the positions of a block in the order of their visits.
        stride: chunks from one chunk of the walk to the next; coprime to the number of chunks.
    """

    visits: NDArray[np.uint16]
    stride: int
