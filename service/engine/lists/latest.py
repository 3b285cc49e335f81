"""`Latest`: ranks items by the time at which they were published, or else first named in an entry."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.base.limits import LATEST_S
from service.engine.lists.top_items import TopItems
from service.engine.state.history import History

SHIFT_MS = round(LATEST_S * 1000) + 1  # makes positive numbers of all times, also of those before 1970


class Latest(TopItems):
    """Ranks items of the catalog, and items with ratings or events, the latest first. The score is the time."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history, self._n_changes = history, 0

    def look(self) -> None:
        """Take in new items and changes of the catalog; call it before `best`."""
        known, catalog = len(self._firsts.values), self._history.catalog
        self._grow(len(self._history.items))
        if catalog.n_changes != self._n_changes:
            self._n_changes, known = catalog.n_changes, 0
            self._hold(None)
        if known < len(self._firsts.values):
            self._firsts.values[known:] = self._times_ms()[known:] + SHIFT_MS
            self._touch(np.arange(known, len(self._firsts.values)))

    def _times_ms(self) -> NDArray[np.int64]:
        times_ms = self._history.first_seen_ms.copy()
        published_s = self._history.catalog.published
        is_set = np.flatnonzero(np.isfinite(published_s))
        times_ms[is_set] = np.rint(published_s[is_set] * 1000)
        return times_ms

    def _scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return (self._firsts.values[rows] - SHIFT_MS) / 1000
