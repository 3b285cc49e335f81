"""`DeviceModel`: twin of `gpu.online.model.HostModel` that learns on the device and mirrors results on the host.

A `gpu.online.device.learner.DeviceLearner` keeps ratings and parameters on the device. Changes queue up, and the device
learns them in batches. One copy brings the refitted rows of a batch back to the host's model, which answers all
queries. Refitted items then go from the host's model into the index.

Trained items go the other way (`gpu.online.late`). They are few at a time, and they read users of the snapshot, whom
the host keeps. So the host solves them over its own table, and one copy writes them to the device. Then the device
refits their readers.

This module does not use CuPy.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from gpu.data.changes import Changes
from gpu.data.refit_rules import MAX_RATERS
from gpu.online.late import LateRefits, taken
from gpu.online.model import folded_in
from gpu.online.protocols import Live, ReadyDeviceModel
from gpu.online.reading import ANONYMOUS, Reading
from gpu.online.sampled import ITEMS_AT_ONCE
from gpu.ranking.requests import Users

# Counts, at most, in a batch, so that it takes some milliseconds: 10,000 changes of users with 800,000 ratings take
# 2.4 ms on an H100 with 64 factors. Samples are ratings and drawn negatives.
CHANGES_AT_ONCE, SAMPLES_AT_ONCE, USERS_AT_ONCE = 8192, 1 << 20, 8192
# Raters that trained items solved together read, where the last item may exceed the limit; and the fixed cost of an
# item in raters. One core takes 2 ms for an item with 1,024 raters, 64 factors and 32 neighbors.
RATERS_AT_ONCE, ITEM_RATERS = 1024, 64
NOBODY = np.zeros(0, dtype=np.int64)
_END = object()


class DeviceModel:
    """A model on the device that follows a table on the host; see `gpu.online.OnlineModel`.

    The first slices copy the ratings. Changes that arrive meanwhile are queued. They carry absolute values, so applying
    one twice is harmless. Trained items read the host's table, which may have changes that the device has not learned
    yet. The users of these changes are refitted after the items.
    """

    gram: NDArray[np.float64] | None = None

    def __init__(
        self,
        ready: ReadyDeviceModel,
        user_keys: NDArray[np.uint64],
        item_keys: NDArray[np.uint64],
        since: int | None = None,
    ) -> None:
        """See `gpu.online.ReadyModel.follow`."""
        self.model, self.index, self._table = ready.model, ready.index, ready.table
        self._refits, self._finish = ready.refits, ready.finish
        self._waiting: deque[Changes | int] = deque()  # in order: changes to learn, and users to forget
        self.grow(user_keys, item_keys)
        self._late = LateRefits(self.model, self._table, self._refits, ready.as_trained, since)
        self._touched = np.flatnonzero(~self.model.user_trained & (self._table.rows.lengths > 0))
        self._n_in_hand = 0  # rows that are being refitted
        self._live: Live | None = None
        self._loading: Iterator[None] | None = self._load(ready)

    @property
    def n_waiting(self) -> int:
        """See `gpu.online.OnlineModel`."""
        return self._n_in_hand + len(self._late)

    def grow(self, user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64]) -> None:
        """Grow to the size of the table; the device grows before the next batch."""
        self._keys = user_keys, item_keys
        self._refits.grow(user_keys, item_keys)
        n_before = self.model.n_items
        if (self._table.n_users, self._table.n_items) != (self.model.n_users, n_before):
            self.model.grow(self._table.n_users, self._table.n_items)
        if self.model.n_items > n_before:
            self.index.refresh(NOBODY)

    def touch(self, users: NDArray[np.integer]) -> None:
        """Mark users whose ratings differ from those that trained the snapshot."""
        self._touched = np.union1d(self._touched, users)

    def note(self, changes: Changes) -> None:
        """Queue changes of the table."""
        self._late.note(changes)
        if len(changes.users):
            self._waiting.append(changes)

    def renew(self, items: NDArray[np.integer]) -> None:
        """Do nothing: such models have no priors."""

    def forget(self, user: int, items: NDArray[np.integer], values: NDArray[np.float32]) -> None:
        """Erase a user: on the host at once, on the device after the changes that are queued."""
        del values
        self._waiting.append(int(user))
        self._touched = self._touched[self._touched != user]
        self._late.forget(user, items)
        self._drop(user)

    def settle(self, budget_s: float | None = None) -> bool:
        """Learn the queued changes, in batches of a few milliseconds; see `HostModel.settle`."""
        if budget_s is None:
            return self.catch_up()
        self._work(budget_s, self._learn_event)
        return self._is_settled

    def catch_up(self, budget_s: float | None = None) -> bool:
        """See `HostModel.catch_up`: trained items come first, so that touched users are refitted once."""
        n_raters = np.inf if budget_s is None else RATERS_AT_ONCE
        steps = (lambda live: self._learn_items(live, n_raters)), self._learn_event, self._learn_late
        self._work(budget_s, lambda live: any(step(live) for step in steps))
        return self._is_settled and not self.n_waiting

    def fold_in(self, items: NDArray[np.integer], values: NDArray[np.floating], reading: Reading = ANONYMOUS) -> Users:
        """See `HostModel.fold_in`; computed on the host from the mirrored parameters."""
        return folded_in(self._refits, items, values, reading)

    def agreement(self, item: int, others: NDArray[np.integer]) -> NDArray[np.float32]:
        """See `HostModel.agreement`; reads the signatures on the device."""
        if self._live is None or max(item, *others.tolist(), 0) >= self._live.shape[1]:
            return np.zeros(len(others), dtype=np.float32)
        return self._live.agreement(item, others)

    @property
    def _is_settled(self) -> bool:
        return self._loading is None and not len(self._touched) and not self._waiting

    def _load(self, ready: ReadyDeviceModel) -> Iterator[None]:
        """Find the items that are due, copy the ratings to the device and refit the new items; users come later."""
        yield from self._late.prepare()
        live = yield from ready.load(lambda: self._keys)
        self._take_over(live)
        self._live = live

    def _work(self, budget_s: float | None, step: Callable[[Live], bool]) -> None:
        """Run slices, of loading first, until `step` finds nothing to do or the budget has run out."""
        deadline = np.inf if budget_s is None else time.perf_counter() + budget_s
        while True:
            if self._loading is not None:
                if next(self._loading, _END) is _END:
                    self._loading = None
                self._finish()  # else a request would wait behind several slices
            elif self._live is None or not step(self._live):
                return
            if time.perf_counter() >= deadline:
                return

    def _learn_items(self, live: Live, n_raters: float) -> bool:
        """Refit trained items that are due, until they have `n_raters` raters together; false if none is due."""
        due, counts, items = self._late.due, self._table.item_counts, NOBODY
        if not due:
            return False
        self._n_in_hand = len(due)  # before they leave the set: other threads read `n_waiting`
        while due and n_raters > 0 and len(items) < ITEMS_AT_ONCE:
            items = np.append(items, taken(due, 1))
            n_raters -= min(int(counts[items[-1]]), MAX_RATERS) + ITEM_RATERS

        def show(changed: NDArray[np.int64]) -> None:
            if len(changed):
                live.write_items(changed, self.model)
                self.index.refresh(changed)

        for _ in self._late.refit(items, show):
            pass
        self._n_in_hand = 0
        return True

    def _learn_event(self, live: Live) -> bool:
        """Refit a batch of touched users, or learn the next queued batch; false if nothing waits."""
        if not len(self._touched) and not self._waiting:
            return False
        (n_users, n_items), (user_keys, item_keys), table = live.shape, self._keys, self._table
        if (n_users, n_items) != (table.n_users, table.n_items):
            live.grow(user_keys[n_users : table.n_users], item_keys[n_items : table.n_items])
        if len(self._touched):
            n = self._touch(live, self._touched[:USERS_AT_ONCE])
            self._touched = self._touched[n:]
        elif isinstance(self._waiting[0], int):
            user = self._waiting.popleft()
            assert isinstance(user, int)  # noqa: S101 - checked above; this narrows the type
            live.forget(user)
            self._take_over(live)
            self._drop(user)
        else:
            batch = self._next_batch(min(CHANGES_AT_ONCE, live.most_changes or CHANGES_AT_ONCE))
            learned = np.clip(batch.new, *self.model.learned_scale)  # keeps NaN, a delete
            live.apply(batch.users, batch.items, learned.astype(np.float32, copy=False), batch.positions)
            self._take_over(live)
        return True

    def _learn_late(self, live: Live) -> bool:
        """Refit a batch of the users who read trained items that have changed; false if there are none."""
        if not self._late.users:
            return False
        self._n_in_hand = len(self._late.users)
        users = taken(self._late.users, USERS_AT_ONCE)
        n = self._touch(live, users)
        self._late.users.update(users[n:].tolist())
        self._n_in_hand = 0
        return True

    def _touch(self, live: Live, users: NDArray[np.int64]) -> int:
        """Refit the first of `users`, as many as fit into a batch; returns their number."""
        n = self._n_fitting(users)
        live.touch(users[:n])
        self._take_over(live)
        return n

    def _next_batch(self, most: int) -> Changes:
        """Take the next queued changes, up to a user to forget, at most `most` and no more than fit into a batch."""
        parts: list[Changes] = []
        while self._waiting and not isinstance(self._waiting[0], int) and sum(len(part.users) for part in parts) < most:
            part = self._waiting.popleft()
            assert not isinstance(part, int)  # noqa: S101 - as above
            parts.append(part)
        batch = Changes.joined(parts)
        n = self._n_fitting(batch.users[:most])
        if n < len(batch.users):
            self._waiting.appendleft(batch.part(slice(n, None)))
        return batch.part(slice(n))

    def _n_fitting(self, users: NDArray[np.integer]) -> int:
        """How many of `users`, who may occur several times, fit into a batch; at least one."""
        lengths = self._table.rows.lengths[users] * (1 + self.model.params.n_absences)
        if lengths.sum() < SAMPLES_AT_ONCE:
            return len(users)
        _, firsts = np.unique(users, return_index=True)
        samples = np.zeros_like(lengths)
        samples[firsts] = lengths[firsts]
        return min(len(users), 1 + int(np.searchsorted(np.cumsum(samples), SAMPLES_AT_ONCE)))

    def _take_over(self, live: Live) -> None:
        """Copy the refitted rows to the host's model and the index; waits for the device."""
        (users, of_users), (items, of_items) = live.fetch_refitted()
        self._late.keep(users)
        for rows, arrays in ((users, of_users), (items, of_items)):
            for name, values in arrays.items():
                getattr(self.model, name)[rows] = values
        if len(items):
            self.model.item_counts[items] = self._table.item_counts[items]  # queued changes will refit them again
            self.index.refresh(items)

    def _drop(self, user: int) -> None:
        for name in ("user_factors", "user_bias", "user_baseline", "user_trained"):
            getattr(self.model, name)[user] = 0
