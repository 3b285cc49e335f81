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
from gpu.device.growing import Counting, Growing
from gpu.device.launcher import Launcher
from gpu.device.parameters import Parameters
from gpu.device.structures import structure
from gpu.device.table import Changes, RatingTable
from gpu.params import CulshParams

HASH_THREADS, LIST_THREADS = 128, 256  # as kernels/signatures.cu has them
AT_ONCE = 1 << 20  # ratings hashed at a time when a table is taken in
RANK_BYTES, COUNT_BYTES = 8, 4


class Signatures:
    """Neighbour lists of the items newer than the snapshot: over all items, by their present signatures."""

    def __init__(
        self, parameters: Parameters, params: CulshParams, scale: tuple[float, float], table: RatingTable
    ) -> None:
        """Take over the arrays; `prepare` must end before all else."""
        self._parameters, self._params, self._table = parameters, params, table
        self._user_baseline = Growing(parameters.user_baseline.copy())  # online, that of users moves; in Ψ it must not
        self._unit = np.float64(simlsh.unit(params, scale))
        n_items, self._n_bits = parameters.n_items, parameters.projections.shape[1]
        words = cupy.zeros((n_items, self._n_bits // simlsh.WORD_BITS), dtype=cupy.uint64)
        self._packed, self._ones = Growing(words), Growing(cupy.zeros(n_items, dtype=cupy.int32))
        self._is_rated = Growing(cupy.zeros(n_items, dtype=cupy.uint8))
        self._items = Counting(cupy.arange(n_items), n_items)
        kinds = {"KIND": lsh.KINDS[simlsh.psi_of(params)], "STEPS": simlsh.PSI_STEPS, "LIMIT": simlsh.PSI_LIMIT}
        self._run = Launcher("signatures", {"S": self._n_bits // lsh.WARP, **kinds})

    def prepare(self) -> Iterator[None]:
        """Hash all ratings of the table into `parameters.projections`, in slices."""
        self._parameters.projections.fill(0)
        users, items, values = self._table.entries()
        nothing = cupy.full(min(len(users), AT_ONCE), np.nan, dtype=cupy.float32)
        for first in range(0, len(users), AT_ONCE):
            n = min(AT_ONCE, len(users) - first)
            self._add(n, users[first:], items[first:], nothing, values[first:])
            yield
        n_items = self._parameters.n_items
        self._sign(n_items, cupy.arange(n_items, dtype=cupy.int32))

    def grow(self) -> None:
        """Follow the parameters, which have grown."""
        self._user_baseline.grow(self._parameters.n_users)
        for array in (self._packed, self._ones, self._is_rated, self._items):
            array.grow(self._parameters.n_items)

    def note(self, changes: Changes) -> None:
        """Take in changes that the table has just seen."""
        work = changes.work
        self._add(changes.n_pairs, work.users, work.items, work.before, work.now)
        self._sign(changes.n_items, work.touched_items)

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
        parameters, new, k = self._parameters, self._parameters.new_items, self._params.n_neighbours
        items, shared = self._items.values, 2 * RANK_BYTES * k + COUNT_BYTES * (self._n_bits + 1)
        for first, agreements in hamming.agreeing(self._packed.values, self._ones.buffer, items, new):
            n, stride = agreements.shape
            rows = agreements, np.int32(stride), new[first:], np.int64(len(items)), self._signed
            to = np.int32(self._n_bits + 1), np.int32(k), parameters.neighbours, parameters.is_due
            self._run("take_lists", n, LIST_THREADS, *rows, *to, shared=shared)

    @property
    def _signed(self) -> Any:
        """`Signed` of the kernels."""
        return structure(self._packed, self._ones, self._is_rated)

    def _add(self, n: int, users: Any, items: Any, before: Any, now: Any) -> None:
        """Add Ψ(now) − Ψ(before) of each of `n` ratings to the sums of its item."""
        parameters, ratings = self._parameters, structure(users, items, before, now)
        hashing = structure(
            self._user_baseline, parameters.item_baseline, parameters.user_keys, np.float64(parameters.mean),
            self._unit, np.uint64(self._params.seed),
        )  # fmt: skip
        self._run("add_changes", n, HASH_THREADS, ratings, hashing, parameters.projections)

    def _sign(self, n: int, items: Any) -> None:
        signed = self._table.item_counts, self._parameters.projections, self._signed
        self._run("sign_items", n, HASH_THREADS, items, *signed)
