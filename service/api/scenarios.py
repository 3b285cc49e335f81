"""`Scenarios`: the scenarios that requests name, read once and used as long as they are the present ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from service.api.serving import Serving
from service.base.errors import InvalidRequest
from service.engine.errors import UnknownDocument
from service.engine.queries.document_queries import DocumentDetails, GetScenario, StaleScenario
from service.engine.queries.fields import NO_FIELDS
from service.engine.queries.scenario_body import ScenarioBody
from service.storage.errors import UnknownModel
from service.storage.events import StreamId

MAX_KEPT = 256  # scenarios
MAX_TRIES = 4  # for a scenario that changes while it is used

T = TypeVar("T")


class Scenarios:
    """Makes queries of requests that name a scenario.

    The engine refuses a query whose scenario is not the present one any more. So an answer is that of one position of
    the stream, and a scenario is asked for once, not for every request.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._fields: dict[str, Mapping[str, Any]] = {}  # by name

    async def answer(
        self, name: str | None, wait_for: StreamId | None, ask: Callable[[Mapping[str, Any]], Awaitable[T]]
    ) -> T:
        """The answer of `ask` with the fields of a query that the scenario has; with none if `name` is None.

        Raises:
            UnknownScenario: there is no scenario of that name.
            InvalidRequest, UnknownModel, UnknownDocument: the engine refuses the query.
        """
        if name is None:
            return await ask(NO_FIELDS)
        for _ in range(MAX_TRIES):
            if (fields := self._fields.get(name)) is None:
                answer = await self._serving.answer(GetScenario(name), wait_for)
                scenario = msgspec.json.decode(answer, type=DocumentDetails)
                body = ScenarioBody.of(name, scenario.body)
                if len(self._fields) >= MAX_KEPT:
                    self._fields.pop(next(iter(self._fields)))
                fields = self._fields[name] = {**body.values, "of_scenario": (name, scenario.stream_id)}
            try:
                return await ask(fields)
            except StaleScenario:
                self._fields.pop(name, None)
            except (InvalidRequest, UnknownModel, UnknownDocument) as error:
                raise type(error)(f"{error} (with the scenario {name!r})") from None
        raise StaleScenario(f"the scenario {name!r} changes too often: try again")
