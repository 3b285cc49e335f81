"""`Shelf`: which items lists may show at present. Belongs to the engine thread."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.ranking.eligible import Eligible
from service.engine.state.history import History
from service.engine.state.row_set import Bits


class Hidden(NamedTuple):
    """Items that lists leave out.

    Attributes:
        mask: bool (I,); do not change it.
        version: as long as it is equal, the mask has changed at most by items that were added.
    """

    mask: NDArray[np.bool_]
    version: Hashable


class Shelf:
    """Joins the items that operators hide, deleted items, and items that are unavailable at this time.

    Times of items count to the second, by the clock of this process: the only thing in an answer that does not depend
    on the stream alone.
    """

    def __init__(self, history: History, clock: Callable[[], float] = time.time) -> None:
        self._history, self._clock = history, clock
        self._masks: dict[bool, tuple[Hashable, Hidden]] = {}
        self._bits: dict[bool, tuple[Hidden, Bits]] = {}

    def look(self) -> None:
        """Take in the present time; call it before each batch of answers."""
        if self._history.catalog.n_changes:
            self._history.catalog.pass_time(math.floor(self._clock()))

    def hidden(self, available: bool) -> Hidden:
        """The items that no list shows.

        Args:
            available: whether lists leave out items that are not available now.
        """
        history, catalog = self._history, self._history.catalog
        if not catalog.n_changes:
            return Hidden(history.hidden, history.n_hidings)
        version = available, history.n_hidings, catalog.n_moves
        key = version, len(history.hidden)
        if available not in self._masks or self._masks[available][0] != key:
            mask = history.hidden.copy()
            out = catalog.out if available else catalog.deleted
            mask[: len(out)] |= out
            self._masks[available] = key, Hidden(mask, version)
        return self._masks[available][1]

    def hidden_bits(self, available: bool) -> tuple[Bits, Hidden]:
        """The bits of `hidden`, and what they were made of."""
        hidden = self.hidden(available)
        if available not in self._bits or self._bits[available][0] is not hidden:
            self._bits[available] = hidden, Eligible.of(hidden.mask).bits
        return self._bits[available][1], hidden


def n_available(history: History) -> int:
    """Number of items that lists may show now. Any thread: it may be slightly old."""
    out, n_items = history.hidden.copy(), history.items.n_known
    gone = history.catalog.out_at(time.time())[: len(out)]
    out[: len(gone)] |= gone
    return n_items - int(np.count_nonzero(out))
