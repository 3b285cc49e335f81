"""`Pairs`: the ratings and events of a batch on which live models are tested before they learn the batch.

Which ones they are, and which items an item competes with, depends only on positions in the stream: replicas that learn
the same batches test the same pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.rating_table import RatingTable
from gpu.training import host_rivals
from service.engine.state.history import History
from service.engine.state.rating_runs import RatingRun
from service.storage.events import StreamId

N_TESTED = 32  # ratings and events of a batch: those whose positions have the smallest hashes
N_RIVALS = 99  # items that an item competes with; drawn with replacement from the items that the user does not have
N_DRAWN = 128  # draws for them: the rest is for items that the user has, or that nobody has rated
NO_ITEM = -1


class Pairs(NamedTuple):
    """P ratings and events of a batch that is about to be learned.

    Attributes:
        users, items: int64 (P,), rows; −1 for an id without one, and for users who were merged or forgotten earlier in
            the batch.
        values: float32 (P,), ratings (NaN deletes), or for events weight times value.
        are_events: bool (P,).
        keys: uint64 (P,), hashes of their positions.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    values: NDArray[np.float32]
    are_events: NDArray[np.bool_]
    keys: NDArray[np.uint64]

    @classmethod
    def of(cls, runs: Sequence[RatingRun], history: History) -> Pairs | None:
        """At most `N_TESTED` pairs of `runs`, which `history` is about to apply; None if they have no ratings."""
        new = [run if run.entries[0].id > history.position else run.after(history.position) for run in runs]
        changed = _changed_users(new, history)
        new = [run for run in new if len(run.values)]
        if not new:
            return None
        keys = mixed(history.positions_of(np.concatenate([run.times_ms for run in new])).astype(np.uint64))
        picked = np.arange(len(keys))
        if len(keys) > N_TESTED:
            picked = np.sort(np.argpartition(keys, N_TESTED)[:N_TESTED])
        ends = np.cumsum([len(run.values) for run in new])
        bounds = np.searchsorted(picked, ends)
        parts = [
            _part(run, picked[first:last] - (end - len(run.values)), history, changed)
            for run, first, last, end in zip(new, [0, *bounds[:-1]], bounds, ends, strict=True)
        ]
        users, items, values, are_events = map(np.concatenate, zip(*parts, strict=True))
        return cls(users, items, values, are_events, keys[picked])

    def where(self, chosen: NDArray[np.bool_]) -> Pairs:
        """The pairs that a mask (P,) names."""
        users, items, values, are_events, keys = self
        return Pairs(users[chosen], items[chosen], values[chosen], are_events[chosen], keys[chosen])


class Faced(NamedTuple):
    """What a table of ratings or strengths knows of pairs, before they are learned.

    Attributes:
        have_users, have_items: bool (P,), whether user and item have ratings.
        are_new: bool (P,), whether the user does not have the item.
    """

    have_users: NDArray[np.bool_]
    have_items: NDArray[np.bool_]
    are_new: NDArray[np.bool_]

    @classmethod
    def of(cls, pairs: Pairs, table: RatingTable) -> Faced:
        """What `table` knows of `pairs`."""
        have_users, have_items = pairs.users >= 0, pairs.items >= 0
        have_users[have_users] = table.rows.lengths[pairs.users[have_users]] > 0
        have_items[have_items] = table.item_counts[pairs.items[have_items]] > 0
        are_new, may_have = np.ones(len(pairs.users), dtype=np.bool_), have_users & have_items
        users, items = (rows[may_have].astype(np.int32) for rows in (pairs.users, pairs.items))
        are_new[may_have] = np.isnan(table.looked_up(users, items)[0])
        return cls(have_users, have_items, are_new)


def rivals_of(pairs: Pairs, table: RatingTable, n_items: int) -> NDArray[np.int64]:
    """The item of each pair, then at most `N_RIVALS` others with ratings that its user does not have.

    Args:
        pairs: with known users and items.
        table: what the model learns.
        n_items: rivals are drawn from as many rows.

    Returns:
        int64 (P, 1 + N_RIVALS), padded with `NO_ITEM`.
    """
    rivals = np.full((len(pairs.users), 1 + N_RIVALS), NO_ITEM, dtype=np.int64)
    rivals[:, 0] = pairs.items
    host_rivals.draw(pairs.users, pairs.keys, table.rows, table.item_counts, n_items, N_DRAWN, rivals)
    return rivals


def ranks_of(scores: NDArray[Any], rivals: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rivals come before the item of each pair, int64 (P,), by scores (P, 1 + N_RIVALS); ties to the lower
    row, as in lists.
    """
    first, others = scores[:, :1], scores[:, 1:]
    are_before = (others > first) | ((others == first) & (rivals[:, 1:] < rivals[:, :1]))
    ranks: NDArray[np.int64] = np.count_nonzero(are_before & (rivals[:, 1:] != NO_ITEM), axis=1)
    return ranks


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64: a hash of each number."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _changed_users(runs: Sequence[RatingRun], history: History) -> dict[int, StreamId]:
    """Rows of users who are merged or forgotten in `runs`, with the first such entry: no model knows yet who they are
    then.
    """
    changed: dict[int, StreamId] = {}
    for entry in filter(None, (run.closing for run in runs)):
        users = [entry.subject] if entry.kind == "forget" else []
        if entry.merge is not None:
            users = [entry.merge.user, entry.merge.into]
        for row in history.users.rows(users):
            if row is not None:
                changed.setdefault(row, entry.id)
    return changed


def _part(
    run: RatingRun, places: NDArray[np.int64], history: History, changed: Mapping[int, StreamId]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_]]:
    """The first fields of `Pairs`, of some places of a run."""
    users = history.users.rows_of(run.users.at(places)).astype(np.int64)
    items = history.items.rows_of(run.items.at(places)).astype(np.int64)
    are_gone = [run.entries[0].id > changed[user] if user in changed else False for user in users.tolist()]
    values, are_events = run.values[places].astype(np.float64), run.are_events[places]
    if len(run.types):
        weights = history.weights_of(run.types)[np.cumsum(run.are_events)[places[are_events]] - 1]
        values[are_events] *= weights
    return np.where(are_gone, NO_ITEM, users), items, values.astype(np.float32), are_events
