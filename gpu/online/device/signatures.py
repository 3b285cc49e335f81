"""simLSH sums and signatures that stay exact while ratings change, and lists of new items: see `gpu.online.signatures`.

Sums cover exactly the present ratings, with the snapshot's baselines inside Ψ. After each batch the outdated lists are
rebuilt, so that every list equals a ranking of all items.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.growing import Counting, Growing
from gpu.cuda.launcher import Launcher
from gpu.cuda.scratch import Scratch, fetched, pinned
from gpu.cuda.structures import structure
from gpu.hashing import device_hamming as hamming
from gpu.hashing import device_lsh as lsh
from gpu.hashing.fixed_point import PSI_LIMIT, PSI_STEPS, SQUARINGS, WORD_BITS, psi_of, unit
from gpu.online.device.parameters import LiveParameters
from gpu.online.device.rating_table import Changes, RatingTable

if TYPE_CHECKING:
    from gpu.descent.params import CulshParams


HASH_THREADS, FIND_THREADS = 128, 256  # as in kernels/signatures.cu
LISTING = ("take_lists", 256), ("take_lists_wide", 1024)  # kernel and its threads; the second from `MANY_ITEMS` on
MANY_ITEMS = 1 << 16
AT_ONCE = 1 << 20  # ratings hashed at a time by `prepare`
RANKED_AT_ONCE = 1 << 30  # pairs of a list's owner and an item; ranking them takes some milliseconds
FEWEST_CHANGES = 64  # changes; lower bound of `most_changes`
RANK_BYTES, COUNT_BYTES = 8, 4


class Signatures:
    """Neighbor lists of the items newer than the snapshot, among all items, by their present signatures."""

    def __init__(
        self,
        parameters: LiveParameters,
        params: CulshParams,
        scale: tuple[float, float],
        origin: float,
        table: RatingTable,
    ) -> None:
        """Take over the arrays; `prepare` must end before other calls. `scale`, `origin`: see `gpu.hashing.simlsh`."""
        self._parameters, self._params, self._table = parameters, params, table
        self._user_baseline = Growing(parameters.user_baseline.copy())  # refits change the model's; Ψ needs these
        self._unit = np.float64(unit(params, scale, origin))
        self._center = np.float64(origin if psi_of(params) in SQUARINGS else parameters.mean)
        n_items, self._n_bits = parameters.n_items, parameters.projections.shape[1]
        words = cupy.zeros((n_items, self._n_bits // WORD_BITS), dtype=cupy.uint64)
        self._packed, self._ones = Growing(words), Growing(cupy.zeros(n_items, dtype=cupy.int32))
        self._is_rated = Growing(cupy.zeros(n_items, dtype=cupy.uint8))
        self._has_changed = Growing(cupy.ones(n_items, dtype=cupy.uint8))  # all, since no list is built yet
        self._changed = cupy.zeros(0, dtype=cupy.int32)  # items that `_has_changed` may mark
        self._outdated = Scratch(lambda n: cupy.empty(n, dtype=cupy.int64))
        self._count, self._pinned_count = cupy.zeros(1, dtype=cupy.int32), pinned(COUNT_BYTES).view(np.int32)
        self._items = Counting(cupy.arange(n_items), n_items)
        kinds = {"KIND": lsh.KINDS[psi_of(params)], "STEPS": PSI_STEPS, "LIMIT": PSI_LIMIT}
        self._run = Launcher("signatures", {"S": self._n_bits // lsh.WARP, **kinds})

    @property
    def most_changes(self) -> int | None:
        """Changes after which the outdated lists usually take some milliseconds to rebuild; None for no limit."""
        n_new = len(self._parameters.new_items)
        if n_new * self._parameters.n_items <= RANKED_AT_ONCE:  # even all lists together are fast
            return None
        return max(RANKED_AT_ONCE // (2 * self._params.n_neighbors * n_new), FEWEST_CHANGES)

    def prepare(self) -> Iterator[None]:
        """Hash all ratings of the table into `parameters.projections`, and build the lists; in slices."""
        self._parameters.projections.fill(0)
        users, items, values = self._table.entries()
        nothing = cupy.full(min(len(users), AT_ONCE), np.nan, dtype=cupy.float32)
        for first in range(0, len(users), AT_ONCE):
            n = min(AT_ONCE, len(users) - first)
            self._add(n, users[first:], items[first:], nothing, values[first:])
            yield
        n_items = self._parameters.n_items
        self._sign(n_items, cupy.arange(n_items, dtype=cupy.int32))
        yield from self._lists()

    def grow(self) -> None:
        """Grow to the size of the parameters."""
        self._user_baseline.grow(self._parameters.n_users)
        for array in (self._packed, self._ones, self._is_rated, self._has_changed, self._items):
            array.grow(self._parameters.n_items)

    def note(self, changes: Changes) -> None:
        """Apply changes of the table to the sums."""
        work = changes.work
        self._add(changes.n_pairs, work.users, work.items, work.before, work.now)
        self._sign(changes.n_items, work.touched_items)

    def forget(self, user: int) -> None:
        """Erase a user's baseline, after the ratings are deleted: a user who returns counts as new."""
        self._user_baseline.values[user] = 0

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """Share of equal bits in the signatures of `item` and each of `others`, host arrays (B,); 0 to 1."""
        words = self._packed.values[cupy.asarray(np.append(others, item).astype(np.int64))].get()
        differing = np.bitwise_count(words[:-1] ^ words[-1]).sum(axis=1)
        shares: NDArray[np.float32] = (1 - differing / self._parameters.projections.shape[1]).astype(np.float32)
        return shares

    def list_new_items(self) -> None:
        """Rebuild the outdated lists of new items, and mark the items whose list differs in `is_due`."""
        for _ in self._lists():
            pass

    def _lists(self) -> Iterator[None]:
        """`list_new_items` in slices."""
        parameters, outdated, k = self._parameters, self._find_outdated(), self._params.n_neighbors
        items, shared = self._items.values, 2 * RANK_BYTES * k + COUNT_BYTES * (self._n_bits + 1)
        function, threads = LISTING[len(items) >= MANY_ITEMS]
        for first, agreements in hamming.agreeing(self._packed.values, self._ones.buffer, items, outdated):
            n, stride = agreements.shape
            rows = agreements, np.int32(stride), outdated[first:], np.int64(len(items)), self._signed
            to = np.int32(self._n_bits + 1), np.int32(k), parameters.neighbors, parameters.is_due
            self._run(function, n, threads, *rows, *to, shared=shared)
            yield

    def _find_outdated(self) -> Any:
        """New items whose lists may be outdated, int64, in any order; waits for the device."""
        parameters, new, changed = self._parameters, self._parameters.new_items, self._changed
        if not len(new) or not len(changed):
            return new[:0]
        outdated = self._outdated.of(len(new))
        self._count.fill(0)
        rows = new, np.int32(len(new)), changed, np.int32(len(changed)), self._signed
        lists = parameters.neighbors, np.int32(self._params.n_neighbors)
        n_blocks = -(-len(new) * lsh.WARP // FIND_THREADS)
        self._run("find_outdated", n_blocks, FIND_THREADS, *rows, *lists, outdated, self._count)
        self._has_changed.values.fill(0)
        self._changed = changed[:0]
        return outdated[: int(fetched(self._count, self._pinned_count)[0])]

    @property
    def _signed(self) -> Any:
        """`Signed` of the kernels."""
        return structure(self._packed, self._ones, self._is_rated, self._has_changed)

    def _add(self, n: int, users: Any, items: Any, before: Any, now: Any) -> None:
        """Add Ψ(now) − Ψ(before) of each of `n` ratings to the sums of its item."""
        parameters, ratings = self._parameters, structure(users, items, before, now)
        arrays = self._user_baseline, parameters.item_baseline, parameters.user_keys
        numbers = np.uint64(self._params.seed), np.float32(parameters.middle), np.float32(parameters.lift)
        hashing = structure(*arrays, self._center, self._unit, *numbers)
        self._run("add_changes", n, HASH_THREADS, ratings, hashing, parameters.projections)

    def _sign(self, n: int, items: Any) -> None:
        signed = self._table.item_counts, self._parameters.projections, self._signed
        self._run("sign_items", n, HASH_THREADS, items, *signed)
        self._changed = items[:n]
