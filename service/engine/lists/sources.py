"""`Sources`: what ranks the items of a group of plans: a model, or a list that stands in for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from gpu.ranking import topn
from gpu.ranking.diversity import similarities
from gpu.ranking.eligible import Eligible
from gpu.ranking.explain import Reasons
from gpu.ratings import Rows
from gpu.refit_rules import MAX_RATINGS_OF_USERS
from service.engine.errors import UnknownUser
from service.engine.lists.common_lists import CommonLists
from service.engine.lists.exploration import Exploration, Level
from service.engine.lists.plan import Plan
from service.engine.lists.selection import Selection
from service.engine.models.live_model import LiveModel
from service.engine.models.live_models import NONE_LIVE, LiveModels
from service.engine.models.what_if import WhatIf
from service.engine.queries import Fallback
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
        eligible: the only items; None for all.
        exclude: rows that must not appear, beside those that the query excludes.
    """

    at: int
    eligible: Eligible | None
    exclude: NDArray[np.int64]


class Lists(NamedTuple):
    """The lists of B plans, as columns.

    Attributes:
        rows: (B, n) rows of items, padded with −1.
        scores: (B, n).
        starts: where the page of each plan begins.
        boosts: float64 (B, n), the part of the scores that comes from rules; None without rules.
        marks: (B, n), see `service.engine.lists.walk`; None without rules.
    """

    rows: NDArray[np.integer]
    scores: NDArray[np.floating]
    starts: Sequence[int]
    boosts: NDArray[np.float64] | None = None
    marks: NDArray[np.int64] | None = None


