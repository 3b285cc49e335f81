"""`Ranking`: answers batches of queries. Belongs to the engine thread.

A list is made in four steps: a plan says for whom and by which model; a source ranks the items for plans that are
alike; rules choose among these place by place; a page becomes an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.base.signing import Signer
from service.engine.lists.common_lists import CommonLists
from service.engine.lists.cursors import Cursors, Shown
from service.engine.lists.exploration import Exploration
from service.engine.lists.lookups import Lookups
from service.engine.lists.page import Pages
from service.engine.lists.plan import Planner, Plans
from service.engine.lists.selection import Selection
from service.engine.lists.sources import Sources
from service.engine.lists.walk import Rules
from service.engine.models.live_model import LiveModel
from service.engine.models.live_models import LiveModels
from service.engine.queries import Items, Query, Recommend
from service.engine.queries.batches import AnswerTo
from service.engine.state.applied import Applied
from service.engine.state.history import History
from service.settings.half_lives import DEFAULT_HALF_LIVES
from service.storage.events import StreamId


class Ranking:
    """Answers batches of queries from the history and the live models.

    Attributes:
        live: the live models.
        planner: makes plans.
        signer: signs pages and recommendation ids; its key is set when it is known.
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
        self._selection, self._exploration = Selection(history), Exploration()
        self._common = CommonLists(history, self._selection, half_lives)
        self.planner = Planner(history, self.live, self._selection)
        self._sources = Sources(history, self.live, self._selection, self._common, self._exploration)
        self._rules = Rules(history, self._selection, self._exploration)
        self._pages = Pages(history, self._selection)
        self._cursors = Cursors(history, self.live, self.signer)
        lookups = Lookups(history, self._selection, self.live.named, self.live.estimator).answer_to
        self.answer_to: dict[type, AnswerTo] = {**lookups, **self._common.answer_to}

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
        """The answer, or the exception, for each query. Lists of one model are ranked together.

        A query with a cursor asks for the page after it, and its answer gets the next one.
        """
        position = str(as_of)
        self._selection.look()
        self._exploration.look(as_of, self._history.position)
        answers: list[Any] = [None] * len(queries)
        plans = Plans([], [], [], [])
        asked: list[tuple[int, bool, int]] = []  # (query, whether it has one list, plans up to its last one)
        opened: dict[int, tuple[Items, Shown]] = {}  # queries with a cursor, and what it says
        for n, one in enumerate(queries):
            try:
                query: Any = one
                if isinstance(one, Items) and one.cursor is not None:
                    query, shown = self._cursors.opened(one)
                    opened[n] = one, shown
                if isinstance(query, Recommend):
                    self.planner.add(query, plans)
                    asked.append((n, query.users is None, len(plans.users)))
                else:
                    answers[n] = self.answer_to[type(query)](query, position)
            except Exception as error:  # becomes the answer of this query; the others are answered
                answers[n] = error
        lists, first = self._lists(plans, position), 0
        for n, has_one_list, end in asked:
            own = lists[first:end]
            failure = next((answer for answer in own if isinstance(answer, Exception)), None)
            answers[n] = failure or (own[0] if has_one_list else own)
            first = end
        for n, (of_page, shown) in opened.items():
            if not isinstance(answers[n], Exception):
                answers[n].next = self._cursors.next(of_page, shown, answers[n])
        return answers

    def _lists(self, plans: Plans, as_of: str) -> list[Any]:
        """The answer, or the exception, for each plan."""
        lists: list[Any] = [None] * len(plans.users)
        try:
            groups = self.planner.groups(plans)
        except Exception as error:  # as in `answer`
            return [error] * len(lists)
        for group in groups:
            made: list[Any]
            try:
                source = self._sources.source(group)
                made = self._pages.answers(source, self._rules.lists(source), as_of)
                for query, answer in zip(group.queries, made, strict=True):
                    if query.experiment is not None and self.planner.arms is not None:
                        self.planner.arms.sign(query, answer)
            except Exception as error:  # as in `answer`
                made = [error] * len(group.places)
            for at, answer in zip(group.places, made, strict=True):
                lists[at] = answer
        return lists
