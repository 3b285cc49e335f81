"""`Signatures`: sums and signatures of simLSH kept exact while ratings change, and the lists that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu.backend import Backend
from gpu.growing import Growing
from gpu.model import Model
from gpu.online.rating_table import Changes, RatingTable
from gpu.params import CulshParams
from gpu.training import simlsh

HASHED_PER_SLICE, ROWS_PER_SLICE = 4000, 500  # ratings and items; some milliseconds
NOBODY, NOTHING = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
LISTED_PER_SLICE, PAIRS_PER_SLICE = 16, 1 << 20  # lists made, unless so many pairs of items are compared for fewer


@dataclass
class _Hashing:
    """Ratings of the items `rows` with their Ψ, which depends on what may change: `users`, `items`, `weights` (B,).

    Attributes:
        added: how many of them are in the sums.
    """

    rows: NDArray[np.int64]
    users: NDArray[np.int32]
    items: NDArray[np.int64]
    weights: NDArray[np.int32]
    added: int = 0


class Signatures:
    """Neighbor lists of the items newer than the snapshot: over all items, by their present signatures.

    Sums cover exactly the present ratings, with the snapshot's baselines inside Ψ. A snapshot's own sums cover its
    training ratings, which is less; so before the first list is made, each item is hashed once from the table, and
    from then on updated rating by rating. While no item is newer than the snapshot, nothing is hashed.

    Attributes:
        relisted: items whose list has changed; whoever acts on it takes them out.
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
        n_words = model.projections.shape[1] // simlsh.WORD_BITS
        self._baselines = Growing.filled((len(model.user_baseline),), np.float32)  # of users, as the snapshot has them:
        self._baselines.values[:] = model.user_baseline  # online they move; inside Ψ they must not
        self._n_hashed = 0  # items, from the first on, whose sums are those of the present ratings
        self._words = Growing(np.zeros((0, n_words), dtype=np.uint64))
        self._changed: set[int] = set()  # items whose sums or counts have moved since the lists were looked at
        self._listed: set[int] = set()  # new items that have a list,
        self._stale: set[int] = set()  # and those of them whose list must be made anew
        self.relisted: set[int] = set()
        self._hashing: _Hashing | None = None
        self.grow(user_keys, item_keys)
        self._changed.update(np.flatnonzero(~model.item_trained & (table.item_counts[: model.n_items] > 0)).tolist())

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Follow the model, which has grown, and take the keys of all rows."""
        self._user_keys, self._item_keys = user_keys, item_keys
        self._baselines.grow(self._model.n_users)
        self._words.grow(self._model.n_items)
        self._user_baseline, self._packed = self._baselines.values, self._words.values

    def note(self, changes: Changes) -> None:
        """Take in changes that the table has just seen."""
        self._replace(changes.users, changes.items, changes.old, changes.new)

    def forget(self, user: int, items: NDArray[np.integer], values: NDArray[np.float32]) -> None:
        """Take out all ratings of a user, who becomes unknown."""
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
        """Do one slice of what is left, of a few milliseconds; false where nothing was."""
        if self.is_settled:
            return False
        if self._hashing is not None or self._n_hashed < self._model.n_items:
            self._hash_slice()
        elif self._changed:
            self._absorb()
        else:
            self._list_slice()
        return True

    def _hash_slice(self) -> None:
        """Compute the sums of some items from the table; those of an item with many ratings take several slices."""
        if self._hashing is None:
            self._hashing = self._begin_hashing()
        begun = self._hashing
        part, begun.added = slice(begun.added, begun.added + HASHED_PER_SLICE), begun.added + HASHED_PER_SLICE
        self._add(begun.users[part], begun.items[part], begun.weights[part])
        if begun.added >= len(begun.users):
            simlsh.refresh(self._packed, self._model.projections, begun.rows, self._backend)
            self._hashing = None

    def _begin_hashing(self) -> _Hashing:
        """Take the ratings of some items, which count as hashed from here on: changes are added as they come."""
        end = min(self._n_hashed + ROWS_PER_SLICE, self._model.n_items)  # the table may have grown first
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

    def _absorb(self) -> None:
        """Refresh the signatures that have changed and find the lists that this outdates."""
        changed = _sorted(self._changed)
        self._changed.clear()
        simlsh.refresh(self._packed, self._model.projections, changed, self._backend)
        new = set(changed[~self._model.item_trained[changed]].tolist())
        owners = _sorted(self._listed - self._stale - new)
        lists, counts = self._model.neighbors[owners], self._table.item_counts
        outdated = simlsh.outdated(lists, owners, changed, self._packed, counts, self._backend)
        self._listed |= new
        self._stale |= new | set(owners[outdated].tolist())

    def _list_slice(self) -> None:
        """Make some lists anew."""
        n_lists = min(LISTED_PER_SLICE, max(PAIRS_PER_SLICE // len(self._packed), 1))
        part = _sorted(self._stale)[:n_lists]
        found = simlsh.top_k(
            self._packed, self._table.item_counts, self._params.n_neighbors, self._params.seed, self._item_keys,
            queries=part, backend=self._backend,
        ).neighbors  # fmt: skip
        differs = (found != self._model.neighbors[part]).any(axis=1)
        self._model.neighbors[part] = found
        self.relisted.update(part[differs].tolist())
        self._stale.difference_update(part.tolist())
        self._listed.difference_update(part[self._table.item_counts[part] == 0].tolist())

    def _replace(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        old: NDArray[np.float32],
        new: NDArray[np.float32],
    ) -> None:
        """Take ratings out of the sums and others in; NaN: none."""
        known = items < self._n_hashed
        self._changed.update(items[known | ~self._model.item_trained[items]].tolist())
        if known.any():
            users, items = users[known], items[known]
            self._add(users, items, self._psi(users, items, new[known]) - self._psi(users, items, old[known]))

    def _psi(
        self, users: NDArray[np.integer], items: NDArray[np.integer], values: NDArray[np.float32]
    ) -> NDArray[np.int32]:
        """Ψ of each rating; 0 where there is none (NaN)."""
        model, is_rated = self._model, ~np.isnan(values)
        fixed = model.mean, self._user_baseline[users], model.item_baseline[items], model.middle
        known = np.clip(np.where(is_rated, values, 0), *model.learned_scale).astype(np.float32, copy=False)
        weights = simlsh.psi(self._params, model.scale, model.calibration.origin, known, *fixed)
        return np.where(is_rated, weights, 0).astype(np.int32)

    def _add(self, users: NDArray[np.integer], items: NDArray[np.integer], weights: NDArray[np.int32]) -> None:
        sums, keys = self._model.projections, self._user_keys[users]
        simlsh.update(sums, items, keys, weights, self._params.seed, self._backend)


def _sorted(rows: set[int]) -> NDArray[np.int64]:
    return np.array(sorted(rows), dtype=np.int64)