class ModelSource:
    """The lists of one model for users whose plans agree in their options; see `service.engine.lists.plan.grouped`.

    Attributes:
        warnings: of each answer, before those of the query and after them.
    """

    is_personal = True
    fallback: Fallback | UnsetType = UNSET

    def __init__(
        self,
        plans: Sequence[Plan],
        live_model: LiveModel,
        users: topn.Users,
        rows: Rows,
        kept_out: Sequence[NDArray[np.int32]] | None,
        read: Callable[[int], Read],
        selection: Selection,
        exploration: Exploration,
        warnings: list[str],
    ) -> None:
        """`users` and `rows` as `LiveModel.recommend` takes them; `kept_out` has items of events, None if there are
        none; `read` says of a list what its scores come from.
        """
        self.plans, self.live_model, self.warnings = plans, live_model, (warnings, list[str]())
        self._users, self._rows, self._read, self._selection = users, rows, read, selection
        self._exploration = exploration
        self._queries = queries = [plan.query for plan in plans]
        query = queries[0]
        names_items = bool(query.exclude) or query.candidates is not None
        exclude = of_each(selection.excluded, queries) if names_items else None
        if kept_out is not None:
            exclude = list(kept_out if exclude is None else map(np.append, exclude, kept_out))
        self._exclude: list[NDArray[np.int32]] | None = exclude
        self._candidates = of_each(selection.candidates, queries) if names_items else None
        self._rank = partial(
            live_model.recommend,
            hidden=selection.hidden(query),
            include_seen=query.include_seen,
            min_ratings=query.min_ratings,
        )

    def lists(self) -> Lists:
        """The best items of each list, as far as its page reaches."""
        queries = self._queries
        first = min(query.offset for query in queries)
        n = max(query.n + query.offset for query in queries) - first
        has_filter = any(query.filter for query in queries)
        eligible = of_each(self._selection.eligible, queries) if has_filter else None
        rows, scores = self._rank(
            self._users,
            self._rows,
            n,
            offset=first,
            exclude=self._exclude,
            candidates=self._candidates,
            eligible=eligible,
        )
        return Lists(rows, scores, [query.offset - first for query in queries])

    def best(self, asks: Sequence[Ask], n: int, offset: int = 0) -> Best:
        """The `n` best items after the first `offset` that each of `asks` wants, or fewer if there are no more."""
        at = [ask.at for ask in asks]
        some, own, candidates = np.array(at, dtype=np.int64), self._exclude, self._candidates
        exclude: list[NDArray[np.integer]] | None = None
        if own is not None:
            exclude = [np.append(own[ask.at], ask.exclude) for ask in asks]
        elif any(len(ask.exclude) for ask in asks):
            exclude = [ask.exclude for ask in asks]
        rows, scores = self._rank(
            topn.Users(*(column[some] for column in self._users)),
            topn.rows_of(self._rows, some),
            n,
            offset=offset,
            exclude=exclude,
            candidates=None if candidates is None else [candidates[one] for one in at],
            eligible=[ask.eligible for ask in asks],
        )
        return rows.astype(np.int64), scores.astype(np.float64)

    def levels(self, at: int) -> Sequence[Level]:
        """The items that a list may explore; none without `explore`."""
        query = self._queries[at]
        if not query.explore:
            return ()
        return self._exploration.levels(self.live_model, query.explore_below, self._selection.eligible(query))

    def may_show(self, at: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of `rows` that a list may show, whether the model knows them or not."""
        query, start = self._queries[at], self._rows.starts[at]
        rows = self._selection.may_show(query, rows)
        if self._exclude is not None:
            rows = rows[~np.isin(rows, self._exclude[at])]
        if not query.include_seen:
            rows = rows[~np.isin(rows, self._rows.items[start : start + self._rows.lengths[at]])]
        return rows[self.live_model.table.item_counts[rows] >= query.min_ratings]

    @property
    def similarities(self) -> Similarities:
        """Similarities of all pairs of rows."""
        return partial(similarities, self.live_model.model)

    def estimates(self, rows: NDArray[np.integer]) -> NDArray[np.float32] | None:
        """Estimated ratings of `rows` (B, n), with padding; None if the model has none."""
        return None if self.live_model.model.is_implicit else self.live_model.estimates(self._users, self._rows, rows)

    def reasons(self, at: int, rows: Sequence[int]) -> list[Reasons]:
        """The rated items that contribute most to the score of each of `rows` in a list."""
        items, values, weights = self._read(at)
        return self.live_model.reasons(items, values, rows, N_REASONS, weights)


class CommonSource:
    """The list that a query names as its fallback, for one user whom no model knows; as `ModelSource`."""

    is_personal = False

    def __init__(
        self,
        plan: Plan,
        common: CommonLists,
        selection: Selection,
        left_out: Sequence[NDArray[np.int32]],
        fallback: Fallback,
        warnings: tuple[list[str], list[str]],
    ) -> None:
        self.plans, self.live_model, self.fallback, self.warnings = (plan,), plan.live_model, fallback, warnings
        self._query, self._common, self._selection, self._left_out = plan.query, common, selection, left_out

    def lists(self) -> Lists:
        """The page of the list."""
        query = self._query
        eligible = self._selection.eligible(query)
        rows, scores = self._common.best(query, query.n, query.offset, eligible, *self._left_out)
        return Lists(rows[None], scores[None], (0,))

    def best(self, asks: Sequence[Ask], n: int, offset: int = 0) -> Best:
        """See `ModelSource`."""
        rows, scores = np.full((len(asks), n), -1, dtype=np.int64), np.full((len(asks), n), -np.inf)
        for at, ask in enumerate(asks):
            best = self._common.best(self._query, n, offset, ask.eligible, *self._left_out, ask.exclude)
            rows[at, : len(best[0])], scores[at, : len(best[1])] = best
        return rows, scores

    def levels(self, at: int) -> Sequence[Level]:
        """None: such a list explores nothing."""
        return ()

    def may_show(self, at: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `ModelSource`."""
        rows = self._selection.may_show(self._query, rows)
        rows = rows[~np.isin(rows, np.concatenate(self._left_out))]
        return rows[self._common.counts[rows] >= self._query.min_ratings]

    @property
    def similarities(self) -> Similarities | None:
        """Similarities by the model that does not know the user; None if none is live."""
        return None if self.live_model is None else partial(similarities, self.live_model.model)

    def estimates(self, rows: NDArray[np.integer]) -> None:
        """None: such a list estimates nothing."""

    def reasons(self, at: int, rows: Sequence[int]) -> list[Reasons]:
        """None: such a list has none."""
        return []


Source = ModelSource | CommonSource


class Sources:
    """Makes sources. Belongs to the engine thread."""

    def __init__(
        self, history: History, live: LiveModels, selection: Selection, common: CommonLists, exploration: Exploration
    ) -> None:
        self._history, self._live, self._selection, self._common = history, live, selection, common
        self._what_if, self._exploration = WhatIf(history), exploration

    def source(self, plans: Sequence[Plan], rows: Rows | None) -> Source:
        """What ranks the lists of the plans of a `Group`, with its rows.

        Raises:
            UnknownUser: no model knows the user, and the query wants no other list.
            InvalidRequest: the model cannot weigh ratings of a user.
        """
        plan = plans[0]
        if plan.query.is_imagined:
            return self._imagined(plan)
        live_model = plan.live_model
        if live_model is None or rows is None:
            rated = NO_ROWS if plan.row is None else self._history.strengths.table.row(plan.row)[0]
            return self._common_source(plan, rated, [])
        users, kept_out = [one.row for one in plans if one.row is not None], None
        if self._history.strengths.has_events:
            kept_out = [
                live_model.kept_out(user, include_seen=query.include_seen, rotates=query.rotate is not None)
                for user, query in zip(users, (one.query for one in plans), strict=True)
            ]
        return ModelSource(
            plans,
            live_model,
            topn.users_of(live_model.model, np.array(users, dtype=np.int64)),
            rows,
            kept_out,
            lambda at: live_model.newest(users[at], MAX_RATINGS_OF_USERS),
            self._selection,
            self._exploration,
            [],
        )

    def _imagined(self, plan: Plan) -> Source:
        """What ranks for a user as if the ratings of the query were stored."""
        query, row, live_model = plan.query, plan.row, plan.live_model
        extra = self._what_if.ratings_of(query)
        warnings = self._selection.unknown("ratings", extra.unknown)
        imagined = None if live_model is None else self._what_if.imagined(live_model, row, query, extra)
        if live_model is None or imagined is None:
            return self._common_source(plan, self._what_if.seen(row, extra), warnings)
        users, rows, read, weights, kept_out = imagined
        of_list = read.items, read.values, weights
        own = self._selection, self._exploration, warnings
        return ModelSource((plan,), live_model, users, rows, kept_out, lambda at: of_list, *own)

    def _common_source(self, plan: Plan, rated: NDArray[np.int32], warnings: list[str]) -> CommonSource:
        """The fallback without the items in `rated`, which the user rated or did more with than see them."""
        query, row, strengths = plan.query, plan.row, self._history.strengths
        seen = [rated] if row is None else [rated, strengths.only_seen(row)]
        if plan.user is not None and query.fallback == "none" and not sum(map(len, seen)):
            raise UnknownUser(f"user {plan.user!r} has no ratings")
        if query.rotate is not None:  # which shows again what was only shown
            seen = [rated]
        fallback: Fallback = "popular" if query.fallback == "none" else query.fallback
        reason = ""
        if plan.live_model is None:
            reason = PREPARING if self._live.is_prepared(query.model) else NO_MODEL
            warnings = [NOT_DIVERSE, *warnings] if query.diversity else warnings
        elif any(map(len, seen)):
            reason = NO_TASTE
        if reason:
            reason = reason.format(expected=self._live.described(query.model), shown=SHOWN[fallback])
        if query.include_seen:
            seen = [] if row is None else [strengths.disliked(row)]
        left_out = self._selection.excluded(query), *seen
        around = self._common.warnings(reason), warnings
        return CommonSource(plan, self._common, self._selection, left_out, fallback, around)
