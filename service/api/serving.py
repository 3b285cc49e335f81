"""`Serving`: all that the HTTP routes need of the service. `service.processes.front_serving` has it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from service.base.errors import Conflict
from service.engine.fairness import Portion
from service.engine.queries import Query, Recommend
from service.settings.settings import Settings
from service.storage.events import Fields, RatingEvent, StreamId, TypedEvent
from service.telemetry.metrics import Metrics


class Serving(Protocol):
    """The service behind the routes. Belongs to one event loop."""

    settings: Settings
    metrics: Metrics

    async def answer(self, query: Query, wait_for: StreamId | None = None) -> bytes:
        """The JSON of the engine's answer to `query`, after it has learned `wait_for`.

        Raises:
            NotReady: the service is starting, or the engine has stopped.
            NotSeenYet: `wait_for` was not learned within two seconds.
            Overloaded: too many queries wait, or this one has waited for too long.
            UnknownUser, UnknownItem, UnknownModel: see the query.
        """
        ...

    def answer_each(self, query: Recommend, wait_for: StreamId | None = None) -> asyncio.Future[list[bytes]]:
        """The JSON of the list of each of several users; raises what `answer` raises, now or when awaited."""
        ...

    def answer_lists(self, query: Recommend, portions: Sequence[Portion]) -> asyncio.Future[list[bytes]]:
        """`answer_each` for a plain query, whose users are those of the clients of `portions` in order."""
        ...

    async def operate(self, operation: Struct, wait_for: StreamId | None = None) -> bytes:
        """The JSON of the answer to `operation`, or a page; after the engine has learned `wait_for`.

        The operation is one of `service.api.operations`, or of an extra. Raises what it raises.
        """
        ...

    async def append(self, fields: Fields) -> StreamId:
        """Append one entry to the stream; it is durable on return.

        Raises:
            NotReady: the service is starting, or the engine has stopped.
            LogUnavailable: the log cannot be written, so no rating may be acknowledged.
            Overloaded: too many appends wait for Redis.
            QuotaExceeded: the entry adds something, and the data set holds as much as it may.
            StreamUnavailable: Redis is gone or refuses.
        """
        ...

    async def check_new_ids(self, elements: Sequence[RatingEvent] | Sequence[TypedEvent]) -> None:
        """Count the new users and items in `elements` against the quotas, and the limit of the present client's key.

        Raises:
            QuotaExceeded: they exceed a quota.
            TooManyNewIds: the key has introduced too many within the hour.
        """
        ...

    async def check_new(self, users: Sequence[str], items: Sequence[str]) -> None:
        """Count the new ones among `users` and `items` like `check_new_ids`, which has the errors."""
        ...


def check_shared(settings: Settings, what: str, instead: str) -> None:
    """Raise `Conflict` if this process follows a store: `what` would stay in its folder, and do nothing elsewhere."""
    if settings.store is not None:
        raise Conflict(f"This replica has a folder of its own, in which {what} would reach no other process; {instead}")
