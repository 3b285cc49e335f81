"""`Planner`: the lists that queries ask for, as columns. Belongs to the engine thread."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.ranking import topn
from gpu.ranking.eligible import Eligible
from gpu.ratings import Rows
from service.base.errors import InvalidRequest
from service.engine.lists.selection import Selection
from service.engine.models.live_model import LiveModel
from service.engine.models.live_models import LiveModels
from service.engine.queries import Recommend, Recommendation
from service.engine.queries.rules import has_rules
from service.engine.state.history import History

NO_EXPERIMENTS = "Invalid experiment: expected none, because this service has no extra for experiments, got {!r}"


NO_ROW = -1  # of a user whom the history does not know


class Plans(NamedTuple):
    """Lists to make, as columns. A query has the items, the rules and the page of its lists.

    Attributes:
        queries: of each list; the lists of one query follow each other and have the same object.
        users: ids; None: an anonymous user.
        live_models: those that are asked; None: none is live.
        eligible: the items that pass the filters and that lists may show; None without a filter.
    """

    queries: list[Recommend]
    users: list[str | None]
    live_models: list[LiveModel | None]
    eligible: list[Eligible | None]


class Group(NamedTuple):
    """Lists that one source ranks together, as columns.

    Attributes:
        places: where they are among all plans.
        queries, users, eligible: see `Plans`.
        rows: int64 (B,), of the users in the history; `NO_ROW`: a user has none.
        live_model: the model that is asked; None: none is live.
        rated: what the users have, as `LiveModel.rows_of` gives it; None: their model does not know them, or their
            ratings are imagined.
    """

    places: list[int]
    queries: list[Recommend]
    users: list[str | None]
    eligible: list[Eligible | None]
    rows: NDArray[np.int64]
    live_model: LiveModel | None
    rated: Rows | None

    @property
    def row(self) -> int | None:
        """Row of the first user; None: it has none."""
        row = int(self.rows[0])
        return None if row == NO_ROW else row


class Arms(Protocol):
    """Gives users the models of experiments."""

    def queries_of(self, query: Recommend) -> Sequence[Recommend]:
        """`query` with the model of each of its users; those of one model share one object."""
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

    def add(self, query: Recommend, plans: Plans) -> None:
        """Add the lists of `query` to `plans`.

        Raises:
            InvalidRequest: it uses an unknown name, or what this service has not.
            UnknownModel, StaleScenario, NotReady, Gone: see `LiveModels.named`, `Recommend` and `Arms`.
        """
        users = [query.user] if query.users is None else query.users
        queries, n_lists = [query], len(users)  # of each of `queries`
        if query.experiment is not None:
            if self.arms is None:
                raise InvalidRequest(NO_EXPERIMENTS.format(query.experiment))
            queries, n_lists = [*self.arms.queries_of(query)], 1
        if query.of_scenario is not None:
            self._history.documents.check(query.of_scenario)
        if query.boosts or query.max_per is not None:
            self._selection.check(query)  # refuses unknown names here, before the queries of a batch become one
        eligible = None if query.filter is None else self._selection.eligible(query)
        live_models = [self._live.named_or_none(one.model) for one in queries]
        plans.queries.extend(queries * n_lists)
        plans.users.extend(users)
        plans.live_models.extend(live_models * n_lists)
        plans.eligible.extend([eligible] * len(users))

    def groups(self, plans: Plans) -> list[Group]:
        """The lists of one model that are of similar length and alike in options.

        Users whom their model does not know, and imagined ones, have groups of their own.
        """
        queries, users, live_models, eligible = plans
        rows = self._history.users.rows(users)
        alike, alone, last = dict[Any, list[int]](), list[int](), None
        for at, query in enumerate(queries):
            if query is not last:
                last, own, live_model = query, alone, live_models[at]
                if live_model is not None and not query.is_imagined:
                    width = query.n + query.offset  # a long list must not slow down short ones
                    length = width.bit_length() if width <= topn.MAX_N else (query.n, query.offset)
                    names_items, explores = bool(query.exclude) or query.candidates is not None, query.explore > 0
                    masks = query.include_seen, query.min_ratings, query.available
                    key = (live_model, length, *masks, names_items, explores, has_rules(query))
                    own = alike.setdefault(key, [])
            (alone if rows[at] is None else own).append(at)
        groups = list[Group]()
        for (live_model, *_), own in alike.items():
            if not own:  # the model is asked for unknown users alone
                continue
            of_users = np.array([rows[at] for at in own], dtype=np.int64)
            rated, places = live_model.rows_of(of_users), own
            are_personal = live_model.are_personal(rated)
            if np.count_nonzero(are_personal) < len(own):
                alone += itertools.compress(own, ~are_personal)
                places = list(itertools.compress(own, are_personal))
                rated, of_users = topn.rows_of(rated, np.flatnonzero(are_personal)), of_users[are_personal]
            if places:
                of_places = [queries[at] for at in places], [users[at] for at in places]
                sets = [eligible[at] for at in places]
                groups.append(Group(places, *of_places, sets, of_users, live_model, rated))
        for at in alone:
            row = np.array([NO_ROW if rows[at] is None else rows[at]])
            groups.append(Group([at], [queries[at]], [users[at]], [eligible[at]], row, live_models[at], None))
        return groups
