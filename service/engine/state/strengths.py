"""`Strengths`: what implicit models learn of each (user, item), ratings and typed events together.

The strength of a pair is its rating, the sum of its events, each with its weight times its value, or both in one
number (`gpu.data.evidence`). A pair without a rating whose events sum up to 0 has no strength: it was only seen. As
long as there is no event, the table of strengths shares the content of the table of ratings.

A table of its own holds the sums of pairs that were also rated or only seen, since their strengths have them rounded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.growing import Growing
from gpu.data.changes import Changes
from gpu.data.evidence import packed, unpacked
from gpu.data.rating_table import RatingTable
from gpu.online.events import N_SHOWINGS, NO_KEY, RECORD, EventRecords, PairTypes, RecentKeys, Showings
from gpu.online.host.events import add_up
from service.engine.state.applied import NO_CHANGES, ForgottenUser
from service.engine.state.strength_rows import Batch, EventRows, Sums

# Largest sum of the events of a pair, also below 0: beyond it a sum stays where it is. A hundred purchases say no more
# about taste than a thousand do, and a script in a loop must not outweigh what all others did.
MAX_SUM = 1000.0
NO_ITEMS = np.zeros(0, dtype=np.int32)


class Retracted(NamedTuple):
    """An event that was taken back.

    Attributes:
        item: its row.
        amount: what it had added to the sum of its pair; NaN: nothing.
        seconds: Unix seconds of the event.
        changes: of the table of strengths.
    """

    item: int
    amount: float
    seconds: float
    changes: Changes


class Strengths:
    """Strengths of all pairs, and the sums of events behind them. Belongs to a `History`.

    Attributes:
        table: the strength of each pair.
        has_events: whether there has been an event; from then on `table` shares nothing with the ratings.
        are_first: bool (E,), whether each event of the last batch was no repetition of an earlier one.
        showings: the newest events with the weight 0, which say that an item was shown.
        types: of which types the events of each pair were.
    """

    def __init__(self, ratings: RatingTable, last_ms: Growing) -> None:
        """Share the content of `ratings`, and `last_ms`, the time of each user's last rating."""
        self._ratings, self.table, self._last_ms = ratings, RatingTable(), last_ms
        self.table.share(ratings)
        self.has_events, self.are_first = False, np.zeros(0, dtype=np.bool_)
        self._sums, self._recent = RatingTable(), RecentKeys()  # the sums of pairs that were also rated, or only seen
        self._records = EventRecords()  # of the events of `_recent`
        self._has_apart = False  # whether there has been such a sum
        self.showings, self.types = Showings(), PairTypes()

    def grow(self, n_users: int, n_items: int) -> None:
        """Grow to at least (n_users, n_items)."""
        if self.has_events:
            self.table.grow(n_users, n_items)
            self._sums.grow(n_users, n_items)
            self._recent.grow(n_users)
            self._last_ms.grow(n_users)

    def separate(self) -> None:
        """Share no longer with the ratings."""
        self.table.separate()
        last_ms = Growing(np.zeros(0, dtype=np.int64))
        last_ms.grow(len(self._last_ms.values))
        last_ms.values[:] = self._last_ms.values
        self._last_ms, self.has_events = last_ms, True
        self.grow(self.table.n_users, self.table.n_items)

    def sums_before(self, batch: Batch) -> Sums:
        """The events so far of the pairs of a batch; call it before the table of ratings applies the batch."""
        pairs = batch.users.astype(np.int64) << 32 | batch.items
        order = np.argsort(pairs)
        ordered = pairs[order]
        are_new = np.ones(len(pairs), dtype=np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=are_new[1:])
        if are_new.all():
            return self._sums_of(batch.users, batch.items)
        pair_of, firsts = np.empty(len(pairs), dtype=np.int64), order[are_new]
        pair_of[order] = np.cumsum(are_new) - 1
        users, items = batch.users[firsts], batch.items[firsts]
        return self._sums_of(users, items)._replace(pair_of=pair_of)

    def _sums_of(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Sums:
        """The events so far of distinct pairs, (P,)."""
        strengths, strong_s = self.table.looked_up(users, items)
        apart, apart_s = np.full_like(strengths, np.nan), np.full_like(strong_s, np.nan)
        if self._has_apart:
            apart, apart_s = self._sums.looked_up(users, items)
        ratings, rated_s = np.full_like(strengths, np.nan), np.full_like(strong_s, np.nan)
        may_be_rated = np.flatnonzero(~np.isnan(strengths))  # every rated pair has a strength
        ratings[may_be_rated], rated_s[may_be_rated] = self._ratings.looked_up(users[may_be_rated], items[may_be_rated])
        are_apart = ~np.isnan(apart)
        are_strengths = np.isnan(ratings) & ~np.isnan(strengths)
        sums = np.where(are_strengths, unpacked(strengths)[1], apart)
        latest = np.where(are_strengths, strong_s, np.where(are_apart, apart_s, -np.inf))
        return Sums(users, items, np.arange(len(items)), ratings, rated_s, sums, latest, are_apart)

    def apply(self, batch: Batch, events: EventRows, before: Sums) -> Changes:
        """Apply a batch, after the table of ratings has applied its ratings.

        Args:
            before: the result of `sums_before`; is changed.

        Returns:
            The changes of strengths. Rows of one pair tell the strength after the whole batch.
        """
        changes = self._add(batch, events, before)
        users, items, pair_of, ratings, rated_s, sums, latest, _ = before
        if not events.are_events.all():
            ratings, rated_s = self._ratings.looked_up(users, items)
        self._keep_apart(before, ~np.isnan(ratings), int(batch.positions[-1]) if len(pair_of) else 0)
        strengths = packed(ratings, sums)[pair_of[changes]]
        changed = batch.where(changes)
        self._last_ms.values[changed.users] = changed.times_ms  # the last one wins
        times = np.fmax(rated_s, latest)[pair_of[changes]]
        return self.table.apply(changed.users, changed.items, strengths, times, changed.positions)

    def sums_of_both(self, user: int, into: int) -> Sums:
        """The events that `into` has with those of `user`, of all items of `user`; call it before ratings move."""
        items = np.union1d(self.table.row(user)[0], self._apart(user)[0])
        old, new = (self._sums_of(np.full(len(items), row, dtype=np.int32), items) for row in (user, into))
        sums = np.clip(np.nan_to_num(new.sums) + np.nan_to_num(old.sums), -MAX_SUM, MAX_SUM)
        sums = np.where(np.isnan(old.sums), new.sums, sums).astype(np.float32)
        counts = np.nan_to_num(old.sums) != 0  # what was only seen does not make a strength younger
        return new._replace(sums=sums, latest=np.where(counts, np.maximum(old.latest, new.latest), new.latest))

    def take_over(self, user: int, into: int, both: Sums, rated: NDArray[np.int32], ms: int, position: int) -> Changes:
        """Make what is known of `user` that of `into`, after the table of ratings has done so.

        Args:
            user, into: rows.
            both: the result of `sums_of_both`.
            rated: the items whose ratings moved.
            ms, position: Unix milliseconds of the entry, and its first position.
        """
        ratings, rated_s = self._ratings.looked_up(both.users, both.items)
        self._keep_apart(both, ~np.isnan(ratings), position)
        strengths, times = packed(ratings, both.sums), np.fmax(rated_s, both.latest)
        was = self.table.looked_up(both.users, both.items)[0]
        is_other = (strengths != was) & ~(np.isnan(strengths) & np.isnan(was))
        changed = np.flatnonzero(is_other | np.isin(both.items, rated))
        items, _, _, positions = self.table.row(user)
        changed = changed[np.argsort(positions[np.searchsorted(items, both.items[changed])])]  # the oldest first
        if len(changed):
            self._last_ms.values[into] = ms
        # Take over types and keys of events, and what was shown; of both users' showings the latest are kept.
        typed, bits = self.types.of(user)
        self.types.add(np.full(len(typed), into, dtype=np.int32), typed, bits)
        keys = self._recent.of(user)
        are_new = self._recent.take(np.full(len(keys), into, dtype=np.int32), keys)
        self._records.add(np.full(np.count_nonzero(are_new), into), self._records.of(user)[are_new])
        showings = [self.showings.of(row) for row in (into, user)]
        shown_items, seconds = (np.concatenate(columns) for columns in zip(*showings, strict=True))
        order = np.argsort(seconds, kind="stable")[-N_SHOWINGS:]
        self.showings.drop_user(into)
        rows = np.full(len(order), into, dtype=np.int32)
        self.showings.add(rows, shown_items[order], seconds[order].astype(np.float64))
        return self.table.apply(
            both.users[changed],
            both.items[changed],
            strengths[changed],
            times[changed],
            position + np.arange(len(changed)),
        )

    def retract(self, user: int, key: int, ms: int, position: int) -> Retracted | None:
        """Take back an event, as if it had not come; None if it is not among the last of its user.

        That is exact unless events without a key came to the pair after it, or the pair of another user was added to
        this one: then the sum only loses what the event added, and stays as young as it was. The type of the event is
        forgotten unless an event of it came before, or with a key later.

        Args:
            user: row.
            key: of the event.
            ms, position: Unix milliseconds of the entry, and its position.
        """
        keys = self._recent.of(user)
        places = np.flatnonzero(keys == key)
        if not len(places):
            return None
        place, records = int(places[0]), self._records.of(user)
        gone, changes = records[place].copy(), NO_CHANGES
        row, amount, seconds = int(gone["item"]), float(gone["amount"]), float(gone["seconds"])
        item = max(row, ~row)
        if not np.isnan(amount):
            before = self._sums_of(np.array([user], dtype=np.int32), np.array([item], dtype=np.int32))
            types, bits = self.types.of(user)
            total, latest, rest = _without(records, place, before.sums, before.latest, int(bits[types == item].sum()))
            self.types.replace(user, item, rest)
            before = before._replace(sums=total, latest=latest)
            self._keep_apart(before, ~np.isnan(before.ratings), position)
            if item == row:
                strength = packed(before.ratings, total)
                times = np.where(np.isnan(strength), ms / 1000, np.fmax(before.rated_s, latest))
                changes = self.table.apply(before.users, before.items, strength, times, np.array([position]))
                self._last_ms.values[user] = ms
            else:
                self.showings.remove(user, item, seconds)
        # The other events stay, in their order.
        self._recent.drop_user(user)
        self._records.drop_user(user)
        rows = np.full(len(keys) - 1, user, dtype=np.int32)
        self._recent.take(rows, np.delete(keys, place))
        self._records.add(rows, np.delete(records, place))
        return Retracted(item, amount, seconds, changes)

    def remembers(self, user: int, key: int) -> bool:
        """Whether an event is among the last of a user with a key, so that it can be taken back."""
        return self.has_events and bool((self._recent.of(user) == key).any())

    def drop_user(self, user: int) -> ForgottenUser:
        """Delete all that is known of a user, once there are events."""
        self._sums.drop_user(user)
        self._recent.drop_user(user)
        self._records.drop_user(user)
        self.showings.drop_user(user)
        self.types.drop_user(user)
        return ForgottenUser.of(user, self.table)

    @property
    def last_ms(self) -> NDArray[np.int64]:
        """Unix milliseconds of the last change of each user, int64 (U,)."""
        return self._last_ms.values

    def put_off_raters(self) -> None:
        """See `RatingTable.put_off_raters`, which the table of ratings has done."""
        self._sums.put_off_raters()
        if self.has_events:
            self.table.put_off_raters()
        else:
            self.table.share(self._ratings)

    def pack(self) -> None:
        """See `RatingTable.pack`, which the table of ratings has done."""
        self._sums.pack()
        self.types.pack()
        if self.has_events:
            self.table.pack()
        else:
            self.table.share(self._ratings)

    # --- one user

    def only_seen(self, user: int) -> NDArray[np.int32]:
        """Items without a strength that a user has events of."""
        items, sums = self._apart(user)
        seen: NDArray[np.int32] = items[sums == 0]
        return seen

    def unrated(self, user: int, *, without_seen: bool = False) -> NDArray[np.int32]:
        """Items that a user has events of, and perhaps some that the user has rated.

        `without_seen` leaves out the unrated ones of `only_seen`.
        """
        if not self.has_events:
            return NO_ITEMS
        apart, sums = self._apart(user)
        return np.append(self.table.row(user)[0], apart[sums != 0] if without_seen else apart)

    def disliked(self, user: int) -> NDArray[np.int32]:
        """Items whose events sum up to less than 0 for a user."""
        if not self.has_events:
            return NO_ITEMS
        items, strengths, *_ = self.table.row(user)
        is_rated = np.isin(items, self._ratings.row(user)[0])
        apart, sums = self._apart(user)
        return np.append(items[(strengths < 0) & ~is_rated], apart[sums < 0])

    def sums(self, user: int, items: NDArray[np.int32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """(sums of events, NaN for none; Unix seconds of the newest of those that count) of distinct `items`, (B,)."""
        if not self.has_events:
            return np.full(len(items), np.nan, dtype=np.float32), np.full(len(items), -np.inf)
        before = self._sums_of(np.full(len(items), user, dtype=np.int32), items)
        return before.sums, before.latest

    def _apart(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        return self._sums.row(user)[:2] if self.has_events else (NO_ITEMS, NO_ITEMS.astype(np.float32))

    # --- a batch

    def _add(self, batch: Batch, events: EventRows, before: Sums) -> NDArray[np.bool_]:
        """Add the events to `before`; returns which rows of the batch may change a strength, bool (B,)."""
        rows = batch.where(events.are_events)
        self.are_first = self._recent.take(rows.users, events.keys)
        counts = self.are_first & ~np.isnan(events.weights)
        seconds = np.minimum(rows.timestamps, rows.times_ms / 1000)
        times = seconds.copy()
        are_shown = events.weights == 0
        if are_shown.any():
            new = are_shown & counts
            self.showings.add(rows.users[new], rows.items[new], seconds[new])
            times[are_shown] = -np.inf  # what was only seen does not make a strength younger
        pairs, amounts = before.pair_of[events.are_events], rows.values * events.weights
        records = np.zeros(len(amounts), dtype=RECORD)
        records["item"], records["amount"] = np.where(are_shown, ~rows.items, rows.items), amounts
        records["seconds"], records["bit"] = seconds, events.bits
        records["bits"][counts] = self.types.add(rows.users[counts], rows.items[counts], events.bits[counts])
        found = add_up(pairs[counts], amounts[counts], times[counts], MAX_SUM, before.sums, before.latest)
        records["sum"][counts], records["latest"][counts] = found
        has_key = self.are_first & (events.keys != NO_KEY)
        self._records.add(rows.users[has_key], records[has_key])
        may_change = ~events.are_events
        may_change[events.are_events] = counts & (events.weights != 0)
        return may_change

    def _keep_apart(self, before: Sums, are_rated: NDArray[np.bool_], position: int) -> None:
        """Update the table of sums: it has those of pairs that are rated or were only seen."""
        users, items, *_, sums, latest, were_apart = before
        are_apart = ~np.isnan(sums) & (are_rated | (sums == 0))
        changed = are_apart | were_apart
        if changed.any():
            values = np.where(are_apart, sums, np.float32(np.nan))[changed]
            positions = np.full(len(values), position)
            self._sums.apply(users[changed], items[changed], values, latest[changed], positions)
            self._has_apart = True


def _without(
    records: NDArray[np.void], place: int, total: NDArray[np.float32], latest: NDArray[np.float64], bits: int
) -> tuple[NDArray[np.float32], NDArray[np.float64], int]:
    """The sum and the latest time, (1,) each, and the types of a pair without one of its events.

    They are NaN, −∞ and 0 for no more events.

    Args:
        records: of the user, (E,); those of later events of the pair are changed, as if this one had not come.
        place: of the event.
        total, latest, bits: of the pair so far, (1,).
    """

    def after(record: np.void, state: tuple[NDArray[np.float32], NDArray[np.float64]]) -> None:
        """Add an event to a state, in place."""
        seconds = record["seconds"] if record["item"] >= 0 else -np.inf
        add_up(np.zeros(1, np.int64), np.array([record["amount"]]), np.array([seconds]), MAX_SUM, *state)

    def less(was: np.float32, then: np.float64) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """A state that something else than the events of `records` has changed."""
        return np.clip(np.array([was - gone["amount"]], np.float32), -MAX_SUM, MAX_SUM), np.array([then])

    gone = records[place].copy()
    items = np.maximum(records["item"], ~records["item"])
    old = np.array([gone["sum"]]), np.array([gone["latest"]])  # with the event, and as if it had not come
    new = old[0].copy(), old[1].copy()
    after(gone, old)
    of_pair = np.flatnonzero((items == items[place]) & ~np.isnan(records["amount"]))
    earlier = np.bitwise_or.reduce(records["bit"][of_pair[of_pair < place]])  # also those of a merged user
    old_bits, new_bits = int(gone["bits"] | gone["bit"]), int(gone["bits"] | earlier)
    for n in of_pair[of_pair > place]:
        record = records[n]  # a view
        was, then = record["sum"], record["latest"]
        new = new if (old[0][0], old[1][0]) == (was, then) else less(was, then)
        old = np.array([was]), np.array([then])
        record["sum"], record["latest"] = new[0][0], new[1][0]
        new = new[0].copy(), new[1].copy()
        new_bits |= int(record["bits"]) & ~old_bits
        old_bits, record["bits"] = int(record["bits"] | record["bit"]), new_bits
        new_bits |= int(record["bit"])
        after(record, old)
        after(record, new)
    new = new if (old[0][0], old[1][0]) == (total[0], latest[0]) else less(total[0], latest[0])
    return new[0], np.where(np.isnan(new[0]), -np.inf, new[1]), new_bits | bits & ~old_bits
