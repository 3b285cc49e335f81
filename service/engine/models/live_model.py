"""`LiveModel`: a model that uses the rows of the history and learns from every entry. Nothing else changes a model."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.base.growing import Growing
from gpu.data.evidence import amounts
from gpu.data.host_ids import NO_ROW, IdColumn
from gpu.data.model import Model
from gpu.data.rating_table import times_of
from gpu.data.ratings import Rows
from gpu.data.signals import Repeat, Trend
from gpu.online import ReadyModel, explain
from gpu.online.reading import ANONYMOUS, Reading
from gpu.ranking import topn
from gpu.ranking.eligible import Eligible
from gpu.ranking.requests import Users
from gpu.ranking.weighted import Moments, heard_in_time, heard_with, weights_by_time
from gpu.repeat.own import Own, parts_of, recommend
from gpu.trend.host_counts import DecayedCounts
from service.engine.models.shelf import Hidden
from service.engine.state.applied import Applied
from service.engine.state.catalog import Catalog
from service.engine.state.history import History
from service.engine.state.id_table import RETIRED, IdTable
from service.engine.state.positions import position_of
from service.storage.events import StreamId
from service.storage.snapshots.content_map import NO_CONTENT, ContentMap, ContentMaps
from service.storage.snapshots.manifest import Manifest
from service.storage.snapshots.snapshot import Snapshot
from service.storage.snapshots.version_names import is_version, name_of, shown

MOST_ITEMS = 128  # items of a slice; to read the attributes of one takes some microseconds
NUMBERS_AT_ONCE = 2**18  # weights read in a slice; they are copied as float64
TAGS = 8  # known tags of a usual item

IDS_PER_SLICE = 5000  # ids that are looked up in one slice of the engine thread
VISIBLE: Hashable = 0  # before any hiding
NO_ITEMS = np.zeros(0, dtype=np.int32)
NO_REPEAT = Repeat()


class LiveModel:
    """One model by name, live or being prepared. Belongs to the engine thread.

    Attributes:
        manifest: manifest of its snapshot.
        table: what it learns: implicit models strengths (`service.engine.state.strengths`), explicit ones ratings.
        online: the parameters, which learn from the history.
        unknown: bool (I,), items with neither ratings, nor training, nor a prior.
    """

    def __init__(
        self, manifest: Manifest, ready: ReadyModel, history: History, content: ContentMaps = NO_CONTENT
    ) -> None:
        """Take over a model in the rows of `history`, and queue refits of the users who changed since its watermark.

        The model is behind until `settle` returns true. With the `content` of its snapshot, items without training have
        priors by their attributes, and users without ratings parameters.
        """
        self.manifest, version = manifest, manifest.version
        self.name = name_of(version) if is_version(version) else manifest.algorithm
        self.shown_version = shown(version)
        self._history = history
        self.table = history.table_of(has_strengths=ready.model.is_implicit)
        # Arguments of the last `index.hide`, and whether hidden or unknown items have changed since:
        self._must_hide_again, self._hidden, self._min_ratings = True, VISIBLE, 0
        self._lifted_at, self._level = 0, 0  # `n_changes` and `level` of the counts when items were lifted last
        self.unknown = np.zeros(0, dtype=np.bool_)
        self._priors = None if content.items is None else ItemPriors(content.items, history.catalog)
        self._map_of_users = content.users
        watermark = StreamId.parse(manifest.watermark)
        # Trained items learn from the ratings that are new since the snapshot. But snapshots of format 1 do not have
        # the number of training ratings of each item. And a model that was trained elsewhere, on a file for example,
        # knows no user of the log: all its ratings would be missing, and its items start from zero.
        is_of_this_log = bool(ready.model.user_trained.any()) or not manifest.n_users
        since = position_of(watermark) if manifest.format > 1 and is_of_this_log else None
        self.online = ready.follow(history.users.keys, history.items.keys, since, self._priors)
        self.online.touch(history.changed_since(watermark, has_strengths=ready.model.is_implicit))
        if self._priors is not None:
            self.online.renew(np.flatnonzero(history.catalog.listed))
        self._update_unknown(NO_ITEMS)

    @property
    def version(self) -> str:
        """The version of its snapshot."""
        return self.manifest.version

    @property
    def learns_events(self) -> bool:
        """Whether it learns strengths, of ratings and events; else ratings alone."""
        return self.model.is_implicit

    @property
    def takes_weights(self) -> bool:
        """Whether a fold-in can weigh the ratings of a user: implicit ALS alone multiplies confidence."""
        return self.model.params.refits == "exact" and self.model.params.has_values

    @property
    def model(self) -> Model:
        """Its present parameters."""
        return self.online.model

    @property
    def trend(self) -> Trend | None:
        """How much of what is popular now is in its scores; None if its training had no times."""
        return self.model.calibration.trend

    def learn(self, applied: Applied) -> None:
        """Queue the changes that the history has just applied. This is cheap; `settle` does the work."""
        described, applied = applied.described, applied.strengths if self.learns_events else applied
        self.online.grow(self._history.users.keys, self._history.items.keys)
        if self._priors is not None:
            self.online.renew(described)
        self.online.note(applied.changes)
        for gone in applied.forgotten:
            self.online.forget(gone.user, gone.items, gone.values)
        self._update_unknown(np.concatenate([applied.changes.items, *(gone.items for gone in applied.forgotten)]))

    def settle(self, budget_s: float | None) -> bool:
        """Do pending refits for about `budget_s` seconds (None: all of them); true when none is left."""
        is_done = self.online.settle(budget_s)
        self._show_informed()
        return is_done

    def catch_up(self, budget_s: float) -> bool:
        """Refit trained items whose ratings have changed, and users who rated them; like `settle`."""
        is_done = self.online.catch_up(budget_s)
        self._show_informed()
        return is_done

    def is_personal(self, items: NDArray[np.int32]) -> bool:
        """Whether ratings of these items tell the model something about a user."""
        return bool(np.count_nonzero(self.model.item_trained[items]))

    def are_personal(self, rows: Rows) -> NDArray[np.bool_]:
        """`is_personal` of each row, bool (B,)."""
        are_personal: NDArray[np.bool_] = rows.lengths > 0
        rated = np.flatnonzero(are_personal)  # where a row without ratings starts may be anything
        are_personal[rated] = self.model.item_trained[rows.items[rows.starts[rated]]]
        if np.count_nonzero(are_personal) < len(rated):  # look at more than the first item of each
            for b in rated[~are_personal[rated]].tolist():
                are_personal[b] = self.is_personal(rows.items[rows.starts[b] : rows.starts[b] + rows.lengths[b]])
        return are_personal

    def newest(self, user: int, n: int) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32] | None]:
        """(items, values, weights by time) of the newest `n` of what a user has in `table`, or of all; items ascend.

        Models in which time does not count have no weights.
        """
        items, values, timestamps, positions = self.table.row(user)
        is_new = positions >= (np.partition(positions, -n)[-n] if len(items) > n else 0)
        items, values, positions = items[is_new], values[is_new], positions[is_new]
        times = times_of(timestamps[is_new], positions)
        return items, values, weights_by_time(self.model, np.array([len(items)]), values, times, positions)

    def dated(self, user: int) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float64]]:
        """(items, values, Unix seconds) of what a user has in `table`; items ascend."""
        items, values, timestamps, positions = self.table.row(user)
        return items, values, times_of(timestamps, positions)

    def rows_of(self, users: NDArray[np.int64]) -> Rows:
        """What `users` (B,) have in `table`, for `recommend` and `gpu.ranking.topn`."""
        table = self.table

        def moments_of(entries: NDArray[np.int64]) -> Moments:
            positions = table.positions[entries]
            return times_of(table.timestamps[entries], positions), positions

        return heard_in_time(self.model, topn.rows_of(table.rows, users), moments_of)

    def kept_out(self, user: int, *, include_seen: bool, rotates: bool = False) -> NDArray[np.int32]:
        """Items that events keep out of the lists of a user, beside those of the user's row in `table`.

        With `include_seen` these are only the disliked ones. A list that `rotates` shows again what was only seen.
        """
        strengths = self._history.strengths
        if include_seen:
            return strengths.disliked(user)
        if rotates:
            return NO_ITEMS if self.learns_events else strengths.unrated(user, without_seen=True)
        return strengths.only_seen(user) if self.learns_events else strengths.unrated(user)

    def have_few(self, below: int) -> NDArray[np.bool_]:
        """The items that have fewer than `below` ratings and a score of this model, bool (I,)."""
        have_score = self.model.item_trained if self.model.params.has_item_weights else ~self.unknown
        return (self.table.item_counts < below) & have_score

    # --- answers

    def recommend(
        self,
        users: Users,
        rows: Rows,
        n: int,
        hidden: Hidden,
        *,
        offset: int = 0,
        include_seen: bool = False,
        min_ratings: int = 0,
        exclude: Sequence[NDArray[np.integer]] | None = None,
        candidates: Sequence[NDArray[np.integer] | None] | None = None,
        eligible: Sequence[Eligible | None] | None = None,
        counts: DecayedCounts | None = None,
        own: Sequence[Own] | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The `n` best items of each user after the first `offset`, or fewer if there are no more; see
        `gpu.ranking.topn`.

        Args:
            hidden: items to leave out of all lists.
            counts: what is popular now, if it is in the scores.
            own: what each user had, with its part in scores, which competes too; None: `include_seen` decides.
            min_ratings: items with fewer ratings at present are left out too.
        """
        n = max(1, min(n, self.model.n_items))
        # Give the index the items that stay out of lists, if they may have changed. Comparing all items would take half
        # a millisecond at a million items, too long for each batch.
        self._must_hide_again |= self._hidden != hidden.version
        if self._must_hide_again or min_ratings or self._min_ratings:
            out = hidden.mask | self.unknown
            if min_ratings:
                out |= self.table.item_counts < min_ratings
            self.online.index.hide(out)
            self._must_hide_again, self._hidden, self._min_ratings = False, hidden.version, min_ratings
        if counts is not None and counts.n_changes != self._lifted_at:
            items = counts.changed_since(self._lifted_at) if counts.level == self._level else None
            items = np.arange(len(counts.sums.values)) if items is None else items
            items = items[items < self.model.n_items]
            self._lifted_at, self._level = counts.n_changes, counts.level
            self.online.index.lift(items, self.lifts(counts, items).astype(np.float32))
        if own is None:
            return topn.recommend(
                self.online.index,
                users,
                rows,
                n,
                offset=offset,
                include_seen=include_seen,
                exclude=exclude,
                candidates=candidates,
                eligible=eligible,
            )
        competing = list[Own]()
        for had, added in own:
            are_shown = ~(hidden.mask[had] | self.unknown[had]) & (self.table.item_counts[had] >= min_ratings)
            own_items, parts = had[are_shown], added[are_shown]
            competing.append(Own(own_items, parts if counts is None else parts + self.lifts(counts, own_items)))
        conditions = {"exclude": exclude, "candidates": candidates, "eligible": eligible}
        return recommend(self.online.index, users, rows, competing, n, offset=offset, **conditions)  # type: ignore[arg-type]

    def lifts(self, counts: DecayedCounts, rows: NDArray[np.integer]) -> NDArray[np.float64]:
        """The part of what is popular now in the scores of `rows` (B,), float64 (B,); only with a `trend`."""
        return (0.0 if self.trend is None else self.trend.weight) * counts.shares(rows)

    @property
    def repeat(self) -> Repeat:
        """Whether what users had comes back."""
        return self.model.calibration.repeat or NO_REPEAT

    def own_of(self, items: NDArray[np.int32], values: NDArray[np.float32], seconds: NDArray[np.float64]) -> Own:
        """The items of a user that may come back, with the part of the user's own past in their scores.

        Args:
            items, values: what the user has in `table`, ascending.
            seconds: when, Unix seconds.
        """
        parts, comes = parts_of(self.repeat, values, seconds), amounts(values) > 0
        return Own(items[comes], parts[comes])

    def fold_in(
        self, items: NDArray[np.int32], values: NDArray[np.float32], reading: Reading = ANONYMOUS
    ) -> tuple[Users, Rows]:
        """Parameters and row of a user with these ratings; items must ascend. Stores nothing."""
        rows = Rows(np.zeros(1, dtype=np.int64), np.array([len(items)], dtype=np.int64), items, values)
        return self.online.fold_in(items, values, reading), heard_with(self.model, rows, reading.weights)

    def by_attributes(self, user: int) -> Users | None:
        """Parameters of a user by the attributes alone; None if they tell the model nothing."""
        if self._map_of_users is None:
            return None
        priors, exist = self._map_of_users.priors([(self._history.user_attributes.of(user).tags, None)])
        factors = priors.astype(np.float32)
        return Users(factors[:, :-1].copy(), factors[:, -1].copy(), np.zeros(1, dtype=np.float32)) if exist[0] else None

    def estimates(self, users: Users, rows: Rows, items: NDArray[np.integer]) -> NDArray[np.float32]:
        """Estimated rating of each user for each of `items`, (B, n), as float32 (B, n); see `gpu.ranking.topn`."""
        return topn.estimate(self.model, users, rows, items)

    def estimate(self, user: int | None, item: int | None) -> float:
        """Estimated rating of a user for an item. None is a user or item without ratings and counts as average."""
        users, rows = topn.nobody(self.model), heard_with(self.model, topn.NO_ROWS, np.zeros(0, dtype=np.float32))
        if user is not None:
            one = np.array([user])
            users, rows = topn.users_of(self.model, one), self.rows_of(one)
        if item is None:
            return float(topn.estimate_unknown(self.model, users)[0])
        return float(self.estimates(users, rows, np.array([[item]], dtype=np.int32))[0, 0])

    def reasons(
        self,
        items: NDArray[np.int32],
        values: NDArray[np.float32],
        targets: Sequence[int],
        n: int,
        weights: NDArray[np.float32] | None = None,
    ) -> list[explain.Reasons]:
        """For each target the `n` rated items that contribute most to its score, and their contributions."""
        return explain.reasons(self.model, items, values, targets, n, self.online.gram, weights)

    def _show_informed(self) -> None:
        """Update `unknown` for items that refits have found to have a prior, or none any more."""
        if self._priors is not None and self._priors.moved:
            self._update_unknown(np.array(sorted(self._priors.moved)))
            self._priors.moved.clear()

    def _update_unknown(self, items: NDArray[np.integer]) -> None:
        """Update `unknown` for `items` and for items added since the last call."""
        counts, trained, n_seen = self.table.item_counts, self.model.item_trained, len(self.unknown)
        if len(counts) > n_seen:
            self.unknown = np.append(self.unknown, (counts[n_seen:] == 0) & ~trained[n_seen:])
            self._must_hide_again = True
        are_unknown = (counts[items] == 0) & ~trained[items]
        if self._priors is not None:
            are_unknown &= ~self._priors.exist(items)
        self._must_hide_again |= bool((are_unknown != self.unknown[items]).any())
        self.unknown[items] = are_unknown


