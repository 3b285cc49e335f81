"""`Ranking`: answers batches of queries. Belongs to the engine thread.

A list is made in four steps: a plan says for whom and by which model; a source ranks the items for plans that are
alike; rules choose among these place by place; a page becomes an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import GeneratorType
from typing import Any

from msgspec import UNSET

from service.base.signing import Signer
from service.engine.background import Slices
from service.engine.lists.common_lists import CommonLists
from service.engine.lists.cursors import Cursors, Shown
from service.engine.lists.exploration import Exploration
from service.engine.lists.lookups import Lookups
from service.engine.lists.page import Pages, PlainLists
from service.engine.lists.plan import Plan, Planner, is_plain
from service.engine.lists.selection import Selection
from service.engine.lists.sources import Sources
from service.engine.lists.walk import Rules
from service.engine.models.live_model import LiveModel
from service.engine.models.live_models import LiveModels
from service.engine.queries import ItemNeighbors, Items, NeighborsOfSet, Query, Recommend, Repeat
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
        repeat: Repeat = "auto",
        seen_types: Sequence[str] = (),
    ) -> None:
        """`half_lives`, `repeat` and `seen_types` are those of the settings."""
        self._history = history
        self.live, self.signer = LiveModels(default_models), Signer()
        self._selection, self._exploration = Selection(history), Exploration()
        self._common = CommonLists(history, self._selection, half_lives)
        self.planner = Planner(history, self.live, self._selection)
        parts = self._selection, self._common, self._exploration
        self._sources = Sources(history, self.live, *parts, repeat, seen_types)
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
        self._common.follow(live_model.trend)
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
        self._pages.texts.take_in()
        plans = list[Plan]()
        asked = list[tuple[int, Recommend, int]]()  # (place, query, plans up to its last one)
        opened: dict[int, tuple[Items, Shown]] = {}  # queries with a cursor, and what it says
        for n, one in enumerate(queries):
            try:
                query: Any = one
                if isinstance(one, Items) and one.cursor is not None:
                    query, shown = self._cursors.opened(one)
                    opened[n] = one, shown
                if isinstance(query, Recommend):
                    plans += self.planner.plans(query)
                    asked.append((n, query, len(plans)))
                else:
                    answers[n] = self.answer_to[type(query)](query, position)
                    if isinstance(answers[n], GeneratorType):
                        answers[n] = self._later(answers[n], one, opened.pop(n, None))
            except Exception as error:  # becomes the answer of this query; the others are answered
                answers[n] = error
        made, first = self._lists(plans, position), 0
        for n, query, end in asked:
            own = [of_plan[at] for of_plan in made[first:end] for at in sorted(of_plan)]
            first = end
            failure = next((one for one in own if isinstance(one, Exception)), None)
            if failure is not None:
                answers[n] = failure
            elif is_plain(query):
                answers[n] = PlainLists(own)
            else:
                answers[n] = own[0] if query.users is None else own
        self._add_titles(queries, answers)
        for n, (of_page, shown) in opened.items():
            if not isinstance(answers[n], Exception):
                answers[n].next = self._cursors.next(of_page, shown, answers[n])
        return answers

    def _later(self, slices: Slices, query: Query, page: tuple[Items, Shown] | None) -> Slices:
        """The answer that `slices` make to `query`, with titles and the cursor after a `page`."""
        answer = yield from slices
        self._add_titles([query], [answer])
        if page is not None:
            answer.next = self._cursors.next(*page, answer)
        return answer

    def _add_titles(self, queries: Sequence[Query], answers: Sequence[Any]) -> None:
        """Add to each line of the answers to queries with titles the title of its item."""
        for query, answer in zip(queries, answers, strict=True):
            if not isinstance(query, Items) or query.with_ is None:
                continue
            for one in answer if isinstance(answer, list) else [answer]:
                is_near = isinstance(one, ItemNeighbors | NeighborsOfSet)
                for line in getattr(one, "neighbors" if is_near else "items", ()):  # an error has none
                    row = self._history.items.row(line.item)
                    line.title = UNSET if row is None else self._history.catalog.title(row) or UNSET

    def _lists(self, plans: Sequence[Plan], as_of: str) -> list[dict[int, Any]]:
        """The answer, or the exception, for each list of each plan, by its place. A plain plan has its parts instead,
        each by the place of its first list.
        """
        made: list[dict[int, Any]] = [{} for _ in plans]
        try:
            groups = self.planner.groups(plans)
        except Exception as error:  # as in `answer`
            return [{0: error} for _ in plans]
        for group in groups:
            try:
                source = self._sources.source(group)
                lists = self._rules.lists(source)
                if is_plain(group.query):
                    for of, part in self._pages.parts(source, lists, as_of):
                        made[of][part.at[0]] = part
                    continue
                answers = iter(self._pages.answers(source, lists, as_of))
                for plan, of, places in group.runs:
                    for at, answer in zip(places, answers, strict=False):
                        if plan.query.experiment is not None and self.planner.arms is not None:
                            self.planner.arms.sign(plan.query, answer)
                        made[of][at] = answer
            except Exception as error:  # as in `answer`
                for _, of, places in group.runs:
                    made[of] |= dict.fromkeys(places, error)
        return made
