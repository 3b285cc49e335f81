"""`Sources`: what ranks the items of a group of plans: a model, or a list that stands in for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from gpu.data.ratings import Rows
from gpu.data.refit_rules import MAX_RATINGS_OF_USERS
from gpu.data.signals import Trend
from gpu.online.explain import Reasons
from gpu.ranking import topn
from gpu.ranking.diversity import similarities
from gpu.ranking.eligible import Eligible
from gpu.ranking.requests import Users
from gpu.repeat.own import Own
from gpu.trend.host_counts import DecayedCounts
from service.engine.errors import UnknownUser
from service.engine.lists.common_lists import CommonLists
from service.engine.lists.exploration import NO_LEVELS, Exploration, Levels
from service.engine.lists.plan import Group
from service.engine.lists.selection import Selection
from service.engine.models.live_model import LiveModel
from service.engine.models.live_models import NONE_LIVE, LiveModels
from service.engine.models.what_if import Extra, WhatIf
from service.engine.queries import Fallback, Recommend, Repeat
from service.engine.queries.batches import of_each
from service.engine.state.history import History

N_REASONS = 3
NO_MODEL = f"{NONE_LIVE}; these are {{shown}} items"
PREPARING = "{expected} is being prepared (GET /health/ready says how far it is): these are {shown} items"
NO_TASTE = "no rating is of an item that the model knows: these are {shown} items"
NOT_DIVERSE = "diversity has no effect: only a live model knows which items are alike"
SHOWN = {"popular": "the most popular", "trending": "trending", "latest": "the latest"}  # by fallback
NO_ROWS = np.zeros(0, dtype=np.int32)

Best = tuple[NDArray[np.int64], NDArray[np.float64]]  # (B, n) rows of items, padded with −1, and their scores
Similarities = Callable[[NDArray[np.int64]], NDArray[np.float64]]
# (items, values, weights) that the scores of a list come from, see `LiveModel.reasons`:
Read = tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32] | None]


class Ask(NamedTuple):
    """Asks a source for items of one of its lists.

    Attributes:
        at: which list.
        sets: each is ranked apart; None: all items.
        exclude: rows that must not appear, beside those that the query excludes.
    """

    at: int
    sets: Sequence[Eligible | None]
    exclude: NDArray[np.int64]


class Lists(NamedTuple):
    """The pages of the lists of a group, one after the other, as columns.

    Attributes:
        rows: rows of items, (L,).
        scores: (L,).
        lengths: int64 (B,), items of each page; their sum is L.
        boosts: float64 (L,), the part of the scores that comes from rules; None without rules.
        marks: (L,), see `service.engine.lists.walk`; None without rules.
    """

    rows: NDArray[np.integer]
    scores: NDArray[np.floating]
    lengths: NDArray[np.int64]
    boosts: NDArray[np.float64] | None = None
    marks: NDArray[np.int64] | None = None


class ModelSource:
    """The lists of one model for users whose queries agree in their options; see `service.engine.lists.plan`.

    Attributes:
        warnings: of each answer, before those of the query and after them.
    """

    def __init__(
        self,
        group: Group,
        live_model: LiveModel,
        users: Users,
        rated: Rows,
        kept_out: Sequence[NDArray[np.int32]] | None,
        read: Callable[[int], Read],
        selection: Selection,
        exploration: Exploration,
        counts: DecayedCounts | None,
        own: Sequence[Own] | None,
        warnings: list[str],
        *,
        shows_seen: bool,
        fallback: Fallback | UnsetType = UNSET,
    ) -> None:
        """`users`, `rated`, `counts` and `own` as `LiveModel.recommend` takes them; `kept_out` has items of events,
        None if there are none; `read` says of a list what its scores come from; `shows_seen`: whether it may have what
        the user had; `fallback`: what `users` come from, if not from ratings.
        """
        self.fallback, self.is_personal = fallback, fallback is UNSET
        self._counts, self._own, self._shows_seen = counts, own, shows_seen
        self.group, self.live_model, self.warnings = group, live_model, (warnings, list[str]())
        self._users, self._rated, self._read, self._selection = users, rated, read, selection
        self._exploration, query = exploration, group.query
        self._exclude = self._candidates = None
        if query.exclude or query.candidates is not None:
            self._exclude = of_each(selection.excluded, group.queries)
            self._candidates = of_each(selection.candidates, group.queries)
        if kept_out is not None:
            self._exclude = list(kept_out if self._exclude is None else map(np.append, self._exclude, kept_out))
        self._rank = partial(
            live_model.recommend,
            hidden=selection.hidden(query.available),
            include_seen=shows_seen,
            min_ratings=query.min_ratings,
            counts=counts,
        )

    def lists(self) -> Lists:
        """The page of each list: its best items that pass the filter."""
        runs = self.group.runs
        starts, ends = (
            [run.plan.query.offset for run in runs],
            [run.plan.query.offset + run.plan.query.n for run in runs],
        )
        first, end = min(starts), max(ends)
        eligible = self.group.eligible if any(run.plan.eligible for run in runs) else None
        rows, scores = self._rank(
            self._users,
            self._rated,
            end - first,
            offset=first,
            exclude=self._exclude,
            candidates=self._candidates,
            eligible=eligible,
            own=self._own,
        )
        are_shown = rows >= 0
        if first != max(starts) or end != min(ends):  # pages of several lengths or places
            places = np.arange(first, first + rows.shape[1])
            from_, to = (np.repeat(column, [len(run.at) for run in runs])[:, None] for column in (starts, ends))
            are_shown &= (places >= from_) & (places < to)
        return Lists(rows[are_shown], scores[are_shown], np.add.reduce(are_shown, axis=1))

    def best(self, asks: Sequence[Ask], n: int, offset: int = 0) -> Best:
        """The `n` best items after the first `offset` of each set of each of `asks`, or fewer if there are no more."""
        sets = [(ask, one) for ask in asks for one in ask.sets]
        # Four users share each read of items that all of them may get: so lists that ask for the same set follow each
        # other, and sets of many items come first.
        distinct = sorted({one for _, one in sets}, key=lambda one: -math.inf if one is None else -one.count)
        rank = {one: n_larger for n_larger, one in enumerate(distinct)}
        order = sorted(range(len(sets)), key=[rank[one] for _, one in sets].__getitem__)
        at, own, candidates = [sets[one][0].at for one in order], self._exclude, self._candidates
        exclude: list[NDArray[np.integer]] | None = None
        if own is not None or any(len(ask.exclude) for ask in asks):
            out = {id(ask): ask.exclude if own is None else np.append(own[ask.at], ask.exclude) for ask in asks}
            exclude = [out[id(sets[one][0])] for one in order]
        some = np.array(at, dtype=np.int64)
        ranked, best = self._rank(
            Users(*(column[some] for column in self._users)),
            topn.rows_of(self._rated, some),
            n,
            offset=offset,
            exclude=exclude,
            candidates=None if candidates is None else [candidates[one] for one in at],
            eligible=[sets[one][1] for one in order],
            own=None if self._own is None else [self._own[one] for one in at],
        )
        rows, scores = np.empty(ranked.shape, dtype=np.int64), np.empty(ranked.shape)
        rows[order], scores[order] = ranked, best
        return rows, scores

    def levels(self, at: int) -> Levels:
        """The items that a list may explore; none without `explore`."""
        query = self.group.queries[at]
        if not query.explore:
            return NO_LEVELS
        return self._exploration.levels(self.live_model, query.explore_below, self.group.eligible[at])

    def may_show(self, at: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of `rows` that a list may show, whether the model knows them or not."""
        query, start = self.group.queries[at], self._rated.starts[at]
        rows = self._selection.may_show(query, rows)
        if self._exclude is not None:
            rows = rows[~np.isin(rows, self._exclude[at])]
        if not self._shows_seen:
            rows = rows[~np.isin(rows, self._rated.items[start : start + self._rated.lengths[at]])]
        return rows[self.live_model.table.item_counts[rows] >= query.min_ratings]

    @property
    def similarities(self) -> Similarities:
        """Similarities of all pairs of rows."""
        return partial(similarities, self.live_model.model)

    def estimates(self, lists: Lists) -> NDArray[np.float32] | None:
        """The estimated rating of each item of `lists`, (L,); None if the model has none."""
        if self.live_model.model.is_implicit:
            return None
        are_items = np.arange(lists.lengths.max()) < lists.lengths[:, None]
        rows = np.full(are_items.shape, -1, dtype=np.int32)
        rows[are_items] = lists.rows
        return self.live_model.estimates(self._users, self._rated, rows)[are_items]

    def reasons(self, at: int, rows: Sequence[int]) -> list[Reasons]:
        """The rated items that contribute most to the score of each of `rows` in a list."""
        items, values, weights = self._read(at)
        return self.live_model.reasons(items, values, rows, N_REASONS, weights)

    def again(self, at: int, rows: Sequence[int]) -> Sequence[float | UnsetType]:
        """The part of what the user of a list had in the score of each of `rows`; unset for others."""
        part_of = {} if self._own is None else dict(zip(*(column.tolist() for column in self._own[at]), strict=True))
        return [part_of.get(row, UNSET) for row in rows]

    def lifts(self, rows: Sequence[int]) -> Sequence[float | UnsetType]:
        """The part of what is popular now in the score of each of `rows`, if it is in scores."""
        if self._counts is None:
            return [UNSET] * len(rows)
        lifts: list[float] = self.live_model.lifts(self._counts, np.array(rows, dtype=np.int64)).tolist()
        return lifts


