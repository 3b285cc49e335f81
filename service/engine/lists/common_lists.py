"""`CommonLists`: lists that are the same for all users, and stand in where no model knows the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.data.decay import DAY_S
from gpu.data.evidence import amounts
from gpu.data.signals import Trend
from gpu.ranking.eligible import Eligible
from gpu.trend.host_counts import ENDS, LEAST_SPAN, DecayedCounts, Moves
from service.base.errors import InvalidRequest
from service.base.limits import LATEST_S
from service.engine.lists.selection import Selection
from service.engine.lists.top_items import TopItems
from service.engine.lists.trending import Days, Trending
from service.engine.queries import Fallback, LatestItems, Popular, PopularItems, Ranked, Recommend, ScoredItem
from service.engine.queries.batches import AnswerTo, count_of
from service.engine.state.applied import Applied
from service.engine.state.history import History

SHRINKAGE = 10  # ratings of average value that are added to those of every item
UNITS = 1 << 20  # per rating point; sums are integers, so that they do not depend on the order of changes
NO_RATINGS = "there are no ratings yet, or only dislikes"
SHIFT_MS = round(LATEST_S * 1000) + 1  # makes positive numbers of all times, also of those before 1970
COUNTED_AT_ONCE = 1000  # changes: to count one takes nearly as long as to count a hundred


class CommonLists:
    """Popular, trending and latest items. Belongs to the engine thread."""

    def __init__(self, history: History, selection: Selection, half_lives: Mapping[str, float]) -> None:
        """`half_lives`: seconds by name; the first one is that of trends."""
        self._history, self._selection, self._popularity = history, selection, Popularity()
        self._half_lives, self._first_s = half_lives, next(iter(half_lives.values()))
        self._trending = {seconds: Trending(seconds) for seconds in half_lives.values()}
        self._latest, self._days = Latest(history), Days()
        self._uncounted: list[Applied] = []
        self._n_uncounted = 0

    @property
    def answer_to(self) -> dict[type, AnswerTo]:
        """The methods that answer queries, by type."""
        return {Popular: self.popular, LatestItems: self.latest}

    def recount(self) -> None:
        """Count again, after the history was read from the log."""
        self._uncounted, self._n_uncounted = [], 0
        table = self._history.strengths.table
        self._popularity.clear()
        self._days.clear()
        for items, values, times in table.portions():
            none = np.full(len(items), np.nan, dtype=np.float32)
            self._popularity.note(items, none, values, table.n_items)
            self._days.note(Moves.of(items, values, times, 1))
        self._recount(list(self._trending.values()))

    def _recount(self, some: Sequence[Trending]) -> None:
        """Count all pairs again for these trends."""
        table = self._history.strengths.table
        for trending in some:
            trending.clear()
        for items, values, times in table.portions() if some else ():
            for trending in some:
                trending.note(Moves.of(items, values, times, 1), table.n_items, self._now_s)

    def note(self, applied: Applied) -> None:
        """Count the changes that the history has just applied: now, with some later ones, or before the next list."""
        self._uncounted.append(applied.strengths)
        self._n_uncounted += 1 + len(applied.strengths.changes.items)
        if applied.forgotten or self._n_uncounted >= COUNTED_AT_ONCE:  # what is forgotten must not wait here
            self._count()

    def _count(self) -> None:
        """Count what waits. Sums are of integers, so they do not depend on what is counted together."""
        if not self._uncounted:
            return
        changes, forgotten, *_ = Applied.joined(self._uncounted)
        n_items = self._history.table.n_items
        self._uncounted, self._n_uncounted = [], 0
        self._popularity.note(changes.items, changes.old, changes.new, n_items)
        moves = [Moves.of(changes.items, changes.old, changes.old_times, -1)]
        moves.append(Moves.of(changes.items, changes.new, changes.times, 1))
        for gone in forgotten:
            self._popularity.note(gone.items, gone.values, np.full_like(gone.values, np.nan), n_items)
            moves.append(Moves.of(gone.items, gone.values, gone.times, -1))
        self._days.note(Moves.joined(moves))
        for trending in self._trending.values():
            trending.note(Moves.joined(moves), n_items, self._now_s)
        self._recount([trending for trending in self._trending.values() if trending.counts.must_recount])

    def follow(self, trend: Trend | None) -> None:
        """Count for the `trend` of a model from now on; takes a while if its half-life is none of the setting."""
        if trend is not None and trend.weight and trend.half_life_days * DAY_S not in self._trending:
            self._count()
            added = self._trending[trend.half_life_days * DAY_S] = Trending(trend.half_life_days * DAY_S)
            self._recount([added])

    def counts_of(self, trend: Trend | None) -> DecayedCounts | None:
        """The present counts for the `trend` of a live model; None if it adds none to scores."""
        if trend is None or not trend.weight:
            return None
        self._count()
        return self._trending[trend.half_life_days * DAY_S].counts

    def fallback(self, trend: Trend | None) -> Fallback:
        """What answers where no model knows the user: trending items, if times are spread far enough, else popular.

        `trend`: that of the live model.
        """
        self._count()
        return "trending" if self._days.span(ENDS) * DAY_S >= LEAST_SPAN * self._half_life_s(trend) else "popular"

    def _half_life_s(self, trend: Trend | None) -> float:
        """Of trending items in lists: the one of the live model, or the first of the setting."""
        return trend.half_life_days * DAY_S if trend is not None and trend.weight else self._first_s

    @property
    def _now_s(self) -> float:
        return self._history.position.ms / 1000

    def popular(self, query: Popular, as_of: str) -> PopularItems:
        """The answer to `query`.

        Raises:
            InvalidRequest: there is no such half-life.
        """
        if query.half_life is not None and query.half_life not in self._half_lives:
            names = ", ".join(self._half_lives)
            raise InvalidRequest(f"Invalid half_life: expected one of {names}, got {query.half_life!r}")
        top: TopItems = self._popularity
        if query.half_life is not None:
            top = self._trending[self._half_lives[query.half_life]]
        return self._answer(query, top, as_of)

    def latest(self, query: LatestItems, as_of: str) -> PopularItems:
        """The answer to `query`."""
        return self._answer(query, self._latest, as_of)

    def best(
        self,
        query: Recommend,
        fallback: Fallback,
        trend: Trend | None,
        n: int,
        offset: int,
        eligible: Eligible | None,
        *left_out: NDArray[np.integer],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows and scores of `n` items after `offset` that `fallback` names, without those in `left_out`.

        Args:
            trend: that of the live model.
            eligible: the only items, instead of those that pass the filter of `query`; None for all.
        """
        top: TopItems = self._latest if fallback == "latest" else self._popularity
        if fallback == "trending":
            top = self._trending[self._half_life_s(trend)]
        return self._best(query, top, n, offset, eligible, *left_out)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Ratings of each item, for `min_ratings`."""
        counts: NDArray[np.int64] = self._history.strengths.table.item_counts
        return counts

    def warnings(self, otherwise: str = "") -> list[str]:
        """A warning if no ratings count, else `otherwise`, if that is one."""
        self._count()
        if not self._popularity.n_ratings:
            return [NO_RATINGS]
        return [otherwise] if otherwise else []

    def _answer(self, query: Ranked, top: TopItems, as_of: str) -> PopularItems:
        left_out, eligible = self._selection.excluded(query), self._selection.eligible(query)
        rows, scores = self._best(query, top, query.n, query.offset, eligible, left_out)
        items = list(map(ScoredItem, self._history.items.ids(rows.tolist()), scores.tolist()))
        return PopularItems(items, as_of, self.warnings(), count_of(eligible))

    def _best(
        self,
        query: Ranked,
        top: TopItems,
        n: int,
        offset: int,
        eligible: Eligible | None,
        *left_out: NDArray[np.integer],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        self._count()
        if top is self._latest:
            self._latest.look()
        shown, candidates = self._selection.of_popular(query, eligible)
        for rows in left_out:
            shown[rows] = False
        if top is self._popularity:
            return top.best(n, offset, shown, candidates, query.min_ratings)
        may_be: NDArray[np.bool_] = self.counts >= max(query.min_ratings, 1)
        if not query.min_ratings:  # items of the catalog need neither ratings nor events
            may_be[: len(self._history.catalog.listed)] |= self._history.catalog.listed
        return top.best(n, offset, shown & may_be, candidates)


class Latest(TopItems):
    """Ranks items of the catalog, and items with ratings or events, the latest first. The score is the time."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history, self._n_changes = history, 0

    def look(self) -> None:
        """Take in new items and changes of the catalog; call it before `best`."""
        known, catalog = len(self._firsts.values), self._history.catalog
        self._grow(len(self._history.items))
        if catalog.n_changes != self._n_changes:
            self._n_changes, known = catalog.n_changes, 0
            self._hold(None)
        if known < len(self._firsts.values):
            times_ms, published_s = self._history.first_seen_ms.copy(), catalog.published
            is_set = np.flatnonzero(np.isfinite(published_s))
            times_ms[is_set] = np.rint(published_s[is_set] * 1000)
            self._firsts.values[known:] = times_ms[known:] + SHIFT_MS
            self._touch(np.arange(known, len(self._firsts.values)))

    def _scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return (self._firsts.values[rows] - SHIFT_MS) / 1000


