"""`Planner`: the lists that queries ask for. Belongs to the engine thread."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from msgspec import Struct

from gpu.ranking import topn
from gpu.ratings import Rows
from service.base.errors import InvalidRequest
from service.engine.lists.selection import Selection
from service.engine.models.live_model import LiveModel
from service.engine.models.live_models import LiveModels
from service.engine.queries import Recommend, Recommendation
from service.engine.queries.rules import has_rules
from service.engine.state.history import History

NO_EXPERIMENTS = "Invalid experiment: expected none, because this service has no extra for experiments, got {!r}"


class Plan(Struct, frozen=True):
    """One list to make. The query has its items, its rules and its page.

    Attributes:
        user: id; None: an anonymous user.
        row: row of the user in the history; None: it has none.
        live_model: the model that is asked; None: none is live.
    """

    query: Recommend
    user: str | None
    row: int | None
    live_model: LiveModel | None


class Group(NamedTuple):
    """Plans whose lists one source ranks together.

    Attributes:
        places: where they are among all plans.
        rows: what the users have, as `LiveModel.rows_of` gives it; None: their model does not know them, or their
            ratings are imagined.
    """

    places: list[int]
    rows: Rows | None


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

    def plans(self, query: Recommend) -> list[Plan]:
        """A plan for each list of `query`.

        Raises:
            InvalidRequest: it uses an unknown name, or what this service has not.
            UnknownModel, StaleScenario, NotReady, Gone: see `LiveModels.named`, `Recommend` and `Arms`.
        """
        queries: Sequence[Recommend] | None = None
        if query.experiment is not None:
            if self.arms is None:
                raise InvalidRequest(NO_EXPERIMENTS.format(query.experiment))
            queries = self.arms.queries_of(query)
        self._history.documents.check(query.of_scenario)
        self._selection.check(query)  # refuses unknown names here, before the queries of a batch become one
        row_of, named = self._history.users.row, self._live.named_or_none
        if query.users is None:
            one = query if queries is None else queries[0]
            return [Plan(one, query.user, None if query.user is None else row_of(query.user), named(one.model))]
        users = query.users
        if queries is not None:
            of_users = zip(queries, users, strict=True)
            return [Plan(one, user, row_of(user), named(one.model)) for one, user in of_users]
        live_model = named(query.model)
        return [Plan(query, user, row_of(user), live_model) for user in users]


def grouped(plans: Sequence[Plan]) -> list[Group]:
    """The groups of `plans`: of one model, of similar length, and alike in options.

    Users whom their model does not know, and imagined ones, have groups of their own.
    """
    of_models: dict[LiveModel, list[int]] = {}
    for at, plan in enumerate(plans):
        if plan.row is not None and plan.live_model is not None and not plan.query.is_imagined:
            of_models.setdefault(plan.live_model, []).append(at)
    groups, n_known = list[Group](), 0
    for live_model, places in of_models.items():
        rows = live_model.rows_of(np.array([plans[at].row for at in places], dtype=np.int64))
        alike: dict[Any, list[int]] = {}
        for n in itertools.compress(range(len(places)), live_model.are_personal(rows).tolist()):
            query = plans[places[n]].query
            width = query.n + query.offset  # a long list must not slow down short ones
            length = width.bit_length() if width <= topn.MAX_N else (query.n, query.offset)
            names_items, explores = bool(query.exclude) or query.candidates is not None, query.explore > 0
            masks = query.include_seen, query.min_ratings, query.available
            key = (length, *masks, names_items, explores, has_rules(query))
            alike.setdefault(key, []).append(n)
        for own in alike.values():
            of_group = rows if len(own) == len(places) else topn.rows_of(rows, np.array(own))
            groups.append(Group([places[n] for n in own], of_group))
            n_known += len(own)
    if n_known < len(plans):
        known = set(itertools.chain.from_iterable(group.places for group in groups))
        groups += [Group([at], None) for at in range(len(plans)) if at not in known]
    return groups
