"""`Lookups`: neighbors, estimates and ratings of single users and items. Belongs to the engine thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from service.engine.background import Slices
from service.engine.errors import UnknownItem, UnknownUser
from service.engine.lists.catalog_lookups import CatalogLookups
from service.engine.lists.rating_lists import RatingLists, shortest
from service.engine.lists.selection import Selection
from service.engine.models.live_model import LiveModel
from service.engine.models.similar import similar_items, similar_to_set, similar_users, users_for
from service.engine.queries import (
    Estimate,
    EventsOfItem,
    EventsOfUser,
    ItemNeighbors,
    ItemUsers,
    Neighbors,
    NeighborsOfSet,
    Rating,
    RatingEstimate,
    RatingsOfUser,
    ScoredItem,
    ScoredUser,
    SetNeighbors,
    UserEvents,
    UserNeighbors,
    UserRatings,
    UsersOfItem,
)
from service.engine.queries.batches import AnswerTo, count_of
from service.engine.queries.catalog_queries import (
    DeletedItem,
    GetCatalogNames,
    GetItem,
    GetTagSizes,
    GetTitles,
    GetUser,
    GetUserNames,
    ListItems,
    ListUsers,
)
from service.engine.queries.document_queries import GetScenario, ListDocuments
from service.engine.queries.rating_queries import AllRatings, FindUser, ItemRatings, RetractionTold, WasRetracted
from service.engine.queries.source_queries import CheckSource, FindSource, ListSources, WasSkipped
from service.engine.state.history import History
from service.engine.state.id_table import RETIRED
from service.storage.events import StreamId

Answer = TypeVar("Answer")
UNRATED = "{!r} has no ratings and counts as average"
NO_ITEMS = np.zeros(0, dtype=np.int32)


def begun(slices: Generator[None, None, Answer]) -> Answer | Slices:
    """The answer that `slices` make, if the first of them is enough; else the others, which follow when the caller asks
    for them.
    """
    try:
        next(slices)
    except StopIteration as stop:
        found: Answer = stop.value
        return found
    return slices


class Lookups:
    """Answers queries about single users and items.

    Attributes:
        answer_to: for each type of query the method that answers it; its second argument is `as_of`.
    """

    def __init__(
        self,
        history: History,
        selection: Selection,
        live_model: Callable[[str | None], LiveModel],
        estimator: Callable[[str | None], LiveModel],
    ) -> None:
        """Both functions return the live model of a name, or the default one for None; they raise `UnknownModel`."""
        self._history, self._selection, self._live_model, self._estimator = history, selection, live_model, estimator
        catalog, ratings = CatalogLookups(history, selection), RatingLists(history)
        self.answer_to: dict[type, AnswerTo] = {
            Neighbors: self.neighbors,
            SetNeighbors: self.neighbors_of_set,
            ItemUsers: self.users_of_item,
            Estimate: self.estimate,
            UserRatings: self.user_ratings,
            UserEvents: self.user_events,
            ItemRatings: ratings.of_item,
            FindUser: ratings.found,
            AllRatings: ratings.all,
            WasRetracted: self.was_retracted,
            GetItem: catalog.item,
            GetTitles: catalog.titles,
            GetTagSizes: catalog.tag_sizes,
            ListItems: catalog.items,
            ListUsers: catalog.users,
            GetCatalogNames: catalog.names,
            GetUser: catalog.user,
            GetUserNames: catalog.user_names,
            GetScenario: history.documents.get,
            ListDocuments: history.documents.list,
            CheckSource: history.sources.check,
            WasSkipped: history.sources.was_skipped,
            ListSources: history.sources.list,
            FindSource: history.sources.find,
        }

    def neighbors(self, query: Neighbors, as_of: str) -> ItemNeighbors | UserNeighbors | Slices:
        """The most similar items or users; `LiveModel` says by which measure. The rest of their slices, as `begun`.

        Raises:
            UnknownUser, UnknownItem: there is none with that id.
        """
        live_model, items, users = self._live_model(query.model), self._history.items, self._history.users
        model = live_model.name, live_model.shown_version
        if query.kind == "user":
            left_out = [row for row in users.rows(query.exclude) if row is not None]
            user = self._user(query.id)

            def of_user() -> Generator[None, None, UserNeighbors]:
                nearest = yield from similar_users(live_model, user, query.n, np.array(left_out, dtype=np.int64))
                return UserNeighbors(query.id, self._scored_users(*nearest), *model, as_of)

            return begun(of_user())
        shown, eligible = self._selection.shown(query), self._selection.eligible(query)
        if (row := items.row(query.id)) is None:
            raise UnknownItem(f"item {query.id!r} has no ratings")

        def of_item() -> Generator[None, None, ItemNeighbors]:
            rows, scores = yield from similar_items(live_model, row, query.n, shown)
            neighbors = list(map(ScoredItem, items.ids(rows.tolist()), scores.tolist()))
            return ItemNeighbors(query.id, neighbors, *model, as_of, count_of(eligible))

        return begun(of_item())

    def was_retracted(self, query: WasRetracted, as_of: str) -> RetractionTold:
        """Whether an entry, which has been applied lately, took an event back."""
        return RetractionTold(StreamId.parse(query.stream_id) in self._history.retracted, as_of)

    def neighbors_of_set(self, query: SetNeighbors, as_of: str) -> NeighborsOfSet | Slices:
        """The items most similar to a set of items, or the rest of the slices.

        Raises:
            UnknownItem: no item of the set is known.
        """
        live_model = self._live_model(query.model)
        shown, eligible = self._selection.shown(query), self._selection.eligible(query)
        items, warnings = np.unique(self._selection.rows(query.items)), self._selection.unknown("the set", query.items)
        if not len(items):
            raise UnknownItem(f"{warnings[0]}: expected at least one item with ratings")

        def answer() -> Generator[None, None, NeighborsOfSet]:
            rows, scores = yield from similar_to_set(live_model, items, query.n, shown)
            neighbors = list(map(ScoredItem, self._history.items.ids(rows.tolist()), scores.tolist()))
            model = live_model.name, live_model.shown_version
            return NeighborsOfSet(neighbors, *model, as_of, warnings, count_of(eligible))

        return begun(answer())

    def users_of_item(self, query: ItemUsers, as_of: str) -> UsersOfItem | Slices:
        """The users with the highest scores of an item among those who have ratings and have not seen it, or the rest
        of the slices.

        Raises:
            UnknownItem, DeletedItem: there is none with that id.
        """
        live_model, row = self._live_model(query.model), self._history.items.row(query.item)
        if row is None:
            raise UnknownItem(f"item {query.item!r} has no ratings")
        if self._history.catalog.is_deleted(row):
            raise DeletedItem.of(query.item)
        may_see, eligible = live_model.table.rows.lengths > 0, None
        may_see[live_model.table.raters_as_stored(row)] = False
        if query.filter is not None:
            eligible = self._selection.passing_users(query.filter)
            may_see &= eligible.mask(len(may_see))
        warnings = list[str]()
        if live_model.unknown[row]:
            may_see[:] = False
            warnings.append(f"{query.item!r} has no ratings, and the model knows nothing else of it")

        def answer() -> Generator[None, None, UsersOfItem]:
            users, scores = yield from users_for(live_model, row, query.n, may_see)
            listed, model = self._scored_users(users, scores.astype(np.float32)), live_model.name
            return UsersOfItem(query.item, listed, model, live_model.shown_version, as_of, warnings, count_of(eligible))

        return begun(answer())

    def estimate(self, query: Estimate, as_of: str) -> RatingEstimate:
        """The estimated rating by the requested model, else by the first live one that estimates ratings."""
        live_model = self._estimator(query.model)
        user, item = self._history.users.row(query.user), self._history.items.row(query.item)
        rated = NO_ITEMS if user is None else live_model.table.row(user)[0]
        warnings = [UNRATED.format(one) for one, row in ((query.user, user), (query.item, item)) if row is None]
        return RatingEstimate(
            query.user,
            query.item,
            live_model.estimate(user, item),
            live_model.is_personal(rated),
            live_model.name,
            live_model.shown_version,
            as_of,
            warnings,
        )

    def user_ratings(self, query: UserRatings, as_of: str) -> RatingsOfUser:
        """A page of a user's ratings, newest first."""
        items, values, timestamps, positions = self._history.table.row(self._user(query.user))
        n_ratings, end = len(items), query.offset + query.n
        newest = np.argpartition(-positions, end)[:end] if end < n_ratings else np.arange(n_ratings)
        newest = newest[np.argsort(-positions[newest])][query.offset :]
        columns = items[newest].tolist(), shortest(values[newest]), timestamps[newest].tolist()
        id_of = self._history.items.id
        rows = [Rating(id_of(item), value, time) for item, value, time in zip(*columns, strict=True)]
        return RatingsOfUser(query.user, n_ratings, rows, as_of)

    def user_events(self, query: UserEvents, as_of: str) -> EventsOfUser:
        """A page of what a user's events add up to, newest first; items that were only seen come last."""
        user, strengths = self._user(query.user), self._history.strengths
        items = np.unique(strengths.unrated(user))
        sums, latest = strengths.sums(user, items)
        have_events = ~np.isnan(sums)
        items, sums, latest = items[have_events], sums[have_events], latest[have_events]
        newest = np.argsort(-latest, kind="stable")[query.offset : query.offset + query.n]
        columns = self._history.items.ids(items[newest].tolist()), shortest(sums[newest]), latest[newest].tolist()
        events = [
            EventsOfItem(item, strength, time if math.isfinite(time) else None)
            for item, strength, time in zip(*columns, strict=True)
        ]
        return EventsOfUser(query.user, len(items), events, as_of)

    def _scored_users(self, rows: NDArray[np.integer], scores: NDArray[np.float32]) -> list[ScoredUser]:
        """Lines of users, without those who were forgotten between two slices."""
        users_and_scores = zip(self._history.users.ids(rows.tolist()), scores.tolist(), strict=True)
        return [ScoredUser(user, score) for user, score in users_and_scores if user != RETIRED]

    def _user(self, user: str) -> int:
        row = self._history.users.row(user)
        if row is None:
            raise UnknownUser(f"user {user!r} has no ratings")
        return row
