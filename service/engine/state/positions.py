"""Positions of ratings and events: a millisecond, and a count within it.

So they are the same in every process and after any forgetting, and ascend in the order of the stream.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.data.rating_table import POSITIONS_PER_MS
from service.storage.events import StreamId

LAST_MS = 2**42 - 1  # Unix milliseconds, the year 2109: positions must fit into 64 bits


def position_of(watermark: StreamId) -> int:
    """First position in the table of ratings from the millisecond of `watermark` on."""
    return int(_first_positions(np.array([watermark.ms]))[0])


def ascending_from(times_ms: NDArray[np.int64], at_least: int) -> NDArray[np.int64]:
    """The first position of each millisecond, (B,), raised where needed to `at_least`, and to strictly ascend."""
    steps = np.arange(len(times_ms))
    return np.maximum.accumulate(np.maximum(_first_positions(times_ms) - steps, at_least)) + steps


def _first_positions(times_ms: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.minimum(times_ms, LAST_MS) * POSITIONS_PER_MS
