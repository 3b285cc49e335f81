"""`Experiments`: which arm a user gets, and what the arms have led to. `Changes`: puts them, and keeps their models."""

from __future__ import annotations

import asyncio
import bisect
import collections
import contextlib
import hashlib
import itertools
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from service.api.answers import Written
from service.api.operations import EndModel
from service.base.errors import InvalidRequest, NotReady
from service.base.recommendation_ids import RecommendationIds, ShownList
from service.engine.errors import Gone
from service.engine.lists.filters import Filters
from service.engine.models.live_models import LiveModels
from service.engine.queries import Recommend, Recommendation
from service.engine.queries.batches import AnswerTo
from service.engine.queries.document_queries import ListDocuments
from service.engine.state.history import History
from service.extras.experiments.attributions import Attributions
from service.extras.experiments.queries import (
    KIND,
    CheckArms,
    CheckUnused,
    GetExperiment,
    ModelInUse,
    PutExperiment,
    UnknownExperiment,
)
from service.extras.experiments.report import ArmCounts, ExperimentReport, report_of
from service.storage.documents import Document, Experiment, encode, experiment_of
from service.storage.errors import UnknownModel
from service.storage.events import StreamId, encode_document

if TYPE_CHECKING:
    from service.processes.runtime import Runtime


class Experiments:
    """Decides arms, signs answers, and reports. Belongs to the engine thread.

    Attributes:
        answer_to: for each type of query the method that answers it.
    """

    def __init__(self, history: History, live: LiveModels, ids: RecommendationIds) -> None:
        self._documents, self._live, self._ids = history.documents, live, ids
        self._users, self._filters = history.users, Filters(history.user_attributes.index, history.users)
        self._attributions = Attributions(history.documents.position)
        history.observers.append(self._attributions)
        self._parsed: dict[str, tuple[str, Experiment]] = {}  # by id: position, and what was put there
        self._answered: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self.answer_to: dict[type, AnswerTo] = {
            GetExperiment: self.report,
            CheckArms: self.check,
            CheckUnused: self.check_unused,
        }

    def queries_of(self, query: Recommend, users: Sequence[str | None]) -> list[Recommend]:
        """`query` with the model of the arm of each of its `users`; users of one arm share one object.

        Who does not pass the filter of the experiment gets `query` without the experiment.

        Raises:
            UnknownExperiment: there is none of that id.
            InvalidRequest: it names no user.
            Gone: it goes on from a page of another arm, because the experiment was replaced.
            NotReady: there is no key to sign with yet.
        """
        self._ids.check()
        names = [user for user in users if user is not None]
        if not names:
            raise InvalidRequest("Invalid experiment: expected a user, whose id decides the arm, got ratings alone")
        _, experiment = self.find(query.experiment or "")
        take_part = [True] * len(names)
        if experiment.filter is not None:
            take_part = self._filters.which_pass(experiment.filter, self._users.rows(names))
        arms = [arm_of(experiment, user) if is_in else None for user, is_in in zip(names, take_part, strict=True)]
        if query.model is not None and not {*arms} <= {
            query.model,
            None,
        }:  # a cursor names the model of the page before
            raise Gone(f"the experiment gives this user another model than {query.model}: begin again with `cursor=`")
        of_arm: dict[str | None, Recommend] = {None: msgspec.structs.replace(query, experiment=None)}
        of_arm |= {arm.model: msgspec.structs.replace(query, model=arm.model) for arm in experiment.arms}
        return [of_arm[arm] for arm in arms]

    def sign(self, query: Recommend, answer: Recommendation) -> None:
        """Add experiment, arm and recommendation id to the answer to one of `queries_of`, unless it has no model."""
        if answer.user is None or answer.model is None or query.model is None:
            return
        name = query.experiment or ""
        put, _ = self.find(name)
        answer.experiment, answer.arm = name, query.model
        shown = ShownList(name, put, query.model, answer.model_version or "", answer.as_of)
        answer.recommendation_id = self._ids.of(shown, answer.user)
        self._answered[name, put, query.model] += 1

    def check(self, query: CheckArms, _: str) -> None:
        """Check the models of arms, and the names in the filter.

        Raises:
            InvalidRequest: a model is not live, or is a shadow; no user ever had a name.
        """
        if query.filter is not None:
            self._filters.passing(query.filter)
        for model in query.models:
            try:
                self._live.named(model)
            except (UnknownModel, NotReady) as error:
                raise InvalidRequest(f"Invalid arms: {str(error).removeprefix('Invalid model: ')}") from None

    def check_unused(self, query: CheckUnused, as_of: str) -> None:
        """Check that no experiment has an arm with the model.

        Raises:
            ModelInUse: one has.
        """
        for listed in self._documents.list(ListDocuments(KIND), as_of).documents:
            if query.model in {arm.model for arm in self.find(listed.name)[1].arms}:
                raise ModelInUse(
                    f"Invalid model: expected one that is no arm of an experiment, got {query.model!r}, an arm of"
                    f" {listed.name!r}; DELETE or PUT this experiment first"
                )

    def report(self, query: GetExperiment, as_of: str) -> ExperimentReport:
        """What the arms of an experiment have led to.

        Raises:
            UnknownExperiment: there is none of that id.
        """
        name = query.experiment
        put, experiment = self.find(name)
        counted = [
            ArmCounts(self._answered[name, put, arm.model], *self._attributions.of(name, arm.model))
            for arm in experiment.arms
        ]
        return report_of(name, put, experiment, counted, as_of)

    def find(self, name: str) -> tuple[str, Experiment]:
        """Position and content of an experiment."""
        body, position = self._documents.find(KIND, name, UnknownExperiment)
        parsed = self._parsed.get(name)
        if parsed is None or parsed[0] != str(position):
            parsed = self._parsed[name] = str(position), experiment_of(body)
        return parsed


class Changes:
    """Puts experiments, and refuses to end a model that is an arm of one. Belongs to the event loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = asyncio.Lock()  # an experiment does not get an arm whose model is ending
        self._put_at: StreamId | None = None  # position of the newest experiment that was put here

    async def put(self, asked: PutExperiment) -> Written:
        """Put an experiment; it is durable on return.

        Raises:
            InvalidRequest: a model is not live, or is a shadow, or no user ever had a name in the filter. Further
                errors: see `Writes.append`.
        """
        document = Document(KIND, asked.name, encode(asked.experiment).decode())
        async with self._lock:
            models = [arm.model for arm in asked.experiment.arms]
            await self._runtime.ask(CheckArms(models, asked.experiment.filter))
            self._put_at = await self._runtime.writes.append(encode_document(document))
            return Written(str(self._put_at))

    @contextlib.asynccontextmanager
    async def without(self, asked: EndModel) -> AsyncIterator[None]:
        """Let a model end that is no arm, and become none meanwhile.

        Raises:
            ModelInUse: it is one.
        """
        async with self._lock:
            await self._runtime.ask(CheckUnused(asked.model), self._put_at)
            yield


def arm_of(experiment: Experiment, user: str) -> str:
    """The arm of a user: a hash, uniform from 0 to 100, in the row of the shares."""
    bounds = list(itertools.accumulate(arm.share for arm in experiment.arms))
    models: Sequence[str] = [arm.model for arm in experiment.arms]
    digest = hashlib.blake2b(f"{len(experiment.salt)}:{experiment.salt}{user}".encode(), digest_size=8).digest()
    draw = int.from_bytes(digest, "little") / 2**64 * bounds[-1]
    return models[min(bisect.bisect_right(bounds, draw), len(models) - 1)]
