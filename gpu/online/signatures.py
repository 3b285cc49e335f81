"""`Signatures`: simLSH sums and signatures that stay exact while ratings change, and neighbor lists made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import Backend
from gpu.base.growing import Growing
from gpu.data.changes import Changes
from gpu.data.evidence import merits
from gpu.data.model import Model
from gpu.data.rating_table import RatingTable
from gpu.hashing import simlsh
from gpu.hashing.fixed_point import WORD_BITS, psi

if TYPE_CHECKING:
    from gpu.descent.params import CulshParams


HASHED_PER_SLICE, ROWS_PER_SLICE = 4000, 500  # ratings, and items, hashed in a slice of some milliseconds
NOBODY, NOTHING = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
LISTED_PER_SLICE, PAIRS_PER_SLICE = 16, 1 << 20  # lists made in a slice, and pairs of items compared: both at most


@dataclass
class _Hashing:
    """Ratings of the items `rows` that are being hashed: `users`, `items`, `weights` (B,).

    The weights are Ψ of the ratings at the start, since ratings may change before the last slice.

    Attributes:
        added: number of ratings already in the sums.
    """

    rows: NDArray[np.int64]
    users: NDArray[np.int32]
    items: NDArray[np.int64]
    weights: NDArray[np.int32]
    added: int = 0


class Signatures:
    """Neighbor lists of the items newer than the snapshot, among all items, by their present signatures.

    Sums cover exactly the present ratings, with the snapshot's baselines inside Ψ. The sums in the snapshot lack newer
    ratings. So each item is hashed once from the table before the first list is made, and each later change updates its
    sum. While no item is newer than the snapshot, nothing is hashed.

    Attributes:
        relisted: items whose list has changed; the caller removes them once it has refitted them.
    """

    def __init__(
        self,
        model: Model,
        params: CulshParams,
        table: RatingTable,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
        backend: Backend,
    ) -> None:
        self._model, self._params, self._table, self._backend = model, params, table, backend
        n_words = model.projections.shape[1] // WORD_BITS
        # Baselines of users in the snapshot: refits change those of the model, but Ψ must keep using the same ones.
        self._baselines = Growing.filled((len(model.user_baseline),), np.float32)
        self._baselines.values[:] = model.user_baseline
        self._n_hashed = 0  # items, from the first on, whose sums cover the present ratings
        self._words = Growing(np.zeros((0, n_words), dtype=np.uint64))
        self._changed: set[int] = set()  # items whose sums or counts have changed since lists were last checked
        self._listed: set[int] = set()  # new items that have a list
        self._stale: set[int] = set()  # those of them whose list must be rebuilt
        self.relisted: set[int] = set()
        self._hashing: _Hashing | None = None
        self.grow(user_keys, item_keys)
        self._changed.update(np.flatnonzero(~model.item_trained & (table.item_counts[: model.n_items] > 0)).tolist())

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Grow to the size of the model, with the keys of all its rows."""
        self._user_keys, self._item_keys = user_keys, item_keys
        self._baselines.grow(self._model.n_users)
        self._words.grow(self._model.n_items)
        self._user_baseline, self._packed = self._baselines.values, self._words.values

    def note(self, changes: Changes) -> None:
        """Apply changes of the table to the sums."""
        self._replace(changes.users, changes.items, changes.old, changes.new)

    def forget(self, user: int, items: NDArray[np.integer], values: NDArray[np.float32]) -> None:
        """Remove all ratings of a user from the sums, and the user's baseline."""
        self._replace(np.full(len(items), user), items, values, np.full(len(items), np.nan, dtype=np.float32))
        self._user_baseline[user] = 0

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """Share of equal bits in the signatures of `item` and each of `others`, float32 (B,), 0 to 1."""
        rows = np.append(others, item).astype(np.int64)
        simlsh.refresh(self._packed, self._model.projections, rows, self._backend)
        differing = np.bitwise_count(self._packed[others] ^ self._packed[item]).sum(axis=1)
        shares: NDArray[np.float32] = (1 - differing / self._model.projections.shape[1]).astype(np.float32)
        return shares

    @property
    def is_settled(self) -> bool:
        """Whether every list is exact."""
        return not self._changed and not self._stale

    def step(self) -> bool:
        """Do one slice of pending work, of a few milliseconds; false if there was none."""
        if self.is_settled:
            return False
        model, counts = self._model, self._table.item_counts
        if self._hashing is None and self._n_hashed < model.n_items:
            self._hashing = self._begin_hashing()
        if self._hashing is not None:
            # Compute the sums of some items from the table; an item with many ratings takes several slices.
            begun = self._hashing
            now, begun.added = slice(begun.added, begun.added + HASHED_PER_SLICE), begun.added + HASHED_PER_SLICE
            self._add(begun.users[now], begun.items[now], begun.weights[now])
            if begun.added >= len(begun.users):
                simlsh.refresh(self._packed, model.projections, begun.rows, self._backend)
                self._hashing = None
        elif self._changed:
            # Recompute the signatures of changed items and find the lists that are outdated by them.
            changed = _sorted(self._changed)
            self._changed.clear()
            simlsh.refresh(self._packed, model.projections, changed, self._backend)
            new = set(changed[~model.item_trained[changed]].tolist())
            owners = _sorted(self._listed - self._stale - new)
            outdated = simlsh.outdated(model.neighbors[owners], owners, changed, self._packed, counts, self._backend)
            self._listed |= new
            self._stale |= new | set(owners[outdated].tolist())
        else:
            # Rebuild some outdated lists.
            part = _sorted(self._stale)[: min(LISTED_PER_SLICE, max(PAIRS_PER_SLICE // len(self._packed), 1))]
            n, seed = self._params.n_neighbors, self._params.seed
            lists = simlsh.top_k(
                self._packed, counts, n, seed, self._item_keys, queries=part, backend=self._backend
            ).neighbors
            differs = (lists != model.neighbors[part]).any(axis=1)
            model.neighbors[part] = lists
            self.relisted.update(part[differs].tolist())
            self._stale.difference_update(part.tolist())
            self._listed.difference_update(part[counts[part] == 0].tolist())
        return True

    def _begin_hashing(self) -> _Hashing:
        """Read the ratings of some items, which count as hashed from now on: `note` adds later changes."""
        end = min(self._n_hashed + ROWS_PER_SLICE, self._model.n_items)  # the table may have grown before the model
        counts = self._table.item_counts[self._n_hashed : end]
        n_rows = min(1 + int(np.searchsorted(np.cumsum(counts), HASHED_PER_SLICE)), len(counts))
        rows = np.arange(self._n_hashed, self._n_hashed + n_rows)
        self._model.projections[rows] = 0
        self._n_hashed += n_rows
        rated = rows[self._table.item_counts[rows] > 0]
        columns = [(NOBODY, NOTHING), *(self._table.column(item) for item in rated.tolist())]
        users, values = (np.concatenate(column) for column in zip(*columns, strict=True))
        items = np.repeat(rated, [len(users) for users, _ in columns[1:]])
        return _Hashing(rows, users, items, self._psi(users, items, values))

    def _replace(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        old: NDArray[np.float32],
        new: NDArray[np.float32],
    ) -> None:
        """Replace the ratings `old` by `new` in the sums; NaN for no rating."""
        is_hashed = items < self._n_hashed
        self._changed.update(items[is_hashed | ~self._model.item_trained[items]].tolist())
        if is_hashed.any():
            users, items = users[is_hashed], items[is_hashed]
            self._add(users, items, self._psi(users, items, new[is_hashed]) - self._psi(users, items, old[is_hashed]))

    def _psi(
        self, users: NDArray[np.integer], items: NDArray[np.integer], values: NDArray[np.float32]
    ) -> NDArray[np.int32]:
        """Ψ of each rating; 0 for no rating (NaN)."""
        model, is_rated = self._model, ~np.isnan(values)
        values = merits(np.where(is_rated, values, 0).astype(np.float32, copy=False), model.lift)
        learned = np.clip(values, *model.learned_scale).astype(np.float32, copy=False)
        weights = psi(
            self._params,
            model.scale,
            model.calibration.origin,
            learned,
            mean=model.mean,
            user_baseline=self._user_baseline[users],
            item_baseline=model.item_baseline[items],
            middle=model.middle,
        )
        return np.where(is_rated, weights, 0).astype(np.int32)

    def _add(self, users: NDArray[np.integer], items: NDArray[np.integer], weights: NDArray[np.int32]) -> None:
        sums, keys = self._model.projections, self._user_keys[users]
        simlsh.update(sums, items, keys, weights, self._params.seed, self._backend)


def _sorted(rows: set[int]) -> NDArray[np.int64]:
    return np.array(sorted(rows), dtype=np.int64)
