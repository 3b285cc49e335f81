"""`Ranking`: answers batches of queries. Belongs to the engine thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET, Struct
from numpy.typing import NDArray

from gpu.ranking import topn
from gpu.ratings import Rows
from gpu.refit_rules import MAX_RATINGS_OF_USERS
from service.base.recommendation_ids import RecommendationIds
from service.base.signing import Signer
from service.engine.errors import UnknownUser
from service.engine.lists.common_lists import CommonLists
from service.engine.lists.experiments import Experiments
from service.engine.lists.exploration import Exploration, Lists
from service.engine.lists.fallback_lists import FallbackLists
from service.engine.lists.lookups import Lookups
from service.engine.lists.rule_sources import ModelSource
from service.engine.lists.ruled_lists import RuledLists
from service.engine.lists.selection import Selection
from service.engine.models.live_model import LiveModel
from service.engine.models.live_models import LiveModels
from service.engine.models.what_if import Extra, WhatIf
from service.engine.queries import Query, Reason, Recommend, Recommendation, ScoredItem
from service.engine.queries.batches import AnswerTo, count_of, of_each, one_failure_fails_all
from service.engine.queries.rules import has_rules
from service.engine.state.applied import Applied
from service.engine.state.history import History
from service.settings.half_lives import DEFAULT_HALF_LIVES
from service.storage.events import StreamId

N_REASONS = 3


class _Slot(Struct, frozen=True):
    """One list to score: its user, its model, and `answers[at]`, its destination."""

    answers: list[Any]
    at: int
    query: Recommend
    user: str
    row: int
    live_model: LiveModel


class Ranking:
    """Answers batches of queries from the history and the live models.

    Attributes:
        live: the live models.
        signer: signs pages and answers of experiments; its key is set when it is known.
        experiments: their arms and answers.
        answer_to: for each type of query but `Recommend` the function that answers it.
    """

    def __init__(
        self,
        history: History,
        default_models: Sequence[str],
        half_lives: Mapping[str, float] = DEFAULT_HALF_LIVES,
    ) -> None:
        self._history = history
        self.live, self.signer = LiveModels(default_models), Signer()
        self._selection = Selection(history)
        self._common = CommonLists(history, self._selection, half_lives)
        self._what_if = WhatIf(history)
        self._exploration = Exploration()
        self._ruled = RuledLists(history, self._selection, self._exploration)
        self._fallbacks = FallbackLists(history, self.live, self._selection, self._common, self._ruled)
        self._as_of = ""
        lookups = Lookups(history, self._selection, self.live.named, self.live.estimator).answer_to
        self.experiments = Experiments(history, self.live, RecommendationIds(self.signer))
        self.answer_to: dict[type, AnswerTo] = {**lookups, **self._common.answer_to, **self.experiments.answer_to}

    # --- the live models

    def models(self) -> list[LiveModel]:
        """The live models in order of preference."""
        return self.live.all()

    def install(self, live_model: LiveModel) -> None:
        """Make `live_model` the live model of its name."""
        self.live.install(live_model)

    # --- the history

    def recount(self) -> None:
        """Count again for the common lists, after the history was read from the log."""
        self._common.recount()

    def note(self, applied: Applied) -> None:
        """Count the changes that the history has just applied."""
        self._common.note(applied)

    # --- answers

    def answer(self, queries: Sequence[Query], as_of: StreamId) -> list[Any]:
        """The answer, or the exception, for each query. Lists of one model are scored together."""
        self._as_of = str(as_of)
        self._selection.look()
        self._exploration.look(as_of, self._history.position)
        answers: list[Any] = [None] * len(queries)
        slots: list[_Slot] = []
        for index, query in enumerate(queries):
            try:
                if isinstance(query, Recommend) and query.experiment is not None:
                    self._plan_experiment(slots, answers, index, query)
                elif isinstance(query, Recommend):
                    self._plan(slots, answers, index, query)
                else:
                    answers[index] = self.answer_to[type(query)](query, self._as_of)
            except Exception as error:  # becomes the answer of this query; the others are answered
                answers[index] = error
        self._fill(slots)
        for query, answer in zip(queries, answers, strict=True):
            if isinstance(query, Recommend) and query.experiment is not None and not isinstance(answer, Exception):
                self.experiments.sign(query, answer)
        return [one_failure_fails_all(answer) if isinstance(answer, list) else answer for answer in answers]

    def _plan(self, slots: list[_Slot], answers: list[Any], index: int, query: Recommend) -> None:
        """Answer a query that needs no batch at once; for any other add the slots to fill."""
        self._history.documents.check(query.of_scenario)
        self._selection.check(query)  # refuses unknown names here, before the queries of a batch become one
        live_model = self.live.named_or_none(query.model)
        if query.ratings is not None or query.order_half_life is not None:
            answers[index] = self._imagined(query, live_model)
        elif query.user is not None:
            self._plan_user(slots, answers, index, query, query.user, live_model)
        else:
            users = query.users or ()
            answers[index] = several = [None] * len(users)
            for n, user in enumerate(users):
                self._plan_user(slots, several, n, query, user, live_model)

    def _plan_experiment(self, slots: list[_Slot], answers: list[Any], index: int, query: Recommend) -> None:
        """`_plan` with the model of each user's arm."""
        own = self.experiments.queries_of(query)
        if query.user is not None:
            self._plan(slots, answers, index, own[0])
            return
        self._selection.eligible(query)
        answers[index] = several = [None] * len(own)
        for n, (user, one) in enumerate(zip(query.users or (), own, strict=True)):
            self._plan_user(slots, several, n, one, user, self.live.named_or_none(one.model))

    def _plan_user(
        self, slots: list[_Slot], answers: list[Any], at: int, query: Recommend, user: str, live_model: LiveModel | None
    ) -> None:
        row = self._history.users.row(user)
        if row is not None and live_model is not None:
            slots.append(_Slot(answers, at, query, user, row, live_model))
        else:
            answers[at] = self._fallbacks.of_user(query, user, row, live_model, self._as_of)

    def _fill(self, slots: list[_Slot]) -> None:
        groups: dict[tuple[Any, ...], list[_Slot]] = {}
        for slot in slots:
            query = slot.query
            is_plain = not query.exclude and query.candidates is None
            masks = query.include_seen, query.min_ratings, query.available, query.explore > 0, has_rules(query)
            groups.setdefault((slot.live_model.name, _width(query), *masks, is_plain), []).append(slot)
        for group in groups.values():
            try:
                self._fill_group(group)
            except Exception as error:  # as in `answer`
                for slot in group:
                    slot.answers[slot.at] = error

    def _fill_group(self, group: list[_Slot]) -> None:
        live_model = group[0].live_model
        users = np.array([slot.row for slot in group], dtype=np.int64)
        rows = live_model.rows_of(users)
        is_personal = live_model.are_personal(rows)
        if not is_personal.all():
            for at in np.flatnonzero(~is_personal).tolist():
                slot = group[at]
                shown = self._fallbacks.of_user(slot.query, slot.user, slot.row, live_model, self._as_of)
                slot.answers[slot.at] = shown
            group = [slot for slot, has_taste in zip(group, is_personal.tolist(), strict=True) if has_taste]
            users = users[is_personal]
            rows = live_model.rows_of(users)
        if group:
            self._fill_personal(group, users, rows)

    def _fill_personal(self, group: list[_Slot], users: NDArray[np.int64], rows: Rows) -> None:
        live_model = group[0].live_model
        queries = [slot.query for slot in group]
        kept_out = self._kept_out(live_model, users, queries)
        names = [slot.user for slot in group]
        lists = self._scored(live_model, topn.users_of(live_model.model, users), rows, queries, names, kept_out)
        warnings: dict[int, list[str]] = {}  # by query: one of several users is checked once
        for slot, items in zip(group, lists, strict=True):
            query = slot.query
            if query.explain:
                self._explain(live_model, items, *live_model.newest(slot.row, MAX_RATINGS_OF_USERS))
            if id(query) not in warnings:
                warnings[id(query)] = self._selection.warnings(query)
            slot.answers[slot.at] = self._personal(query, slot.user, items, live_model, warnings[id(query)])

    def _kept_out(
        self, live_model: LiveModel, users: NDArray[np.int64], queries: Sequence[Recommend]
    ) -> list[NDArray[np.int32]] | None:
        """Items that events keep out of the list of each user; None if there are no events."""
        if not self._history.strengths.has_events:
            return None
        return [
            live_model.kept_out(user, include_seen=query.include_seen, rotates=query.rotate is not None)
            for user, query in zip(users.tolist(), queries, strict=True)
        ]

    def _scored(
        self,
        live_model: LiveModel,
        users: topn.Users,
        rows: Rows,
        queries: Sequence[Recommend],
        names: Sequence[str | None],
        kept_out: Sequence[NDArray[np.int32]] | None = None,
    ) -> list[list[ScoredItem]]:
        """The list of each query; they agree in `include_seen`, `min_ratings`, `available`, and in whether they
        explore, name items, and have rules.
        """
        if has_rules(queries[0]):
            source = ModelSource(live_model, self._selection, users, rows, queries, kept_out, self._exploration)
            return self._ruled.lists(queries, names, source)
        names_items = bool(queries[0].exclude) or queries[0].candidates is not None
        selection, has_filter = self._selection, any(query.filter for query in queries)
        exclude = of_each(selection.excluded, queries) if names_items else None
        if kept_out is not None:
            exclude = list(kept_out if exclude is None else map(np.append, exclude, kept_out))
        candidates = of_each(selection.candidates, queries) if names_items else None
        eligible = of_each(selection.eligible, queries) if has_filter else None
        masks = selection.hidden(queries[0]), queries[0].include_seen, queries[0].min_ratings
        wanted = Lists(live_model, users, rows, exclude, candidates, eligible, *masks)
        first = min(query.offset for query in queries)
        n = max(query.n + query.offset for query in queries) - first
        if queries[0].explore:
            items, scores, are_explored = self._exploration.page(wanted, queries, names, n, first)
        else:
            (items, scores), are_explored = wanted.best(n, first), None
        ids_of, columns = self._history.items.ids, [scores.tolist()]
        if not live_model.model.is_implicit:
            columns.append(live_model.estimates(users, rows, items).tolist())
        lists = []
        for query, own_items, *own in zip(queries, items.tolist(), *columns, strict=True):
            page = slice(query.offset - first, query.offset - first + query.n)
            shown = own_items[page]
            if shown and shown[-1] < 0:  # padding comes last
                shown = [item for item in shown if item >= 0]
            lists.append(list(map(ScoredItem, ids_of(shown), *[numbers[page] for numbers in own])))
        if are_explored is not None:
            for query, found, own_marks in zip(queries, lists, are_explored.tolist(), strict=True):
                for one, is_explored in zip(found, own_marks[query.offset - first :], strict=False):
                    one.source = "explore" if is_explored else UNSET
        return lists

    def _imagined(self, query: Recommend, live_model: LiveModel | None) -> Recommendation | UnknownUser:
        """The list of a user as if the ratings of the query were stored."""
        extra, what_if = self._what_if.ratings_of(query), self._what_if
        user = None if query.user is None else self._history.users.row(query.user)
        imagined = None if live_model is None else what_if.imagined(live_model, user, query, extra)
        if live_model is None or imagined is None:
            return self._without_taste(query, user, live_model, extra)
        users, rows, read, weights, kept_out = imagined
        found = self._scored(live_model, users, rows, [query], [query.user], kept_out)[0]
        if query.explain:
            self._explain(live_model, found, read.items, read.values, weights)
        warnings = self._selection.unknown("ratings", extra.unknown) + self._selection.warnings(query)
        return self._personal(query, query.user, found, live_model, warnings)

    def _without_taste(
        self, query: Recommend, user: int | None, live_model: LiveModel | None, extra: Extra
    ) -> Recommendation | UnknownUser:
        """The list of an imagined user whom no model knows."""
        seen = self._what_if.seen(user, extra)
        if query.user is None:
            answer: Recommendation | UnknownUser = self._fallbacks.of_anyone(query, None, seen, live_model, self._as_of)
        else:
            answer = self._fallbacks.of_user(query, query.user, user, live_model, self._as_of, seen)
        if isinstance(answer, Recommendation):
            answer.warnings += self._selection.unknown("ratings", extra.unknown)
        return answer

    def _personal(
        self, query: Recommend, user: str | None, items: list[ScoredItem], live_model: LiveModel, warnings: list[str]
    ) -> Recommendation:
        model = live_model.name, live_model.shown_version
        eligible = count_of(self._selection.eligible(query))
        return Recommendation(user, items, True, *model, self._as_of, warnings, eligible=eligible)

    def _explain(
        self,
        live_model: LiveModel,
        found: list[ScoredItem],
        items: NDArray[np.int32],
        values: NDArray[np.float32],
        weights: NDArray[np.float32] | None = None,
    ) -> None:
        """Attach to each item the rated items that contribute most to its score."""
        ranked = [one for one in found if one.score is not None]  # not pins
        rows = self._selection.rows([one.item for one in ranked]).tolist()  # as many as items: each of them is known
        for one, reasons in zip(ranked, live_model.reasons(items, values, rows, N_REASONS, weights), strict=True):
            one.reasons = [Reason(self._history.items.id(item), share) for item, share in reasons]


def _width(query: Recommend) -> Any:
    """Key by which lists of similar length are scored together: a long one must not slow down short ones."""
    width = query.n + query.offset
    return width.bit_length() if width <= topn.MAX_N else (query.n, query.offset)
