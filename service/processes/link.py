"""`Link`: the connection of another process to the engine's, which it opens again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog
from msgspec import Struct
from prometheus_client import CollectorRegistry

from service.base.errors import InvalidRequest, NotReady, Overloaded, ServiceError
from service.engine.queries.columns import BadColumns, Ids, ListColumns
from service.processes.frames import Frames, LocalFrames, Lost, Receive
from service.processes.messages import (
    Answered,
    Count,
    Counted,
    Drop,
    Ended,
    Failed,
    Hello,
    State,
    decode_from_engine,
    error_of,
)
from service.telemetry.metrics_sum import counts_of

GATHER_S = 0.001  # seconds between two frames; a front with 5,000 reads per second then sends five of them in each
RETRY_S = 0.05  # seconds between two attempts to connect
CLOSE_TIMEOUT_S = 1.0  # seconds for the last metrics to be sent
SILENT_S = 3.0  # seconds without a message after which the engine counts as hung
N_SILENT = 4  # checks in this time; they are counted, so that a front that was paused itself does not blame the engine
STARTING = "the engine's process is starting"
HUNG = f"the engine's process has been silent for {SILENT_S:g} s"

Connect = Callable[[Receive, Lost], Awaitable[Frames | LocalFrames]]  # opens a connection to the engine's process
_log = structlog.get_logger(__name__)


def by_socket(path: Path) -> Connect:
    """Connects by the socket of the engine's process. Raises OSError while that does not listen."""

    async def connect(receive: Receive, lost: Lost) -> Frames:
        loop, make = asyncio.get_running_loop(), functools.partial(Frames, decode_from_engine, receive, lost, GATHER_S)
        return (await loop.create_unix_connection(make, str(path)))[1]

    return connect


