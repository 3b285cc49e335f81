"""Refits of items newer than the snapshot: twin of `gpu.online.host.refit_items`; see kernels/refit_items.cu."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from gpu.cuda.growing import Growing
from gpu.cuda.launcher import Launcher
from gpu.cuda.scratch import Scratch, fetched, pinned
from gpu.cuda.structures import structure
from gpu.data.refit_rules import Rules
from gpu.online.device.parameters import LiveParameters
from gpu.online.device.rating_table import Changes, RatingTable
from gpu.online.device.refit_users import constants_of

OBSERVE_THREADS, FEW_THREADS, WARP = 256, 128, 32  # as in kernels/refit_items.cu
AT_ONCE = 512  # items with many raters solved together; their observations take 140 MB with 32 neighbors
WORD_BYTES = 4


class ItemRefits:
    """Refits new items of one model by one set of rules, and owns the memory for it."""

    def __init__(self, parameters: LiveParameters, rules: Rules) -> None:
        """`rules` are those of items."""
        self._parameters, self._rules, self._constants = parameters, rules, constants_of(rules)
        n_factors, self._n_neighbors = parameters.user_factors.shape[1], parameters.neighbors.shape[1]
        sizes = {"F": n_factors, "K": self._n_neighbors, "DIM": n_factors + 1 + 2 * self._n_neighbors}
        self._run = Launcher("refit_items", {**sizes, "IMPLICIT": int(parameters.is_implicit)})
        n_absent = rules.n_negatives * rules.max_ratings if parameters.is_implicit else 0
        drawn = cupy.full((len(parameters.new_items), n_absent), -1, dtype=cupy.int32)
        self._absent = Growing(drawn, -1)  # (new items, draws), users whose absence the refit of the item read
        self._due = Scratch(lambda n: (cupy.empty(n, dtype=cupy.int32), cupy.empty(n, dtype=cupy.int64)))
        self._observed = Scratch(self._new_arrays)
        self._counts, self._pinned_counts = cupy.zeros(3, dtype=cupy.int32), pinned(3 * WORD_BYTES).view(np.int32)

    def grow(self) -> None:
        """Grow to the size of the parameters."""
        self._absent.grow(len(self._parameters.new_items))

    def mark(self, changes: Changes) -> None:
        """Mark the new items with deleted ratings in `is_due`; refits of their raters mark the others."""
        work, parameters, n = changes.work, self._parameters, changes.n_deleted
        arguments = work.deleted, np.int32(n), work.items, parameters.item_trained, parameters.is_due
        self._run("mark_deleted", -(-n // OBSERVE_THREADS), OBSERVE_THREADS, *arguments)

    def refit(self, table: RatingTable) -> Any:
        """Refit the new items in `is_due`, and those that had drawn a touched user, over their present raters.

        Overwrites their parameters, with zeros for items without raters, and clears `is_due`.

        Returns:
            The items, int64 on the device, in any order; valid until the next call. Returns before the work is done.
        """
        n_new = len(self._parameters.new_items)
        due, items = self._due.of(n_new)
        if not n_new:
            return items[:0]
        # List the items, and their slots in `due`: those with few raters from the front, with many from the back.
        self._counts.fill(0)
        parameters, absent = self._parameters, self._absent.buffer
        new = parameters.new_items, np.int32(n_new), absent, np.int32(absent.shape[1])
        flags = parameters.is_touched, table.item_counts, parameters.is_due
        n_blocks = -(-n_new * WARP // OBSERVE_THREADS)
        self._run("list_due", n_blocks, OBSERVE_THREADS, *new, *flags, due, items, self._counts)
        n_few, n_many, _ = fetched(self._counts, self._pinned_counts).tolist()
        # Items with few raters: one kernel observes and solves.
        users, ratings, constants = parameters.users_side, table.pointers, self._constants
        threads, solving_bytes, few_bytes = self._run.geometry
        self._run("refit_few", n_few, FEW_THREADS, users, self._items(due), ratings, constants, shared=few_bytes)
        # Items with many raters: one kernel writes the observations, another one solves.
        n_words = 1 << (self._rules.max_ratings - 1).bit_length()
        observing_bytes = WORD_BYTES * (n_words + 2 * self._n_neighbors + 1)
        for first in range(n_new - n_many, n_new, AT_ONCE):
            n = min(AT_ONCE, n_new - first)
            side, observed = self._items(due[first:]), self._observed.of(n)
            read = users, side, ratings, constants, observed, np.int32(n_words)
            self._run("observe_items", n, OBSERVE_THREADS, *read, shared=observing_bytes)
            self._run("solve_items", n, threads, users, side, constants, observed, shared=solving_bytes)
        return items[: n_few + n_many]

    def _new_arrays(self, n: int) -> Any:
        """`Observed` of the kernels for `n` items, at most `AT_ONCE`."""
        n, n_terms, rules = min(n, AT_ONCE), 2 * self._n_neighbors, self._rules
        room = rules.max_ratings * (1 + rules.n_negatives)
        terms = cupy.empty((n, room, n_terms), dtype=cupy.float32)
        offsets, targets = cupy.empty((2, n, room), dtype=cupy.float32)
        raters, lengths = cupy.empty((n, room), dtype=cupy.int32), cupy.empty(n, dtype=cupy.int32)
        counts = cupy.empty((n, n_terms + 1), dtype=cupy.int32)
        self._observations = terms, raters, offsets, targets, lengths, counts  # the structure has only their addresses
        return structure(*self._observations, np.int32(room), np.int32(0))

    def _items(self, due: Any) -> Any:
        """`Items` of the kernels."""
        return structure(*self._parameters.new_items_side(due), self._absent, np.int64(self._parameters.n_items))
