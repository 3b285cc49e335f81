"""`FrontServing`: what the routes of a front need of the service, from the engine's process and from Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from service.api.operations import CheckNewIds
from service.engine import fairness
from service.engine.fairness import Portion
from service.engine.queries import Query, Recommend
from service.engine.queries.columns import Ids
from service.processes.link import Connect, Link
from service.processes.messages import Acknowledged, Request, SharedRequest, TracedRequest, VerifyRedis, Wrote
from service.processes.writes import Writes
from service.settings.settings import Settings
from service.storage.archive_lock import ArchivableFormat
from service.storage.events import ZERO, Fields, RatingEvent, StreamId, TypedEvent
from service.storage.streams.offering import Offering
from service.storage.streams.redis_server import url_of
from service.storage.streams.stream_writer import StreamWriter
from service.storage.streams.tail import Tail
from service.telemetry.metrics import Metrics
from service.telemetry.trace_context import Trace

OPEN_PER_WAITING = 2  # requests that may be open for each that may wait for the engine, which refuses the others
TAIL_BYTES = 1 << 20  # bytes of the newest entries, far more than the engine has not read yet


class FrontServing:
    """See `service.api.serving.Serving`, which has the errors of each method.

    A front writes to Redis itself. The engine's process decides whether it may: at each new connection, and by its
    state, which it sends at each change.
    """

    def __init__(self, settings: Settings, connect: Connect, name: str, *, is_alone: bool = True) -> None:
        """Prepare; `start` connects.

        Args:
            settings: of this front, for one data set.
            connect: see `Link`.
            name: of this front, for the engine's log.
            is_alone: whether no engine is in this process, which would count what belongs to the process.
        """
        self.settings, self.metrics = settings, Metrics(of_process=is_alone)
        self._tail = Tail(TAIL_BYTES)
        url, keys = url_of(settings), settings.keyspace
        self._writer = StreamWriter(url, self._verify, self._tail, keys, self._lose)
        self._offering = Offering(url, self._tail, keys)
        max_open = OPEN_PER_WAITING * settings.max_waiting
        # An engine that was started again may read another server than the one that its predecessor has verified.
        self._link = Link(connect, name, max_open, self.metrics.registry, self._join)
        self._writes = Writes(
            self._writer,
            refusal=self._link.write_refusal,
            max_waiting=settings.max_waiting,
            metrics=self.metrics,
            on_traced=self._note,
            check=ArchivableFormat(settings.data / "ratings").check,
            quota=self._link.quota_refusal,
        )

    def start(self) -> None:
        """Connect to the engine's process. Call it on the event loop."""
        self._link.start()
        if self.settings.redis:  # an embedded one loses nothing
            self._offering.start()

    async def stop(self) -> None:
        """Close all connections."""
        await self._link.stop()
        self._writer.close()
        self._offering.close()

    async def answer(self, query: Query, wait_for: StreamId | None = None) -> bytes:
        """The JSON of one answer."""
        return (await self._ask(query, wait_for))[0]

    def answer_each(self, query: Recommend, wait_for: StreamId | None = None) -> asyncio.Future[list[bytes]]:
        """The JSON of each recommendation."""
        return self._ask(query, wait_for)

    def answer_lists(self, query: Recommend, portions: Sequence[Portion]) -> asyncio.Future[list[bytes]]:
        """The JSON of the list of each user of several clients."""
        users = query.users if isinstance(query.users, Ids) else None
        if len(portions) == 1:
            address, key = portions[0].client
            return self._link.ask(lambda n: Request(n, query, address, key, ""), users)
        own = [(*client, n) for client, n in portions]
        return self._link.ask(lambda n: SharedRequest(n, query, own), users)

    async def operate(self, operation: Struct, wait_for: StreamId | None = None) -> bytes:
        """The JSON of the answer, or a page."""
        return (await self._ask(operation, wait_for))[0]

    async def append(self, fields: Fields) -> StreamId:
        """Append one durable entry."""
        return await self._writes.append(fields)

    async def check_new_ids(self, elements: Sequence[RatingEvent] | Sequence[TypedEvent]) -> None:
        """Count new users and items against limit and quotas, which the engine keeps for all fronts."""
        await self.check_new([element.user for element in elements], [element.item for element in elements])

    async def check_new(self, users: Sequence[str], items: Sequence[str]) -> None:
        """Count new ones among these, as `check_new_ids`."""
        is_counted = self.settings.max_new_ids_per_hour is not None or self._link.counts_ids
        if is_counted and (users or items):
            await self.operate(CheckNewIds(list(set(users)), list(set(items))))

    def _ask(self, content: Query | Struct, wait_for: StreamId | None) -> asyncio.Future[list[bytes]]:
        """A future of the answer to a query or an operation."""
        client = fairness.current.get()
        position = "" if wait_for is None else str(wait_for)
        if client.trace is None:
            return self._link.ask(lambda n: Request(n, content, client.address, client.key, position))
        trace = client.trace.encoded
        return self._link.ask(lambda n: TracedRequest(n, content, client.address, client.key, position, trace))

    def _note(self, stream_id: StreamId, trace: Trace) -> None:
        self._link.tell(Wrote(str(stream_id), trace.encoded))

    def _lose(self) -> None:
        """The connection to Redis has ended: another server may take its place, or this one comes back older."""
        self._tell_tail()
        self._offering.look_again()

    def _join(self) -> None:
        self._tell_tail()
        self._writer.reconnect()

    def _tell_tail(self) -> None:
        """Tell what was acknowledged here, before the engine's process verifies the server that comes back."""
        self._link.tell(Acknowledged([(str(stream_id), dict(fields)) for stream_id, fields in self._tail.after(ZERO)]))

    async def _verify(self, run_id: str) -> None:
        await self._link.ask(lambda n: VerifyRedis(n, run_id))
