"""`Planner`: the lists that queries ask for, as columns. Belongs to the engine thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.data.host_ids import IdColumn
from gpu.data.ratings import Rows
from gpu.ranking import topn
from gpu.ranking.eligible import Eligible
from service.base.errors import InvalidRequest
from service.engine.lists.selection import Selection
from service.engine.models.live_model import LiveModel
from service.engine.models.live_models import LiveModels
from service.engine.queries import Recommend, Recommendation
from service.engine.queries.columns import Ids
from service.engine.queries.rules import has_rules
from service.engine.state.history import History
from service.settings.event_types import check_seen

NO_ROW = -1  # of a user whom the history does not know
NO_EXPERIMENTS = "Invalid experiment: expected none, because this service has no extra for experiments, got {!r}"


class Plan(NamedTuple):
    """Lists that a query asks of one model, one for each of its users.

    Attributes:
        query: has the items, the rules and the page of the lists.
        users: ids, as the query has them; None: an anonymous user.
        live_model: the one that is asked; None: none is live.
        eligible: the items that pass the filter and that lists may show; None without a filter.
    """

    query: Recommend
    users: Ids | Sequence[str | None]
    live_model: LiveModel | None
    eligible: Eligible | None


class Run(NamedTuple):
    """Lists of one plan.

    Attributes:
        plan: see there.
        of: its place among all plans.
        at: the places of the lists in it.
    """

    plan: Plan
    of: int
    at: Sequence[int]


class Group(NamedTuple):
    """Lists that one source ranks together, those of each plan one after the other.

    Attributes:
        runs: of different plans.
        rows: int64 (B,), of the users in the history; `NO_ROW`: a user has none.
        live_model: the model that is asked; None: none is live.
        rated: what the users have, as `LiveModel.rows_of` gives it; None: their model does not know them, or their
            ratings are imagined.
        shared: int64 (L,), for each of the plain lists of `runs` the one of `rows` that it is of, because some users
            are asked for several times; None: each list has a row of its own.
    """

    runs: Sequence[Run]
    rows: NDArray[np.int64]
    live_model: LiveModel | None
    rated: Rows | None
    shared: NDArray[np.int64] | None = None

    @property
    def query(self) -> Recommend:
        """The first query, whose options are those of all."""
        return self.runs[0].plan.query

    @property
    def queries(self) -> list[Recommend]:
        """The query of each list that is ranked; shared ones have equal queries."""
        if self.shared is not None:
            return [self.query] * len(self.rows)
        return [run.plan.query for run in self.runs for _ in run.at]

    @property
    def users(self) -> list[str | None]:
        """The user of each list."""
        return [run.plan.users[at] for run in self.runs for at in run.at]

    @property
    def eligible(self) -> list[Eligible | None]:
        """`Plan.eligible` of each list."""
        return [run.plan.eligible for run in self.runs for _ in run.at]

    @property
    def row(self) -> int | None:
        """Row of the first user; None: it has none."""
        row = int(self.rows[0])
        return None if row == NO_ROW else row


class Arms(Protocol):
    """Gives users the models of experiments."""

    def queries_of(self, query: Recommend, users: Sequence[str | None]) -> Sequence[Recommend]:
        """`query` with the model of each of its `users`; those of one model share one object."""
        ...

    def sign(self, query: Recommend, answer: Recommendation) -> None:
        """Name the experiment in an answer to one of these queries."""
        ...


class Planner:
    """Makes plans of queries.

    Attributes:
        arms: of the experiments; None: no extra has any.
    """

    def __init__(self, history: History, live: LiveModels, selection: Selection) -> None:
        self._history, self._live, self._selection = history, live, selection
        self.arms: Arms | None = None

    def plans(self, query: Recommend) -> list[Plan]:
        """The lists of `query`, in order of its users.

        Raises:
            InvalidRequest: it uses an unknown name, or what this service has not.
            UnknownModel, StaleScenario, NotReady, Gone: see `LiveModels.named`, `Recommend` and `Arms`.
        """
        users: Ids | Sequence[str | None] = [query.user] if query.users is None else query.users
        runs: list[tuple[Recommend, Ids | Sequence[str | None]]] = [(query, users)]
        if query.experiment is not None:
            if self.arms is None:
                raise InvalidRequest(NO_EXPERIMENTS.format(query.experiment))
            names = list(users)
            runs = [(one, [user]) for one, user in zip(self.arms.queries_of(query, names), names, strict=True)]
        if query.of_scenario is not None:
            self._history.documents.check(query.of_scenario)
        if query.boosts or query.max_per is not None:
            self._selection.check(query)  # refuses unknown names here, before the queries of a batch become one
        try:
            check_seen(query.seen_types, self._history.types)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None
        eligible = None if query.filter is None else self._selection.eligible(query)
        return [Plan(one, own, self._live.named_or_none(one.model), eligible) for one, own in runs]

    def groups(self, plans: Sequence[Plan]) -> list[Group]:
        """The lists of one model that are of similar length and alike in options.

        Users whom their model does not know, and imagined ones, have groups of their own.
        """
        alike, groups = dict[Any, list[int]](), list[Group]()
        for one, (query, _, live_model, _) in enumerate(plans):
            key: Any = None
            if live_model is not None and not query.is_imagined:
                width = query.n + query.offset  # a long list must not slow down short ones
                length = width.bit_length() if width <= topn.MAX_N else (query.n, query.offset)
                names_items, explores = bool(query.exclude) or query.candidates is not None, query.explore > 0
                masks = query.include_seen, query.repeat, tuple(query.seen_types), query.min_ratings, query.available
                key = live_model, length, *masks, names_items, explores, has_rules(query), is_plain(query)
            alike.setdefault(key, []).append(one)
        for key, own in alike.items():
            runs = [Run(plans[of], of, range(len(plans[of].users))) for of in own]
            rows = self._rows_of([run.plan.users for run in runs])
            are_personal = np.zeros(len(rows), dtype=np.bool_)
            if key is not None:
                live_model, are_personal = key[0], rows != NO_ROW
                rated = live_model.rows_of(rows[are_personal])
                told = live_model.are_personal(rated)
                if np.count_nonzero(told) < len(told):
                    rated, are_personal[are_personal] = topn.rows_of(rated, np.flatnonzero(told)), told
                if np.count_nonzero(are_personal) == len(rows):
                    groups.append(_once(Group(runs, rows, live_model, rated)))
                    continue
                if len(rated.starts):
                    groups.append(Group(_part(runs, are_personal), rows[are_personal], live_model, rated))
            first = 0
            for plan, of, every in runs:
                others = [at for at in every if not are_personal[first + at]]
                strangers = [at for at in others if rows[first + at] == NO_ROW] if is_plain(plan.query) else []
                alone = [[at] for at in others if at not in strangers]
                for some in [*alone, strangers] if strangers else alone:  # those without a row share a plain list
                    of_users = rows[first + np.array(some)]
                    groups.append(Group([Run(plan, of, some)], of_users, plan.live_model, None))
                first += len(every)
        return groups

    def _rows_of(self, of_plans: Sequence[Ids | Sequence[str | None]]) -> NDArray[np.int64]:
        """The rows of the users of plans, one after the other, int64 (B,); `NO_ROW` for one who has none."""
        table, columns = self._history.users, [users for users in of_plans if isinstance(users, Ids)]
        if len(columns) < len(of_plans):
            rows = table.rows([user for users in of_plans for user in users])
            return np.array([NO_ROW if row is None else row for row in rows], dtype=np.int64)
        text, ends = b"".join(ids.text for ids in columns), [np.frombuffer(ids.ends, np.uint32) for ids in columns]
        firsts = np.cumsum([0, *(len(ids.text) for ids in columns[:-1])])
        all_ends = np.concatenate(ends) + np.repeat(firsts, list(map(len, ends)))
        return table.rows_of(IdColumn.split(text, all_ends)).astype(np.int64)


def _once(group: Group) -> Group:
    """`group` with each user once if its lists are plain and of one page: busy users are asked for again and again."""
    pages = {(run.plan.query.n, run.plan.query.offset) for run in group.runs}
    if group.rated is None or len(pages) > 1 or not is_plain(group.query):
        return group
    rows, firsts, shared = np.unique(group.rows, return_index=True, return_inverse=True)
    if len(rows) == len(group.rows):
        return group
    return group._replace(rows=rows, rated=topn.rows_of(group.rated, firsts), shared=shared)


def _part(runs: Sequence[Run], chosen: NDArray[np.bool_]) -> list[Run]:
    """The lists that are chosen, bool (B,)."""
    left = iter(chosen.tolist())
    parts = [
        Run(plan, of, [at for at, is_chosen in zip(every, left, strict=False) if is_chosen]) for plan, of, every in runs
    ]
    return [run for run in parts if run.at]


def is_plain(query: Recommend) -> bool:
    """Whether the answer to `query` is of columns."""
    return isinstance(query.users, Ids)