class Link:
    """Sends requests to the engine's process and awaits their answers. Belongs to one event loop."""

    def __init__(
        self,
        connect: Connect,
        name: str,
        max_open: int,
        registry: CollectorRegistry,
        on_open: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; `start` connects.

        Args:
            connect: how to reach the engine's process, `by_socket` or `Endpoint.connect`.
            name: of this process, for the log of the engine.
            max_open: most requests without an answer; more are refused.
            registry: the metrics of this process, which the engine adds to its own.
            on_open: called with each new connection, before the first request on it.
        """
        self._connect, self._name, self._max_open, self._registry = connect, name, max_open, registry
        self._on_open = on_open
        self._frames: Frames | LocalFrames | None = None
        self._ids = itertools.count(1)
        self._open: dict[int, _Answer] = {}
        self._n_open = 0  # requests that these stand for
        self._n_silent = 0  # checks since the last message
        self._state: State | None = None
        self._counters = Ended([])  # the last one, for the engine's successor

    def start(self) -> None:
        """Connect, now and after each loss."""
        self._lost = asyncio.Event()
        self._connecting = asyncio.create_task(self._keep_connected())
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Send the last metrics and close the connection."""
        self._connecting.cancel()
        self._watching.cancel()
        if self._frames is not None:
            self._frames.send(Counted(*counts_of(self._registry)))
            self._frames.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._lost.wait()

    def write_refusal(self) -> ServiceError | None:
        """The error with which a write must be refused now, or None."""
        obstacle = self._obstacle()
        if obstacle is not None:
            return NotReady(obstacle, 0.0)
        assert self._state is not None  # noqa: S101 (the first message after `Hello`)
        return _error_in(self._state.refusal)

    def quota_refusal(self) -> ServiceError | None:
        """The error with which a write that adds something must be refused now, or None."""
        return None if self._state is None else _error_in(self._state.quota)

    @property
    def counts_ids(self) -> bool:
        """Whether the new users and items of a write have to be counted first."""
        return self._state is not None and self._state.counts_ids

    @property
    def has_failed(self) -> bool:
        """Whether a part of the engine's process has failed for good."""
        return self._state is not None and self._state.has_failed

    def tell(self, message: Any) -> None:
        """Send a message that has no answer; it is dropped while the engine's process cannot be reached."""
        if self._frames is not None:
            self._frames.send(message)

    def ask(self, make: Callable[[int], Struct], users: Ids | None = None) -> asyncio.Future[list[bytes]]:
        """Send the message `make(id)`; the future gets its bodies. A cancelled one is dropped on the other side too.

        `users`: whose plain lists are asked for, of a request each; None: it is one request.

        Raises, here or by the future:
            NotReady: the engine's process is starting, hangs, or ends before it has answered.
            Overloaded: too many requests are open, or the engine reads too slowly.
            InvalidRequest: the content cannot be sent, see `Frames.send`.
            Exception: the error that answers the request.
        """
        obstacle = self._obstacle()
        if obstacle is not None:
            raise NotReady(obstacle, 0.0)
        frames, number = self._frames, next(self._ids)
        assert frames is not None  # noqa: S101 (else there is an obstacle)
        future = _Answer()
        future.link, future.number, future.users = self, number, users
        if (self._n_open and self._n_open + future.n > self._max_open) or frames.is_full:
            raise Overloaded(f"{self._n_open:,} requests are already waiting")
        message = make(number)
        self._open[number] = future
        try:
            frames.send(message)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            del self._open[number]
            raise InvalidRequest(f"Invalid request: expected integers of 64 bits and Unicode, got {error}") from None
        self._n_open += future.n
        return future

    def drop(self, number: int) -> None:
        """Nobody waits for the answer to this request any more."""
        if self._ended(number) is not None and self._frames is not None:
            self._frames.send(Drop(number))

    def _ended(self, number: int) -> _Answer | None:
        """Forget an open request."""
        future = self._open.pop(number, None)
        if future is not None:
            self._n_open -= future.n
        return future

    def _obstacle(self) -> str | None:
        """Why the engine cannot be asked, or None."""
        if self._frames is None or self._state is None or not self._frames.is_open:
            return STARTING
        return HUNG if self._n_silent >= N_SILENT else None

    async def _keep_connected(self) -> None:
        while True:
            self._lost.clear()
            try:
                frames = await self._connect(self._receive, self._lose)
            except OSError:
                await asyncio.sleep(RETRY_S)
                continue
            self._n_silent, self._frames = 0, frames
            frames.send(Hello(self._name, self._counters.samples))
            await self._lost.wait()

    def _lose(self) -> None:
        """The connection has ended: the engine's process is gone."""
        self._frames = self._state = None
        self._fail_open(STARTING)
        self._lost.set()

    async def _watch(self) -> None:
        """Fail the open requests when the engine is silent."""
        while True:
            await asyncio.sleep(SILENT_S / N_SILENT)
            self._n_silent += 1
            if self._open and self._frames is not None and self._obstacle() == HUNG:
                _log.error("the engine's process is silent", requests=len(self._open))
                for number in self._open:
                    self._frames.send(Drop(number))  # when it wakes up, it must not do what has been answered with 503
                self._fail_open(HUNG)

    def _fail_open(self, reason: str) -> None:
        failed, self._open, self._n_open = self._open, {}, 0
        for future in failed.values():
            future.set_exception(NotReady(reason, 0.0))

    def _receive(self, messages: list[Any]) -> None:
        self._n_silent = 0
        for message in messages:
            match message:
                case Answered(number, answer):
                    if (future := self._open.get(number)) is not None:
                        bodies = future.bodies(answer)  # if it lies, this request is open still when all end
                        self._ended(number)
                        future.set_result(bodies)
                case Failed():
                    if (future := self._ended(message.id)) is not None:
                        future.set_exception(error_of(message))
                case State():
                    if self._state is None:
                        self._on_open()
                    self._state = message
                case Ended():
                    self._counters = message
                case Count():
                    assert self._frames is not None  # noqa: S101 (it has just received)
                    self._frames.send(Counted(*counts_of(self._registry)))


def _error_in(message: Failed | None) -> ServiceError | None:
    error = None if message is None else error_of(message)
    return error if isinstance(error, ServiceError) else None


class _Answer(asyncio.Future[list[bytes]]):
    """The answer to a request, whose engine drops the request if it is cancelled.

    Attributes:
        link, number, users: set by the link; an `__init__` would take longer than all else.
    """

    link: Link
    number: int
    users: Ids | None

    @property
    def n(self) -> int:
        """Requests that it answers."""
        return 1 if self.users is None else len(self.users)

    def bodies(self, answer: list[bytes] | ListColumns) -> list[bytes]:
        """The bodies of the answer; raises `BadColumns` if it is not one to this request."""
        if isinstance(answer, list) and self.users is None:
            return answer
        if isinstance(answer, list) or self.users is None:
            raise BadColumns("Invalid answer: expected columns for plain lists alone")
        return answer.bodies(self.users)

    def cancel(self, msg: Any | None = None) -> bool:
        """See `asyncio.Future.cancel`."""
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self.link.drop(self.number)
        return is_cancelled
