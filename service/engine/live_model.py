"""`LiveModel`: a model in the service's rows that learns with every entry. The only place that changes a model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.model import Model
from gpu.online import ReadyModel
from gpu.ranking import explain, topn, weighted
from gpu.ratings import Rows
from service.engine.history import Applied, History, position_of
from service.storage.events import StreamId
from service.storage.manifest import Manifest
from service.storage.snapshot import Snapshot, shown

IDS_PER_SLICE = 5000
NO_ITEMS = np.zeros(0, dtype=np.int32)
ONE_EMPTY_ROW = Rows(
    np.zeros(1, dtype=np.int64),
    np.zeros(1, dtype=np.int64),
    np.zeros(0, dtype=np.int32),
    np.zeros(0, dtype=np.float32),
)


class LiveModel:
    """One model by name, live or being prepared. Belongs to the engine thread.

    Attributes:
        manifest: of the snapshot it came from; its algorithm is the name.
        online: parameters, kept up with the history.
    """

    def __init__(self, manifest: Manifest, ready: ReadyModel, history: History) -> None:
        """Take over a model, which has the rows of `history`, and mark whoever changed since its watermark.

        The model is behind until `settle` returns true.
        """
        self.manifest = manifest
        self._history = history
        self._has_news, self._n_hidings = True, 0  # news: others are unknown, or hidden, than the index was told last
        self._min_ratings = 0  # what the index was told last
        self._unknown = np.zeros(0, dtype=np.bool_)  # items without ratings of which the model knows nothing either
        watermark = StreamId.parse(manifest.watermark)
        # Snapshots of format 1 do not say how many ratings each item was trained on: their items stay as they are.
        since = position_of(watermark) if manifest.format > 1 else None
        self.online = ready.follow(history.users.keys, history.items.keys, since)
        self.online.touch(history.changed_since(watermark))
        self._look_at(NO_ITEMS)

    @property
    def name(self) -> str:
        """The name under which it is live: its algorithm."""
        return self.manifest.algorithm

    @property
    def version(self) -> str:
        """The snapshot it came from."""
        return self.manifest.version

    @property
    def shown_version(self) -> str:
        """The same for clients, without its revision."""
        return shown(self.manifest.version)

    @property
    def model(self) -> Model:
        """Its parameters at present."""
        return self.online.model

    def learn(self, applied: Applied) -> None:
        """Take in what the history has just changed; cheap, the work is done by `settle`."""
        self.online.grow(self._history.users.keys, self._history.items.keys)
        self.online.note(applied.changes)
        for gone in applied.forgotten:
            self.online.forget(gone.user, gone.items, gone.values)
        self._look_at(np.concatenate([applied.changes.items, *(gone.items for gone in applied.forgotten)]))

    def settle(self, budget_s: float | None) -> bool:
        """Refit what is pending for about `budget_s` seconds (None: all of it); true when nothing is left."""
        return self.online.settle(budget_s)

    def catch_up(self, budget_s: float) -> bool:
        """Refit trained items whose ratings have changed, and who reads them; as `settle`."""
        return self.online.catch_up(budget_s)

    def is_personal(self, items: NDArray[np.int32]) -> bool:
        """Whether ratings of these items tell the model something about a user."""
        return bool(np.count_nonzero(self.model.item_trained[items]))

    def are_personal(self, rows: Rows) -> NDArray[np.bool_]:
        """`is_personal` of each of these rows, (B,)."""
        found: NDArray[np.bool_] = rows.lengths > 0
        found[found] = self.model.item_trained[rows.items[rows.starts[found]]]
        for b in np.flatnonzero(~found).tolist():  # the first item is new: look at all of them
            found[b] = self.is_personal(rows.items[rows.starts[b] : rows.starts[b] + rows.lengths[b]])
        return found

    # --- what can be asked of it

    def recommend(
        self,
        users: topn.Users,
        rows: Rows,
        n: int,
        hidden: NDArray[np.bool_],
        *,
        offset: int = 0,
        include_seen: bool = False,
        min_ratings: int = 0,
        exclude: Sequence[NDArray[np.int32]] | None = None,
        candidates: Sequence[NDArray[np.int32] | None] | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The `n` best items behind the first `offset`, or as many as there are, of each user; see `gpu.ranking.topn`.

        Args:
            hidden: bool (I,), items that nobody is shown.
            min_ratings: items with fewer ratings at present are not shown either.
        """
        n = max(1, min(n, self.model.n_items))
        self._tell(hidden, min_ratings)
        return topn.recommend(
            self.online.index,
            users,
            rows,
            n,
            offset=offset,
            include_seen=include_seen,
            exclude=exclude,
            candidates=candidates,
        )

    def fold_in(self, items: NDArray[np.int32], values: NDArray[np.float32]) -> tuple[topn.Users, Rows]:
        """Parameters and row of somebody with these ratings (items ascending), of whom nothing is stored."""
        rows = Rows(np.zeros(1, dtype=np.int64), np.array([len(items)], dtype=np.int64), items, values)
        return self.online.fold_in(items, values), rows

    def estimates(self, users: topn.Users, rows: Rows, items: NDArray[np.int32]) -> NDArray[np.float32]:
        """What each of these users would give each of `items` (B, n), float32 (B, n); see `gpu.ranking.topn`."""
        return topn.estimate(self.model, users, rows, items)

    def estimate(self, user: int | None, item: int | None) -> float:
        """What a user would give an item; None is one without ratings and counts as average."""
        users, rows = topn.nobody(self.model), ONE_EMPTY_ROW
        if user is not None:
            one = np.array([user])
            users, rows = topn.users_of(self.model, one), topn.rows_of(self._history.table.rows, one)
        if item is None:
            return float(topn.estimate_unknown(self.model, users)[0])
        return float(self.estimates(users, rows, np.array([[item]], dtype=np.int32))[0, 0])

    def reasons(
        self, items: NDArray[np.int32], values: NDArray[np.float32], targets: Sequence[int], n: int
    ) -> list[explain.Reasons]:
        """For each of `targets` the `n` rated items that speak most for it, and what each adds to its score."""
        return explain.reasons(self.model, items, values, targets, n, self.online.gram)

    def similar_items(
        self, item: int, n: int, hidden: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Neighbors of an item, best first.

        By agreement of signatures where the model has lists (at most K), by partial correlation where it has item
        weights, else by cosine of factors.
        """
        if self.model.params.has_item_weights:
            scores = weighted.partial_correlations(self.model, item)
            return topn.others(scores, item, n, ~(hidden | self._unknown))
        if not self.model.neighbors.shape[1]:
            return topn.similar(self.model.item_factors, item, n, ~(hidden | self._unknown))
        listed = self.model.neighbors[item]
        listed = listed[listed >= 0]
        listed = listed[~hidden[listed]]
        shares = self.online.agreement(item, listed)
        order = np.lexsort((listed, -shares))[:n]
        return listed[order], shares[order]

    def similar_users(self, user: int, n: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Users by cosine of factors, or of ratings where the model has item weights; those without any have none."""
        rows = self._history.table.rows
        rated = rows.lengths > 0
        if self.model.params.has_item_weights:
            return topn.others(weighted.user_cosines(self.model, rows, user), user, n, rated)
        return topn.similar(self.model.user_factors, user, n, rated)

    def _tell(self, hidden: NDArray[np.bool_], min_ratings: int) -> None:
        """Tell the index which items stay out of lists, where that may have changed.

        With a million items it takes half a millisecond to see that nothing has: too much for each lesson.
        """
        self._has_news |= self._n_hidings != self._history.n_hidings
        if not (self._has_news or min_ratings or self._min_ratings):
            return
        out = hidden | self._unknown
        if min_ratings:
            out |= self._history.table.item_counts < min_ratings
        self.online.index.hide(out)
        self._has_news, self._n_hidings, self._min_ratings = False, self._history.n_hidings, min_ratings

    def _look_at(self, items: NDArray[np.integer]) -> None:
        """See whether `items`, and those that have come since, are unknown."""
        counts, trained, n_seen = self._history.table.item_counts, self.model.item_trained, len(self._unknown)
        if len(counts) > n_seen:
            self._unknown = np.append(self._unknown, (counts[n_seen:] == 0) & ~trained[n_seen:])
            self._has_news = True
        are_unknown = (counts[items] == 0) & ~trained[items]
        self._has_news |= bool((are_unknown != self._unknown[items]).any())
        self._unknown[items] = are_unknown


def rows_of(snapshot: Snapshot, history: History) -> Generator[None, None, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The history's rows of a snapshot's users and items, −1 where there is none; in slices.

    Somebody who was forgotten after the snapshot and came back is not who the snapshot knows.
    """
    watermark = StreamId.parse(snapshot.manifest.watermark)

    def rows_of_users(ids: Sequence[str]) -> NDArray[np.int64]:
        users = _looked_up(ids, history.users.row)
        known = np.flatnonzero(users >= 0)
        users[known[~history.is_known_at(users[known], watermark)]] = -1
        return users

    users = yield from _in_parts(snapshot.user_ids, rows_of_users)
    items = yield from _in_parts(snapshot.item_ids, lambda ids: _looked_up(ids, history.items.row))
    return users, items


def _in_parts(
    ids: Sequence[str], rows_of_part: Callable[[Sequence[str]], NDArray[np.int64]]
) -> Generator[None, None, NDArray[np.int64]]:
    rows = np.empty(len(ids), dtype=np.int64)
    for first in range(0, len(ids), IDS_PER_SLICE):
        part = slice(first, first + IDS_PER_SLICE)
        rows[part] = rows_of_part(ids[part])
        yield
    return rows


def _looked_up(ids: Sequence[str], row: Callable[[str], int | None]) -> NDArray[np.int64]:
    return np.array([-1 if position is None else position for position in map(row, ids)], dtype=np.int64)
