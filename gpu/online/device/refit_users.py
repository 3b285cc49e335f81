"""Refits of users: twin of `gpu.online.host.refit_users` that solves a whole batch; see kernels/refit_users.cu.

Sums and solutions are float32, where the host has float64. Draws have the same bits as on the host.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from gpu.cuda.launcher import Launcher
from gpu.cuda.scratch import Scratch
from gpu.cuda.structures import structure
from gpu.data.refit_rules import Rules
from gpu.online.device.parameters import LiveParameters
from gpu.online.device.rating_table import RatingTable

PART, DESCRIBE_THREADS = 512, 512  # as in kernels/refit_users.cu
BUCKETS = 2048
SAMPLE_BYTES, PART_BYTES, WORD_BYTES = 16, 8, 4


class UserRefits:
    """Refits users of one model by one set of rules, and owns the memory for it."""

    def __init__(self, parameters: LiveParameters, rules: Rules) -> None:
        """`rules` are those of users."""
        self._parameters, self._rules, self._constants = parameters, rules, constants_of(rules)
        self._spread: Any = np.uint64(0)
        if len(rules.spread):  # float32, padded with zeros to the width of the system in kernels/ridge.cuh
            width = -(-(len(rules.spread) + 2) // 8) * 8  # a bias and the right-hand side, in whole tiles
            padded = np.zeros((width, width), dtype=np.float32)
            padded[: len(rules.spread), : len(rules.spread)] = rules.spread
            self._spread = cupy.asarray(padded)
        n_factors, self._n_neighbors = parameters.item_factors.shape[1], parameters.neighbors.shape[1]
        sizes = {"F": n_factors, "K": self._n_neighbors, "DIM": n_factors + 1}
        self._run = Launcher("refit_users", {**sizes, "IMPLICIT": int(parameters.is_implicit)})
        self._described = Scratch(self._new_arrays)

    def refit(self, users: Any, n_ratings: int, table: RatingTable) -> None:
        """Refit distinct `users`, int32 (B,) on the device, over their ratings, in place in the parameters.

        Marks the users in `is_touched`, and in `is_due` the new items that they have rated. Returns before the work is
        done.

        Args:
            n_ratings: number of their ratings, or an upper bound.
        """
        n = len(users)
        if not n:
            return
        rules, parameters = self._rules, self._parameters
        room = min((1 + rules.n_negatives) * n_ratings, 2 * n_ratings + rules.max_negatives * n)  # samples, at most
        counters, described = self._described.of(n, room)
        counters.fill(0)
        side, into = parameters.items_side, parameters.refitted
        read = into, users, table.pointers, side, self._constants, described
        self._run("describe_users", n, DESCRIBE_THREADS, *read)
        n_parts, most = room // PART + n, WORD_BYTES * (2 * rules.max_ratings + BUCKETS + 1)
        self._run("list_samples", n_parts, PART, *read, shared=most)
        threads, shared, _ = self._run.geometry
        solved = into, users, side, self._constants, described
        for step in range(rules.n_steps if parameters.is_implicit else 1):
            self._run("solve_users", n_parts, threads, *solved, np.int32(step), self._spread, shared=shared)

    def _new_arrays(self, n: int, room: int) -> tuple[Any, Any]:
        """(counters, `Described` of the kernels) for `n` users with at most `room` samples.

        The sums of a user with several parts go through memory: at most twice as many sums as `room` has full parts.
        """
        _, _, partial = self._run.geometry
        samples = cupy.empty(room * SAMPLE_BYTES, dtype=cupy.uint8)
        items, values = cupy.empty(room, dtype=cupy.int32), cupy.empty(room, dtype=cupy.float32)
        baselines = cupy.empty(n, dtype=cupy.float64)
        starts, slots = cupy.empty((2, n), dtype=cupy.int64)
        lengths, learned, arrived, rated, drawn = cupy.empty((5, n), dtype=cupy.int32)
        parts = cupy.empty((room // PART + n) * PART_BYTES, dtype=cupy.uint8)
        counters = cupy.zeros(3, dtype=cupy.uint64)
        partials = cupy.empty(2 * room // PART * partial, dtype=cupy.float32)
        arrays = (
            samples, items, values, baselines, starts, slots, lengths, learned, arrived, rated, drawn, parts, counters,
            partials,
        )  # fmt: skip
        self._arrays = arrays  # the structure has only their addresses
        return counters, structure(*arrays)


def constants_of(rules: Rules) -> Any:
    """`Rules` of the kernels."""
    numbers = [np.float32(number) for number in rules[:7]]
    counts = [np.int32(n) for n in (rules.max_ratings, rules.n_negatives, rules.max_negatives, rules.n_steps)]
    return structure(*numbers, np.float64(rules.baseline_prior), *counts, np.uint64(rules.seed))