class CommonSource:
    """The list that a query names as its fallback, for one user whom no model knows, or for several without ratings who
    get the same; as `ModelSource`.
    """

    is_personal = False

    def __init__(
        self,
        group: Group,
        common: CommonLists,
        selection: Selection,
        left_out: Sequence[NDArray[np.int32]],
        fallback: Fallback,
        warnings: tuple[list[str], list[str]],
    ) -> None:
        self.group, self.live_model, self.fallback, self.warnings = group, group.live_model, fallback, warnings
        self._query, self._common, self._selection, self._left_out = group.query, common, selection, left_out
        self._best = partial(common.best, group.query, fallback, trend_of(group.live_model))

    def lists(self) -> Lists:
        """The page of the list."""
        query = self._query
        rows, scores = self._best(query.n, query.offset, self.group.runs[0].plan.eligible, *self._left_out)
        n_lists = len(self.group.rows)
        return Lists(np.tile(rows, n_lists), np.tile(scores, n_lists), np.full(n_lists, len(rows)))

    def best(self, asks: Sequence[Ask], n: int, offset: int = 0) -> Best:
        """See `ModelSource`."""
        sets = [(one, ask.exclude) for ask in asks for one in ask.sets]
        rows, scores = np.full((len(sets), n), -1, dtype=np.int64), np.full((len(sets), n), -np.inf)
        for at, (eligible, exclude) in enumerate(sets):
            best = self._best(n, offset, eligible, *self._left_out, exclude)
            rows[at, : len(best[0])], scores[at, : len(best[1])] = best
        return rows, scores

    def levels(self, at: int) -> Levels:
        """None: such a list explores nothing."""
        return NO_LEVELS

    def may_show(self, at: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `ModelSource`."""
        rows = self._selection.may_show(self._query, rows)
        rows = rows[~np.isin(rows, np.concatenate(self._left_out))]
        return rows[self._common.counts[rows] >= self._query.min_ratings]

    @property
    def similarities(self) -> Similarities | None:
        """Similarities by the model that does not know the user; None if none is live."""
        return None if self.live_model is None else partial(similarities, self.live_model.model)

    def estimates(self, lists: Lists) -> None:
        """None: such a list estimates nothing."""

    def reasons(self, at: int, rows: Sequence[int]) -> list[Reasons]:
        """None: such a list has none."""
        return []

    def again(self, at: int, rows: Sequence[int]) -> Sequence[float | UnsetType]:
        """None: such a list leaves out what the user had."""
        return [UNSET] * len(rows)

    def lifts(self, rows: Sequence[int]) -> Sequence[float | UnsetType]:
        """None: such a list has one kind of score alone."""
        return [UNSET] * len(rows)


Source = ModelSource | CommonSource


def trend_of(live_model: LiveModel | None) -> Trend | None:
    """The trend of a model; None without one."""
    return None if live_model is None else live_model.trend


class Sources:
    """Makes sources. Belongs to the engine thread."""

    def __init__(
        self,
        history: History,
        live: LiveModels,
        selection: Selection,
        common: CommonLists,
        exploration: Exploration,
        repeat: Repeat,
        seen_types: Sequence[str],
    ) -> None:
        """`repeat` and `seen_types`: those of the settings."""
        self._repeat, self._seen_types = repeat, seen_types
        self._history, self._live, self._selection, self._common = history, live, selection, common
        self._what_if, self._exploration = WhatIf(history), exploration

    def source(self, group: Group) -> Source:
        """What ranks the lists of `group`.

        Raises:
            UnknownUser: no model knows the user, and the query wants no other list.
            InvalidRequest: the model cannot weigh ratings of a user.
        """
        users, live_model, rated = group.rows, group.live_model, group.rated
        if group.query.is_imagined:
            return self._imagined(group)
        described: Users | None = None
        if live_model is not None and rated is None and group.row is not None and group.query.fallback == "auto":
            described, rated = live_model.by_attributes(group.row), live_model.rows_of(users)
        if live_model is None or rated is None or (group.rated is None and described is None):
            seen = NO_ROWS if group.row is None else self._history.strengths.table.row(group.row)[0]
            return self._common_source(group, seen, NO_ROWS, [], None)
        kept_out, own, shows_seen = None, None, self._shows_seen(group.query, live_model)
        if shows_seen and live_model.repeat.weight:
            own = [live_model.own_of(*live_model.dated(user)) for user in users.tolist()]
        seen_types = self._seen_types_of(group.query)
        if self._history.strengths.has_events or seen_types:
            kept_out = [
                live_model.kept_out(user, include_seen=shows_seen, rotates=query.rotate is not None)
                for user, query in zip(users.tolist(), group.queries, strict=True)
            ]
            if seen_types:
                had = (self._history.had(user, seen_types) for user in users.tolist())
                kept_out = list(map(np.append, kept_out, had))
            elif own is not None and not group.query.include_seen:  # what was only seen stays out
                only_seen = map(self._history.strengths.only_seen, users.tolist())
                kept_out = list(map(np.append, kept_out, only_seen))
        return ModelSource(
            group,
            live_model,
            described or topn.users_of(live_model.model, users),
            rated,
            kept_out,
            lambda at: live_model.newest(int(users[at]), MAX_RATINGS_OF_USERS),
            self._selection,
            self._exploration,
            self._common.counts_of(live_model.trend),
            own,
            [],
            shows_seen=shows_seen,
            fallback="attributes" if described else UNSET,
        )

    def _imagined(self, group: Group) -> Source:
        """What ranks for a user as if the ratings of the query were stored."""
        query, row, live_model = group.query, group.row, group.live_model
        extra = self._what_if.extra_of(query)
        warnings = self._selection.unknown("events" if query.ratings is None else "ratings", extra.unknown)
        imagined = None
        if live_model is not None:
            imagined = self._what_if.imagined(live_model, row, query, extra, self._seen_types_of(query))
        if live_model is None or imagined is None:
            return self._common_source(group, *self._what_if.left_out(row, extra), warnings, extra)
        users, rated, read, weights, kept_out = imagined
        of_list = read.items, read.values, weights
        selection, exploration = self._selection, self._exploration
        seen_types = self._seen_types_of(query)
        counts, shows_seen = self._common.counts_of(live_model.trend), query.include_seen or bool(seen_types)
        return ModelSource(
            group,
            live_model,
            users,
            rated,
            kept_out,
            lambda at: of_list,
            selection,
            exploration,
            counts,
            None,
            warnings,
            shows_seen=shows_seen,
        )

    def _shows_seen(self, query: Recommend, live_model: LiveModel) -> bool:
        """Whether lists may show again what users had, unless it is of one of the types that they leave out."""
        if query.include_seen or self._seen_types_of(query):
            return True
        repeat = query.repeat or self._repeat
        return repeat == "allow" or (repeat == "auto" and live_model.repeat.weight > 0)

    def _seen_types_of(self, query: Recommend) -> Sequence[str]:
        """The types that lists leave out, instead of all that users had; none with `include_seen`."""
        return () if query.include_seen else query.seen_types or self._seen_types

    def _common_source(
        self,
        group: Group,
        rated: NDArray[np.int32],
        only_seen: NDArray[np.int32],
        warnings: list[str],
        extra: Extra | None,
    ) -> CommonSource:
        """The fallback without the items in `rated`, which the user rated or did more with than see them.

        `only_seen` are further items that the query says were seen. `extra` is what it says the user has beside.
        """
        query, row, strengths = group.query, group.row, self._history.strengths
        seen = [rated, only_seen] if row is None else [rated, only_seen, strengths.only_seen(row)]
        if group.users[0] is not None and query.fallback == "none" and not sum(map(len, seen)):
            raise UnknownUser(f"user {group.users[0]!r} has no ratings")
        if query.rotate is not None:  # which shows again what was only shown
            seen = [rated]
        fallback: Fallback = "popular"
        if query.fallback == "auto":
            fallback = self._common.fallback(trend_of(group.live_model))
        elif query.fallback != "none":
            fallback = query.fallback
        reason = ""
        if group.live_model is None:
            reason = PREPARING if self._live.is_prepared(query.model) else NO_MODEL
            warnings = [NOT_DIVERSE, *warnings] if query.diversity else warnings
        elif any(map(len, seen)):
            reason = NO_TASTE
        if reason:
            reason = reason.format(expected=self._live.described(query.model), shown=SHOWN[fallback])
        seen_types = self._seen_types_of(query)
        if query.include_seen or seen_types:
            if extra is not None:
                seen = [self._what_if.disliked(row, extra), self._what_if.had(row, query, extra, seen_types)]
            else:
                seen = [] if row is None else [strengths.disliked(row), self._history.had(row, seen_types)]
        elif row is not None and extra is None and (query.repeat or self._repeat) == "allow":
            seen[0] = strengths.disliked(row)  # instead of all that the user had
        left_out = self._selection.excluded(query), *seen
        around = self._common.warnings(reason), warnings
        return CommonSource(group, self._common, self._selection, left_out, fallback, around)