def rows_of(snapshot: Snapshot, history: History) -> Generator[None, None, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The history's rows of a snapshot's users and items, −1 where there is none; in slices.

    A user who was forgotten after the snapshot and came back counts as another user.
    """
    watermark = StreamId.parse(snapshot.manifest.watermark)
    users = yield from _looked_up(snapshot.user_ids, history.users)
    for first in range(0, len(users), IDS_PER_SLICE):
        part = users[first : first + IDS_PER_SLICE]
        present = np.flatnonzero(part != NO_ROW)
        part[present[~history.is_known_at(part[present], watermark)]] = NO_ROW
        yield
    items = yield from _looked_up(snapshot.item_ids, history.items)
    return users, items


def _looked_up(ids: Sequence[str], table: IdTable) -> Generator[None, None, NDArray[np.int64]]:
    """Rows of `ids`, int64 (B,), `NO_ROW` where there is none; in slices.

    A training reads the log that the history has read, so its ids mostly have the rows of the history. To compare those
    takes a tenth of the time of looking them up.
    """
    rows, guess = np.empty(len(ids), dtype=np.int64), 0
    for first in range(0, len(ids), IDS_PER_SLICE):
        part = ids[first : first + IDS_PER_SLICE]
        at = slice(first, first + len(part))
        is_right = table.ids(range(guess, min(guess + len(part), len(table)))) == part and RETIRED not in part
        rows[at] = np.arange(guess, guess + len(part)) if is_right else table.rows_of(IdColumn.of(part))
        guess = int(rows[at].max()) + 1
        yield
    return rows


class ItemPriors:
    """See `gpu.online.priors.Priors`. Nothing is kept of an item but whether it has a prior.

    Attributes:
        most: see `gpu.online.priors.Priors`.
        moved: items that got a prior or lost it since the owner cleared this.
    """

    def __init__(self, content: ContentMap, catalog: Catalog) -> None:
        self._content, self._features = content, catalog.features
        n_numbers = content.weights.shape[1] * (content.features.n_dimensions + TAGS)
        self.most = max(min(NUMBERS_AT_ONCE // n_numbers, MOST_ITEMS), 1)
        self._exist = Growing(np.zeros(0, dtype=np.bool_))
        self.moved: set[int] = set()

    def exist(self, items: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether each of `items` (B,) had a prior when it was last refitted."""
        exist = np.zeros(len(items), dtype=np.bool_)
        is_noted = items < len(self._exist.values)
        exist[is_noted] = self._exist.values[items[is_noted]]
        return exist

    def of(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """[p; b] of `items` (B,), float64 (B, F + 1); zeros for items without known attributes. About 5 µs an item."""
        priors = np.zeros((len(items), self._content.weights.shape[1]))
        self._exist.grow(int(items.max(initial=-1)) + 1)
        for first in range(0, len(items), self.most):
            part = items[first : first + self.most]
            priors[first : first + self.most], exist = self._content.priors(list(map(self._features, part.tolist())))
            self.moved.update(part[self._exist.values[part] != exist].tolist())
            self._exist.values[part] = exist
        return priors
