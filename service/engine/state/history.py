"""`History`: ids and the last rating of every (user, item), independent of any model.

All models of the process use its rows. One thread owns it: the engine's, or the one that loads it in a trainer.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpu.base.growing import Growing
from gpu.data.changes import Changes
from gpu.data.rating_table import RatingTable
from service.engine.state.applied import NO_CHANGES, Applied, ForgottenUser
from service.engine.state.catalog import Catalog
from service.engine.state.documents import Documents
from service.engine.state.id_table import IdTable, column_of_log
from service.engine.state.log_windows import OneBehind, ahead, windows
from service.engine.state.positions import ascending_from
from service.engine.state.rating_runs import RatingRun, joined, keys_of, runs_of
from service.engine.state.sources import SourceMarks
from service.engine.state.strength_rows import Attributed, Batch, EventRows, NewestOccasions
from service.engine.state.strengths import Strengths
from service.engine.state.user_attributes import UserAttributes
from service.settings.event_types import DEFAULT_TYPES, RATING, EventTypes
from service.storage import item_changes, user_changes
from service.storage.documents import Document
from service.storage.events import ZERO, Entry, Merge, Retraction, StreamId
from service.storage.item_changes import ItemChange
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment import entries_of
from service.storage.user_changes import UserChange

N_RETRACTED = 10_000  # entries that are remembered, for those who ask at once


class Observer(Protocol):
    """Follows what a history applies, for what only an extra counts. Belongs to the thread of the history."""

    def note(
        self, users: NDArray[np.integer], are_first: NDArray[np.bool_], attributed: Mapping[int, Attributed]
    ) -> None:
        """Events came, some of them with a recommendation id.

        Args:
            users: rows of the users of E events.
            are_first: bool (E,), whether the event is no repetition of an earlier one.
            attributed: those with a recommendation id, by their place.
        """
        ...

    def replace(self, document: Document) -> None:
        """A document is put or deleted."""
        ...

    def move(self, user: int, into: int) -> None:
        """A row becomes part of another one; `drop_user` of it follows."""
        ...

    def drop_user(self, user: int) -> None:
        """The user of a row is forgotten."""
        ...


class History:
    """All that the service knows of users and items: ids, ratings, strengths, hidden items, attributes.

    Attributes:
        types: the weight of each type of events.
        users, items: id tables; their rows are the rows of all tables.
        table: the last rating of every (user, item), which explicit models learn.
        strengths: ratings and events together, which implicit models learn.
        position: id of the last entry applied.
        catalog: the attributes of items.
        user_attributes: those of users.
        documents: named documents, such as scenarios.
        sources: how far each source of batches has come.
        observers: of extras.
        occasions: events one by one, for who sets it before they come. Merged and forgotten users keep the rows that
            they had. None: they are not kept.
        retracted: the newest entries that took an event back.
        n_hidings: how often items were hidden or shown.
        n_events: events applied, repeated ones too; after a restart without those of users who are gone from the log.
    """

    def __init__(self, types: EventTypes = DEFAULT_TYPES) -> None:
        """Empty."""
        self.types, self._bits = types, {name: 1 << n for n, name in enumerate(types)}
        self.users = IdTable()
        self.items = IdTable()
        self.table = RatingTable()
        self.catalog, self.user_attributes = Catalog(), UserAttributes()
        self.documents = Documents()
        self.observers: list[Observer] = []
        self.occasions: NewestOccasions | None = None
        self.position = ZERO
        self.n_hidings = self.n_events = 0
        self.retracted = deque[StreamId](maxlen=N_RETRACTED)
        self._next_position = 0
        self._hidden_items = Growing(np.zeros(0, dtype=np.bool_))
        self._last_ms = Growing(np.zeros(0, dtype=np.int64))  # last rating of each user
        self._first_ms, self._seen_ms = (Growing(np.zeros(0, dtype=np.int64)) for _ in range(2))  # of users, of items
        self.strengths = Strengths(self.table, self._last_ms)
        self.sources = SourceMarks()

    def table_of(self, *, has_strengths: bool) -> RatingTable:
        """The table of strengths, or that of ratings."""
        return self.strengths.table if has_strengths else self.table

    def is_known_at(self, users: NDArray[np.integer], watermark: StreamId) -> NDArray[np.bool_]:
        """Whether each row, of (B,), existed at `watermark`. A forgotten user who comes back has a newer row."""
        is_known: NDArray[np.bool_] = self._first_ms.values[users] <= watermark.ms
        return is_known

    def changed_since(self, watermark: StreamId, *, has_strengths: bool) -> NDArray[np.int64]:
        """Rows of users whose part of `table_of` has changed after `watermark`.

        Users with a change in the same millisecond as the watermark always count too, so that the answer does not
        depend on how the entries were grouped.
        """
        last_ms = self.strengths.last_ms if has_strengths else self._last_ms.values
        return np.flatnonzero(last_ms >= watermark.ms)

    @property
    def last_rated_ms(self) -> NDArray[np.int64]:
        """Unix milliseconds of each user's last rating, or deletion of one, int64 (U,): a view that growth replaces."""
        return self._last_ms.values

    @property
    def first_seen_ms(self) -> NDArray[np.int64]:
        """Unix milliseconds of the first entry that named each item, int64 (I,): a view that growth replaces."""
        return self._seen_ms.values

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Whether each item was hidden, bool (I,): a view that growth replaces."""
        return self._hidden_items.values

    def apply(self, entries: Sequence[Entry]) -> Applied:
        """`apply_runs` of at least one entry."""
        return self.apply_runs(runs_of(entries))

    def apply_runs(self, runs: Sequence[RatingRun]) -> Applied:
        """Apply entries in order, at least one. Entries at or below `position` are skipped, so replaying is harmless.

        So are those that their source has delivered before (`SourceMarks`). Gives rows to new users and items. A run of
        1,000 ratings takes about 2 µs per rating.
        """
        parts: list[Applied] = []
        for run in joined(runs):
            newer = run if run.entries[0].id > self.position else run.after(self.position)
            newer = newer.only(self.sources.new_of(newer.entries))
            users, items = self.users.rows_or_new_of(newer.users), self.items.rows_or_new_of(newer.items)
            weights, bits = self.weights_of(newer.types), self._bits_of(newer.types)
            events = EventRows(newer.are_events, weights, bits, newer.keys, newer.attributed)
            parts.append(self._rate(users, items, newer.values, newer.timestamps, newer.times_ms, events))
            if newer.closing is not None:
                parts += self._apply_entry(newer.closing)
            self.position = max(self.position, run.entries[-1].id)
        return Applied.joined(parts)

    def load(
        self, log: RatingLog, upto: StreamId | None = None, on_progress: Callable[[int], None] | None = None
    ) -> None:
        """Apply all entries of the log after `position`, column by column: about half a second per million ratings.

        Three more threads read, look up the ids of items and apply ratings, while this one looks up those of users.

        Args:
            log: the rating log.
            upto: last id to apply. Default: the end of the log.
            on_progress: called with the number of rows read so far, after each window of rows.

        Raises:
            CorruptLog: a segment is torn or altered; the entries before it have been applied.
        """
        n_rows = 0
        end = log.last_id() if upto is None else min(upto, log.last_id())
        for table in (self.table, self.strengths):
            table.put_off_raters()
        try:
            with ThreadPoolExecutor(3, "history") as pool:
                behind = OneBehind(pool)
                for batch in ahead(windows(log.read(self.position), end), pool):
                    self._apply_batch(self.sources.new_rows_of(batch), behind, pool)
                    n_rows += batch.num_rows
                    if on_progress is not None:
                        on_progress(n_rows)
                behind.wait()
        finally:
            for packed in (self.table, self.strengths, self.catalog.index, self.user_attributes.index):
                packed.pack()
        self.position = max(self.position, end)
        pa.default_memory_pool().release_unused()  # return the memory of reading: the service runs for long

    def weights_of(self, types: Sequence[str]) -> NDArray[np.float64]:
        """The weight of each type of events; NaN for one that the setting does not name any more."""
        return np.array(list(map(self.types.get, types, itertools.repeat(math.nan))), dtype=np.float64)

    def had(self, user: int, types: Sequence[str]) -> NDArray[np.int32]:
        """Items that a user has events of one of `types` with, or has rated if `RATING` is one of these."""
        items = self.done(user, types)
        return np.append(items, self.table.row(user)[0]) if RATING in types else items

    def done(self, user: int, types: Sequence[str]) -> NDArray[np.int32]:
        """Items that a user has events of one of `types` with."""
        items, bits = self.strengths.types.of(user)
        done: NDArray[np.int32] = items[bits & np.bitwise_or.reduce(self._bits_of(types)) != 0]
        return done

    def remembers(self, user: str, event_id: str) -> bool:
        """Whether an event is among the last of a user with an id, so that it can be taken back."""
        row = self.users.row(user)
        return row is not None and self.strengths.remembers(row, keys_of([event_id])[0])

    def _bits_of(self, types: Sequence[str]) -> NDArray[np.uint32]:
        return np.array(list(map(self._bits.get, types, itertools.repeat(0))), dtype=np.uint32)

    def positions_of(self, times_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions of the next ratings and events, int64 (B,), from the Unix milliseconds of their entries."""
        return ascending_from(times_ms, self._next_position)

    # --- one method for each kind of entry

    def _rate(
        self,
        users: NDArray[np.int32],
        items: NDArray[np.int32],
        values: NDArray[np.float32],
        timestamps: NDArray[np.float64],
        times_ms: NDArray[np.int64],
        events: EventRows,
    ) -> Applied:
        self._grow()
        for first_ms, rows in ((self._first_ms.values, users), (self._seen_ms.values, items)):
            is_new = first_ms[rows] == 0
            first_ms[rows[is_new][::-1]] = times_ms[is_new][::-1]  # reversed: the first wins
        positions = self.positions_of(times_ms)
        self._next_position = int(positions[-1]) + 1 if len(positions) else self._next_position
        batch = Batch(users, items, values, timestamps, times_ms, positions)
        if not (self.strengths.has_events or len(events.keys)):
            return Applied(self._rate_items(batch), [])
        if not self.strengths.has_events:
            self.strengths.separate()
        self.n_events += len(events.keys)
        sums = self.strengths.sums_before(batch)
        are_ratings = ~events.are_events
        changes = self._rate_items(batch.where(are_ratings)) if are_ratings.any() else NO_CHANGES
        strengths = self.strengths.apply(batch, events, sums)
        if self.occasions is not None:
            self.occasions.add(batch, events, self.strengths.are_first)
        for observer in self.observers if events.attributed else ():
            observer.note(users[events.are_events], self.strengths.are_first, events.attributed)
        return Applied(changes, [], Applied(strengths, []))

    def _rate_items(self, batch: Batch) -> Changes:
        self._last_ms.values[batch.users] = batch.times_ms  # the last of a user's ratings wins
        return self.table.apply(batch.users, batch.items, batch.values, batch.timestamps, batch.positions)

    def _apply_entry(self, entry: Entry) -> list[Applied]:
        """Apply an entry of another kind than ratings and events."""
        if entry.kind == "forget":
            row = self.users.forget(str(entry.subject))
            return [] if row is None else [self._drop_user(row)]
        if entry.merge is not None:
            return self._merge(entry.merge, entry.id.ms)
        if entry.items:
            rows = self._change_items(entry.items, [entry.id.ms] * len(entry.items))
            return [Applied(NO_CHANGES, [], described=rows)]
        # The others change nothing that a model learns.
        if entry.user_changes:
            self._change_users(entry.user_changes, [entry.id.ms] * len(entry.user_changes))
            return []
        if entry.subject is not None:
            row = self.items.row_or_new(entry.subject)
            self._grow()
            self._hidden_items.values[row] = entry.kind == "hide"
            self._seen_ms.values[row] = self._seen_ms.values[row] or entry.id.ms
            self.n_hidings += 1
        elif entry.document is not None:
            for observer in self.observers:
                observer.replace(entry.document)
            self.documents.apply(entry.document, entry.id)
        elif entry.retract is not None:
            return self._retract(entry.retract, entry.id)
        elif entry.unmark is not None:
            self.sources.unmark(entry.unmark)
        return []

    def _merge(self, merge: Merge, ms: int) -> list[Applied]:
        """Make a user part of another one, see `moving`; nothing if there is no such user."""
        user = self.users.row(merge.user)
        if user is None:
            return []
        into = self.users.row_or_new(merge.into)
        self._grow()
        self._first_ms.values[into] = self._first_ms.values[into] or ms
        ratings, first = moving(self.table, user, into), int(self.positions_of(np.array([ms]))[0])
        n_moving = len(ratings.items)
        batch = Batch(
            users=np.full(n_moving, into, dtype=np.int32),
            items=ratings.items,
            values=ratings.values,
            timestamps=ratings.timestamps,
            times_ms=np.full(n_moving, ms, dtype=np.int64),
            positions=first + np.arange(n_moving),
        )
        both = self.strengths.sums_of_both(user, into) if self.strengths.has_events else None
        applied = Applied(self._rate_items(batch), [])
        if both is not None:
            strengths = self.strengths.take_over(user, into, both, ratings.items, ms, first)
            applied = applied._replace(of_strengths=Applied(strengths, []))
        self._next_position = first + (n_moving if both is None else len(both.items)) + 1
        self.user_attributes.move(user, into)
        for observer in self.observers:
            observer.move(user, into)
        self.users.forget(merge.user)
        return [applied, self._drop_user(user)]

    def _retract(self, retraction: Retraction, at: StreamId) -> list[Applied]:
        """Take an event back; nothing if it is not known, or not any more."""
        user = self.users.row(retraction.user)
        if user is None or not self.strengths.has_events:
            return []
        (key,), (position,) = keys_of([retraction.event_id]), self.positions_of(np.array([at.ms]))
        taken = self.strengths.retract(user, key, at.ms, int(position))
        if taken is None:
            return []
        self._next_position = int(position) + 1
        self.retracted.append(at)
        if self.occasions is not None:
            self.occasions.remove(user, taken.item, taken.seconds, taken.amount)
        return [Applied(NO_CHANGES, [], Applied(taken.changes, []))]

    def _drop_user(self, user: int) -> Applied:
        self.user_attributes.drop(user)
        for observer in self.observers:
            observer.drop_user(user)
        ratings = ForgottenUser.of(user, self.table)
        if not self.strengths.has_events:
            return Applied(NO_CHANGES, [ratings])
        return Applied(NO_CHANGES, [ratings], Applied(NO_CHANGES, [self.strengths.drop_user(user)]))

    def _change_items(self, changes: Sequence[ItemChange], times_ms: Sequence[int]) -> NDArray[np.int64]:
        rows = self.items.rows_or_new([change.item for change in changes]).astype(np.int64)
        self._grow()
        self.catalog.grow(len(self.items))
        for row, change, ms in zip(rows.tolist(), changes, times_ms, strict=True):
            self._seen_ms.values[row] = self._seen_ms.values[row] or ms
            self.catalog.apply(row, change)
        return rows

    def _change_users(self, changes: Sequence[UserChange], times_ms: Sequence[int]) -> None:
        rows = self.users.rows_or_new([change.user for change in changes])
        self._grow()
        for row, change, ms in zip(rows.tolist(), changes, times_ms, strict=True):
            self._first_ms.values[row] = self._first_ms.values[row] or ms
            self.user_attributes.apply(row, change)

    def _grow(self) -> None:
        self.table.grow(len(self.users), len(self.items))
        self.strengths.grow(len(self.users), len(self.items))
        self._last_ms.grow(len(self.users))
        self._first_ms.grow(len(self.users))
        self._hidden_items.grow(len(self.items))
        self._seen_ms.grow(len(self.items))

    # --- entries of the log, column by column

    def _apply_batch(self, batch: pa.RecordBatch, behind: OneBehind, pool: ThreadPoolExecutor) -> None:
        kinds = np.array(batch.column("kind").dictionary.to_pylist())[batch.column("kind").indices.to_numpy()]
        are_events = kinds == "event"
        kinds = np.where(are_events, "rating", kinds)  # both go into the tables, and may alternate
        # A forgotten user gets a new row later, so each run between such entries looks up its own rows.
        bounds = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), batch.num_rows]
        for start, end in itertools.pairwise(bounds if len(kinds) else []):
            run, kind = batch.slice(start, end - start), str(kinds[start])
            if kind == "rating":
                looked_up = pool.submit(self.items.rows_or_new_of, column_of_log(run.column("item")))
                users = self.users.rows_or_new_of(column_of_log(run.column("user")))
                items = looked_up.result()
                timestamps = run.column("timestamp").to_numpy(zero_copy_only=False)
                times_ms = run.column("ms").to_numpy().astype(np.int64)
                values, events = self._values_of(run, are_events[start:end])
                behind.run(self._rate, users, items, values, timestamps, times_ms, events)
                continue
            behind.wait()
            if kind == "item":
                changes = [item_changes.decode_row(data) for data in run.column("data").to_pylist()]
                self._change_items(changes, run.column("ms").to_pylist())
                continue
            if kind == "user":
                described = [user_changes.decode_row(data) for data in run.column("data").to_pylist()]
                self._change_users(described, run.column("ms").to_pylist())
                continue
            for entry in entries_of(run):
                self._apply_entry(entry)
        if batch.num_rows:
            self.position = StreamId(batch.column("ms")[-1].as_py(), batch.column("seq")[-1].as_py())

    def _values_of(self, run: pa.RecordBatch, are_events: NDArray[np.bool_]) -> tuple[NDArray[Any], EventRows]:
        """The values of rows of ratings and events, and what else the events have."""
        values = run.column("rating").to_numpy(zero_copy_only=False)
        events = run.filter(pa.array(are_events))
        if events.num_rows:
            values = np.where(are_events, run.column("value").to_numpy(zero_copy_only=False), values).astype(np.float32)
        keys = keys_of(events.column("event_id").to_pylist())
        types, ids = events.column("type"), events.column("data")
        places = np.flatnonzero(ids.is_valid()).tolist()
        attributed = {n: Attributed(ids[n].as_py(), types[n].as_py()) for n in places}
        names = types.to_pylist()
        return values, EventRows(are_events, self.weights_of(names), self._bits_of(names), keys, attributed)


class Moving(NamedTuple):
    """Ratings that move, the oldest first.

    Attributes:
        items: int32 (B,), rows.
        values: float32 (B,).
        timestamps: float64 (B,), Unix seconds.
    """

    items: NDArray[np.int32]
    values: NDArray[np.float32]
    timestamps: NDArray[np.float64]


def moving(table: RatingTable, user: int, into: int) -> Moving:
    """Copies of the ratings that `into` takes over from `user`.

    These are newer than those of `into`, wherever they came, or of items that `into` has not rated. (Events add up, as
    those of one user do. Repeated `event_id`s of either user stay repeated ones.)
    """
    items, values, timestamps, positions = table.row(user)
    theirs, _, _, their_positions = table.row(into)
    places = np.searchsorted(theirs, items)
    have = places < len(theirs)
    have[have] = theirs[places[have]] == items[have]
    newest = np.full(len(items), -1, dtype=np.int64)
    newest[have] = their_positions[places[have]]
    moves = np.flatnonzero(positions > newest)
    order = moves[np.argsort(positions[moves])]
    return Moving(items[order], values[order], timestamps[order])
