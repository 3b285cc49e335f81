"""`Endpoint`: the engine's side of the connections to front processes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import structlog

from gpu.base.errors import InvalidInput
from service.base.errors import NotReady, Overloaded, ServiceError
from service.engine import fairness
from service.engine.fairness import Client, Portion, TracedClient, n_requests_of
from service.engine.queries import Query
from service.engine.queries.columns import ListColumns
from service.engine.queries.encoding import encoded
from service.processes.frames import Frames, LocalFrames, Lost, Receive
from service.processes.messages import (
    Acknowledged,
    Answered,
    Archived,
    Count,
    Counted,
    Drop,
    Ended,
    Hello,
    Request,
    SharedRequest,
    State,
    TracedRequest,
    VerifyRedis,
    Wrote,
    decode_from_front,
    failed,
)
from service.processes.performer import Others, Performer
from service.processes.runtime import Runtime
from service.storage.events import StreamId
from service.telemetry.metrics_sum import Counts, MetricsSum
from service.telemetry.trace_context import Trace

LOOK_EVERY_S = 0.1  # seconds between two looks at the state, which is sent when it has changed
STILL_AFTER = 5  # looks after which it is sent although it has not: silence means that the engine hangs
STOPPING = "the engine's process is stopping"
UNREAD = "the front process does not read its answers"
COUNT_TIMEOUT_S = 0.5  # seconds to wait for the metrics of the fronts
REMEMBERED_CLIENTS = 4096  # the same object for all their requests, which takes a quarter of the time

_log = structlog.get_logger(__name__)


class Endpoint:
    """Listens on a Unix socket and passes requests of fronts to the service. Belongs to the event loop.

    Attributes:
        runtime: the parts of this process.
        performer: performs operations.
        state: the last one that the other processes were told.
    """

    def __init__(self, runtime: Runtime, path: Path) -> None:
        """Prepare.

        Args:
            runtime: the parts of this process.
            path: of the socket; must not exist.
        """
        self.runtime, self._path, self._counts = runtime, path, MetricsSum()
        self.performer = Performer(runtime, Others(self._counts, self._count, self.ready))
        self._fronts: set[_Front] = set()
        self._uncounted: set[_Front] = set()  # fronts that were asked for their metrics and have not answered
        self._all_counted = asyncio.Event()
        self.state = State(failed(0, NotReady("the service is starting")))

    @property
    def n_connected(self) -> int:
        """Processes that are connected."""
        return len(self._fronts)

    async def start(self) -> None:
        """Listen."""

        def accept() -> Frames:
            return cast("Frames", _Front(self, functools.partial(Frames, decode_from_front)).frames)

        self._server = await asyncio.get_running_loop().create_unix_server(accept, str(self._path))
        self._telling = asyncio.create_task(self._keep_telling())

    async def connect(self, receive: Receive, lost: Lost) -> LocalFrames:
        """Connect a front that is in this process."""
        frames, front = LocalFrames(receive, lost), _Front(self, LocalFrames)
        frames.join(cast("LocalFrames", front.frames))
        return frames

    async def stop(self) -> None:
        """Close all connections."""
        self._telling.cancel()
        self._server.close()
        for front in tuple(self._fronts):
            front.frames.close()
        self._path.unlink(missing_ok=True)

    async def ready(self) -> None:
        """The service is ready: return when all fronts know that they may write, or after half a second."""
        if self.state.refusal is not None:
            self.tell(still=True)
            await self._count()  # they receive in order

    def joined(self, front: _Front, hello: Hello) -> None:
        """A front has connected, perhaps after an earlier engine has died."""
        self._fronts.add(front)
        self._counts.resume(hello.ended)
        front.frames.send(Ended(self._counts.ended()))
        front.frames.send(self.state)

    def left(self, front: _Front) -> None:
        """A front is gone."""
        self._fronts.discard(front)
        self._counts.end(front)
        for other in self._fronts:
            other.frames.send(Ended(self._counts.ended()))
        self._note_counted(front)

    def counted(self, front: _Front, message: Counted) -> None:
        """The metrics of a front have come."""
        self._counts.put(front, Counts(message.samples, message.exemplars))
        self._note_counted(front)

    async def _count(self) -> None:
        """Ask all fronts for their metrics; return when they have come, or after half a second."""
        self._all_counted.clear()
        self._uncounted |= self._fronts
        for front in self._fronts:
            front.frames.send(Count())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COUNT_TIMEOUT_S if self._uncounted else 0):
                await self._all_counted.wait()

    def _note_counted(self, front: _Front) -> None:
        self._uncounted.discard(front)
        if not self._uncounted:
            self._all_counted.set()

    async def _keep_telling(self) -> None:
        for n in itertools.count():
            self.tell(still=not n % STILL_AFTER)
            await asyncio.sleep(LOOK_EVERY_S)

    def tell(self, *, still: bool = False) -> None:
        """Send the present state to all fronts if it is another one than before, or if they shall hear it still."""
        runtime, told = self.runtime, self.state
        refusal, quota = (
            None if error is None else failed(0, error) for error in (runtime.write_refusal(), runtime.quotas.refusal())
        )
        self.state = State(refusal, runtime.failure is not None, quota, runtime.quotas.are_ids_near)
        if still or self.state != told:
            for front in self._fronts:
                front.frames.send(self.state)


class _Front:
    """One front."""

    def __init__(self, endpoint: Endpoint, make: Callable[[Receive, Lost], Frames | LocalFrames]) -> None:
        """`make`: makes the engine's side of the connection."""
        self._endpoint, self._name = endpoint, ""
        self.frames = make(self._receive, self._lost)
        self.open: set[int] = set()  # requests without an answer
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def answer(self, request_id: int, answer: list[bytes] | ListColumns) -> None:
        """Send the answer to an open request."""
        self.open.discard(request_id)
        self.frames.send(Answered(request_id, answer))

    def refuse(self, request_id: int, error: BaseException) -> None:
        """Send the error that answers an open request; log an unforeseen one."""
        self.open.discard(request_id)
        if not isinstance(error, ServiceError | InvalidInput):
            _log.error("request of a front failed", front=self._name, exc_info=error)
        self.frames.send(failed(request_id, error))

    def _receive(self, messages: list[Any]) -> None:
        is_full = self.frames.is_full
        for message in messages:
            match message:
                case Request():
                    self._request(message, is_full)
                case SharedRequest(request_id, content, portions):
                    own = [Portion(_client(address, key), n) for address, key, n in portions]
                    self._ask(request_id, content, own, is_full=is_full)
                case VerifyRedis(request_id, run_id):
                    self._start(request_id, self._verify(run_id))
                case Drop(request_id):
                    self.open.discard(request_id)
                    if request_id in self._tasks:
                        self._tasks.pop(request_id).cancel()
                case Counted():
                    self._endpoint.counted(self, message)
                case Wrote(stream_id, trace):
                    self._endpoint.runtime.traces.note(StreamId.parse(stream_id), Trace.decoded(trace))
                case Acknowledged(entries):
                    self._endpoint.runtime.note_acknowledged(entries)
                case Archived():
                    self._endpoint.runtime.reports.take(*msgspec.structs.astuple(message))
                    self._endpoint.tell()
                case Hello(name):
                    self._name = name
                    self._endpoint.joined(self, message)

    def _request(self, request: Request, is_full: bool) -> None:
        client, content = _client(request.address, request.key), request.content
        if isinstance(request, TracedRequest):
            client = TracedClient.of(client, Trace.decoded(request.trace))
        if not request.wait_for and isinstance(content, Query):
            self._ask(request.id, content, [Portion(client, n_requests_of(content))], is_full=is_full)
        elif is_full:
            self.refuse(request.id, Overloaded(UNREAD))
        else:
            self._start(request.id, self._answered(request, client))

    def _ask(self, request_id: int, query: Query, portions: list[Portion], *, is_full: bool) -> None:
        if is_full:
            self.refuse(request_id, Overloaded(UNREAD))
            return
        self.open.add(request_id)
        try:
            self._endpoint.runtime.ask_for(query, portions, _Promise(self, request_id))
        except Exception as error:
            self.refuse(request_id, error)

    async def _answered(self, request: Request, client: Client) -> list[bytes] | ListColumns:
        fairness.current.set(client)
        wait_for = StreamId.parse(request.wait_for) if request.wait_for else None
        if isinstance(request.content, Query):
            return encoded(await self._endpoint.runtime.ask(request.content, wait_for))
        if wait_for is not None:
            await self._endpoint.runtime.wait_for(wait_for)
        return [await self._endpoint.performer.perform(request.content)]

    async def _verify(self, run_id: str) -> list[bytes]:
        await self._endpoint.runtime.verify_redis(run_id)
        return []

    def _start(self, request_id: int, work: Awaitable[list[bytes] | ListColumns]) -> None:
        self.open.add(request_id)
        task = asyncio.ensure_future(work)
        self._tasks[request_id] = task  # type: ignore[assignment]
        task.add_done_callback(functools.partial(self._finish, request_id))

    def _finish(self, request_id: int, task: asyncio.Future[list[bytes] | ListColumns]) -> None:
        self._tasks.pop(request_id, None)
        error = NotReady(STOPPING) if task.cancelled() else task.exception()
        if request_id not in self.open:  # the front has dropped it, or is gone
            return
        if error is None:
            self.answer(request_id, task.result())
        else:
            self.refuse(request_id, error)

    def _lost(self) -> None:
        self.open.clear()
        for task in tuple(self._tasks.values()):
            task.cancel()
        self._endpoint.left(self)


_client = functools.lru_cache(REMEMBERED_CLIENTS)(Client)


class _Promise(msgspec.Struct, frozen=True):
    """Stands for the future of a query: its answer goes to the front. A `Struct` is made faster than another object."""

    front: _Front
    id: int

    def done(self) -> bool:
        """Whether the front has dropped the request, or is gone."""
        return self.id not in self.front.open

    def set_result(self, result: Any) -> None:
        """Encode and send the answer."""
        try:
            answer = encoded(result)
        except Exception as error:  # it may not keep the other answers of the batch from their fronts
            self.front.refuse(self.id, error)
        else:
            self.front.answer(self.id, answer)

    def set_exception(self, exception: Exception) -> None:
        """Send the error."""
        self.front.refuse(self.id, exception)
