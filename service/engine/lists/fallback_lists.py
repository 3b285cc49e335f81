"""`FallbackLists`: the lists of users whom no model knows. Belongs to the engine thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.engine.errors import UnknownUser
from service.engine.lists.common_lists import CommonLists
from service.engine.lists.rule_sources import CommonSource
from service.engine.lists.ruled_lists import RuledLists
from service.engine.lists.selection import Selection
from service.engine.models.live_model import LiveModel
from service.engine.models.live_models import NONE_LIVE, LiveModels
from service.engine.queries import Fallback, Recommend, Recommendation, ScoredItem
from service.engine.queries.batches import count_of
from service.engine.queries.rules import has_rules
from service.engine.state.history import History

NO_MODEL = f"{NONE_LIVE}; these are {{shown}} items"
PREPARING = "{expected} is being prepared (GET /health/ready says how far it is): these are {shown} items"
NO_TASTE = "no rating is of an item that the model knows: these are {shown} items"
NOT_DIVERSE = "diversity has no effect: only a live model knows which items are alike"
SHOWN = {"popular": "the most popular", "trending": "trending", "latest": "the latest"}  # by fallback
NO_ROWS = np.zeros(0, dtype=np.int32)


class FallbackLists:
    """Answers in place of a model with the common list that the query names, labeled as such."""

    def __init__(
        self, history: History, live: LiveModels, selection: Selection, common: CommonLists, ruled: RuledLists
    ) -> None:
        self._history, self._live, self._selection, self._common = history, live, selection, common
        self._ruled = ruled

    def of_user(
        self,
        query: Recommend,
        user: str,
        row: int | None,
        live_model: LiveModel | None,
        as_of: str,
        seen: NDArray[np.int32] | None = None,
    ) -> Recommendation | UnknownUser:
        """The items of the fallback, or the error if `fallback` is "none" and the user has no ratings (any more).

        Args:
            seen: the items of which the user has more than showings. Default: as the history has them.
        """
        strengths = self._history.strengths
        if seen is None:
            seen = NO_ROWS if row is None else strengths.table.row(row)[0]
        only_seen = NO_ROWS if row is None else strengths.only_seen(row)
        if query.fallback == "none" and not len(seen) + len(only_seen):
            return UnknownUser(f"user {user!r} has no ratings")
        if query.rotate is None:
            seen = np.append(seen, only_seen)
        disliked = NO_ROWS if row is None else strengths.disliked(row)
        return self.of_anyone(query, user, seen, live_model, as_of, disliked)

    def of_anyone(
        self,
        query: Recommend,
        user: str | None,
        seen: NDArray[np.int32],
        live_model: LiveModel | None,
        as_of: str,
        disliked: NDArray[np.int32] = NO_ROWS,
    ) -> Recommendation:
        """The items of the fallback that the query allows, without those in `seen` or `disliked`."""
        left_out = np.append(self._selection.excluded(query), disliked if query.include_seen else seen)
        items = self._items(query, user, left_out, live_model)
        fallback: Fallback = "popular" if query.fallback == "none" else query.fallback
        without_model = PREPARING if self._live.is_prepared(query.model) else NO_MODEL
        reason = without_model if live_model is None else NO_TASTE if len(seen) else ""
        reason = reason.format(expected=self._live.described(query.model), shown=SHOWN[fallback])
        warnings = self._common.warnings(reason or None)
        name, version = (None, None) if live_model is None else (live_model.name, live_model.shown_version)
        warnings += self._selection.warnings(query)
        if query.diversity and live_model is None:
            warnings.append(NOT_DIVERSE)
        eligible = count_of(self._selection.eligible(query))
        return Recommendation(user, items, False, name, version, as_of, warnings, fallback, eligible)

    def _items(
        self, query: Recommend, user: str | None, left_out: NDArray[np.int32], live_model: LiveModel | None
    ) -> list[ScoredItem]:
        if not has_rules(query):
            return self._common.items_for(query, left_out)
        source = CommonSource(self._common, self._selection, query, left_out, live_model)
        return self._ruled.lists([query], [user], source)[0]
