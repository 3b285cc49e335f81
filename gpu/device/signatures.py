"""Sums and signatures of simLSH kept exact while ratings change, and the lists of new items: see `gpu.signatures`.

Sums cover exactly the present ratings, with the snapshot's baselines inside Ψ. The lists of all items newer than the
snapshot are made anew after every batch: nearly every batch changes so many signatures that each would be outdated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu import simlsh
from gpu.device import hamming, lsh
from gpu.device.growing import Growing
from gpu.device.kernels import kernel
from gpu.device.parameters import Parameters
from gpu.device.structures import structure
from gpu.device.table import Changes, RatingTable
from gpu.params import CulshParams

NAME = "signatures"
THREADS = 256
AT_ONCE = 1 << 20  # ratings hashed at a time when a table is taken in


class Signatures:
    """Neighbour lists of the items newer than the snapshot: over all items, by their present signatures."""

    def __init__(
        self, parameters: Parameters, params: CulshParams, scale: tuple[float, float], table: RatingTable
    ) -> None:
        """Take over the arrays; `prepare` must end before all else."""
        self._parameters, self._params, self._table = parameters, params, table
        self._user_baseline = Growing(parameters.user_baseline.copy())  # online, that of users moves; in Ψ it must not
        self._unit = np.float64(simlsh.unit(params, scale))
        self._packed = Growing(cupy.zeros(self._shape(), dtype=cupy.uint64))

    def prepare(self) -> Iterator[None]:
        """Hash all ratings of the table into `parameters.projections`, in slices."""
        self._parameters.projections.fill(0)
        users, items, values = self._table.entries()
        nothing = cupy.full(min(len(users), AT_ONCE), np.nan, dtype=cupy.float32)
        for first in range(0, len(users), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            self._add(users[part], items[part], nothing, values[part])
            yield
        self._sign(cupy.arange(self._parameters.n_items))

    def grow(self) -> None:
        """Follow the parameters, which have grown."""
        self._user_baseline.grow(self._parameters.n_users)
        self._packed.grow(self._parameters.n_items)

    def note(self, changes: Changes) -> None:
        """Take in changes that the table has just seen."""
        if len(changes.users):
            self._add(changes.users, changes.items, changes.before, changes.now)
            self._sign(changes.touched_items.astype(cupy.int64))

    def forget(self, user: int) -> None:
        """After the ratings of a user are gone: whoever comes back is new."""
        self._user_baseline.values[user] = 0

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """Share of equal bits in the signatures of `item` and each of `others`, host arrays (B,); 0 to 1."""
        words = self._packed.values[cupy.asarray(np.append(others, item).astype(np.int64))].get()
        differing = np.bitwise_count(words[:-1] ^ words[-1]).sum(axis=1)
        shares: NDArray[np.float32] = (1 - differing / self._parameters.projections.shape[1]).astype(np.float32)
        return shares

    def list_new_items(self) -> None:
        """Make the lists of all new items; marks those in `is_due` whose list differs."""
        parameters, new = self._parameters, self._parameters.new_items
        if not len(new):
            return
        counts, k = self._table.item_counts, self._params.n_neighbours
        best = cupy.full((len(new), k), -1, dtype=cupy.int64)
        hamming.rank_all(best, self._packed.values, cupy.flatnonzero(counts), new)
        lists = hamming.rows_of(best), new, np.uint32(len(new)), np.uint32(k)
        self._run("take_lists", best.size, *lists, counts, parameters.neighbours, parameters.is_due)

    def _add(self, users: Any, items: Any, before: Any, now: Any) -> None:
        """Add Ψ(now) − Ψ(before) of each rating to the sums of its item."""
        n, parameters = len(users), self._parameters
        rows, keys = cupy.empty(n, dtype=cupy.int64), cupy.empty(n, dtype=cupy.uint64)
        weights = cupy.empty(n, dtype=cupy.int32)
        ratings = structure(users, items, before, now, np.uint32(n), np.int32(0))
        baselines = self._user_baseline.values, parameters.item_baseline
        constants = structure(*baselines, parameters.user_keys, np.float64(parameters.mean), self._unit)
        self._run("weigh_changes", n, ratings, constants, rows, keys, weights)
        lsh.update(parameters.projections, rows, keys, weights, np.uint64(self._params.seed))

    def _sign(self, items: Any) -> None:
        lsh.sign(self._packed.values.view(cupy.uint32), self._parameters.projections, items)

    def _run(self, function: str, n_threads: int, *arguments: Any) -> None:
        macros = {"KIND": lsh.KINDS[simlsh.psi_of(self._params)], "STEPS": simlsh.PSI_STEPS, "LIMIT": simlsh.PSI_LIMIT}
        kernel(NAME, function, macros)((-(-n_threads // THREADS),), (THREADS,), arguments)

    def _shape(self) -> tuple[int, int]:
        return self._parameters.n_items, self._parameters.projections.shape[1] // simlsh.WORD_BITS