class Popularity(TopItems):
    """Ranks items by number of ratings; the mean rating, shrunk toward the overall mean, breaks ties.

    The score is the count plus a fraction from 0 to below 1 that grows with the shrunk mean and is ½ at the overall
    mean. Values below 0 are dislikes and do not count. An item without other ratings is never listed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._n_ratings = self._sum = 0

    @property
    def n_ratings(self) -> int:
        """Ratings counted."""
        return self._n_ratings

    def clear(self) -> None:
        """Start again without ratings."""
        super().clear()
        self._n_ratings = self._sum = 0

    def note(
        self, items: NDArray[np.integer], old: NDArray[np.float32], new: NDArray[np.float32], n_items: int
    ) -> None:
        """Count changes of strengths (`gpu.data.evidence`); NaN stands for none."""
        self._grow(n_items)
        old, new = amounts(old), amounts(new)
        had, has = old >= 0, new >= 0  # false for NaN
        counts, sums = has.astype(np.int64) - had, _in_units(np.where(has, new, 0)) - _in_units(np.where(had, old, 0))
        np.add.at(self._firsts.values, items, counts)
        np.add.at(self._seconds.values, items, sums)
        self._n_ratings += int(counts.sum())
        self._sum += int(sums.sum())
        self._touch(items)

    def _scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Count plus ½ + arctan(d) / π, where d is the difference of the shrunk mean to the overall mean."""
        counts, sums = self._firsts.values[rows], self._seconds.values[rows]
        beyond = (sums - counts * (self._sum / max(self._n_ratings, 1))) / UNITS
        scores: NDArray[np.float64] = counts + 0.5 + np.arctan(beyond / (counts + SHRINKAGE)) / np.pi
        return scores


def _in_units(values: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.rint(values.astype(np.float64) * UNITS).astype(np.int64)
