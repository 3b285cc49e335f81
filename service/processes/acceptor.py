"""`Acceptor`: takes connections from the socket that all fronts share, so that each front gets about equally many.

An event loop would take all connections that wait, and the other fronts none. A client keeps its connections open, so
the fronts would stay unequal.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import socket
from collections.abc import Callable
from typing import Any

import structlog

from service.processes.certificate import Certificate

LEAD = 1  # connections that a front may have more than another one before it lets the others accept first
PAUSE_S = 0.001  # seconds for which it lets them
REFUSED_PAUSE_S = 0.1  # seconds after an error, such as too many open files
COUNT_EVERY_S = 0.1  # seconds
HANDSHAKE_S = 10.0  # seconds that a client may take to agree on TLS
FAREWELL_S = 5.0  # seconds that it may take to confirm the end of TLS
MOST_OPENING = 256  # handshakes at a time, which no limit of connections counts yet; then the oldest one ends
_INT_BYTES = 4

_log = structlog.get_logger(__name__)


class OpenConnections:
    """How many connections each front has, in memory that forked processes share. Each front writes its own number.

    Attributes:
        n_fronts: how many there are.
    """

    def __init__(self, n_fronts: int) -> None:
        self.n_fronts = n_fronts
        self._numbers = memoryview(mmap.mmap(-1, _INT_BYTES * n_fronts)).cast("i")

    def put(self, front: int, n_open: int) -> None:
        """Set the number of one front."""
        self._numbers[front] = n_open

    def lead(self, front: int) -> int:
        """How many connections `front` has more than the one with the fewest."""
        return self._numbers[front] - min(self._numbers)


class Acceptor:
    """Accepts connections of one front, one in each turn of the event loop. Has the methods that uvicorn calls."""

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        front: int,
        numbers: OpenConnections,
        n_open: Callable[[], int],
        certificate: Certificate | None = None,
    ) -> None:
        """Start to accept.

        Args:
            listener: non-blocking socket of all fronts.
            protocol: makes the protocol of a connection.
            front: number of this front, from 0.
            numbers: of all fronts.
            n_open: the number of open connections of this front.
            certificate: for TLS; None: plain connections.
        """
        self._listener, self._protocol, self._front = listener, protocol, front
        self._numbers, self._n_open, self._certificate = numbers, n_open, certificate
        self._opening: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_patient = True
        self._counting = asyncio.create_task(self._count()) if numbers.n_fronts > 1 else None
        self._listen()

    def close(self) -> None:
        """Accept no more; the socket stays open for the other fronts."""
        if self._counting is not None:
            self._counting.cancel()
        self._loop.remove_reader(self._listener)
        if self._timer is not None:
            self._timer.cancel()

    async def wait_closed(self) -> None:
        """Called by uvicorn."""

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._timer = self._loop.call_later(seconds, self._listen)

    def _accept(self) -> None:
        """A connection waits: take it, or let a front with fewer connections take it first."""
        self._note()
        if self._is_patient and self._numbers.lead(self._front) > LEAD:
            self._is_patient = False  # once: the other front may hang
            self._pause(PAUSE_S)
            return
        self._is_patient = True
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another front has taken it, or the client has gone
        except OSError as error:
            _log.error("a connection cannot be accepted", error=str(error))
            self._pause(REFUSED_PAUSE_S)
            return
        connection.setblocking(False)
        if len(self._opening) >= MOST_OPENING:
            next(iter(self._opening)).cancel()
        task = self._loop.create_task(self._open(connection))
        self._opening[task] = None
        task.add_done_callback(self._opened)

    async def _open(self, connection: socket.socket) -> None:
        tls: dict[str, Any] = {}
        if self._certificate is not None:
            tls = {
                "ssl": self._certificate.context,
                "ssl_handshake_timeout": HANDSHAKE_S,
                "ssl_shutdown_timeout": FAREWELL_S,
            }
        with contextlib.suppress(OSError):  # the client has gone, or does not speak TLS
            await self._loop.connect_accepted_socket(self._protocol, connection, **tls)

    def _opened(self, task: asyncio.Task[None]) -> None:
        del self._opening[task]
        self._note()

    async def _count(self) -> None:
        while True:
            self._note()
            await asyncio.sleep(COUNT_EVERY_S)

    def _note(self) -> None:
        self._numbers.put(self._front, self._n_open() + len(self._opening))
