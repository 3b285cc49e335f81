"""`ConnectionTable`: counts open connections, in all and by address, and watches those that have a deadline."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from service.base.errors import Overloaded

HEALTH_REQUESTS = re.compile(rb"(GET|HEAD) (/d/[a-z0-9-]+)?/health/")
SHARE = 4  # one address may have 1/SHARE of all connections, so that it takes four addresses to lock others out


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of one connection, and of all together.

    Attributes:
        max_connections: open connections, without those for health.
        health_connections: additional connections, which may only ask for `/health/`; a probe needs one for
            milliseconds.
        max_lingering: refused connections that stay open until the client has read the answer; more are closed at once.
        head_bytes: longest request line with headers. Proxies send at most 8 to 16 KiB. Reading stops while more bytes
            than that wait; the last read may add 256 KiB.
        url_bytes: longest request line. It has room for 60 excluded items of 256 bytes; longer lists go into the body
            of a POST.
        all_held_bytes: bytes of input that all connections together may hold; a connection that exceeds it is aborted.
        unsent_bytes: bytes of answers that one client has not read, on all its connections; a connection that exceeds
            it is aborted. The longest answer has about 10 MB.
        head_s: seconds for the head of a request, from the start of the connection or the first byte of the head.
        body_s: seconds for the body; 1 MiB then needs 35 kB/s.
        send_s: seconds in which a client has to read `sent_bytes` of an answer, or its rest.
        sent_bytes: see `send_s`.
        idle_s: seconds between an answer and the next request.
        linger_s: seconds for the client to read a refusal.
        linger_bytes: bytes of input that are discarded meanwhile; with more, the connection is aborted.
        sweep_s: seconds between two checks of watched connections, which makes deadlines accurate to a second.
    """

    max_connections: int
    health_connections: int = 64
    max_lingering: int = 256
    head_bytes: int = 32 << 10
    url_bytes: int = 16 << 10
    all_held_bytes: int = 32 << 20
    unsent_bytes: int = 64 << 20
    head_s: float = 10.0
    body_s: float = 30.0
    send_s: float = 20.0
    sent_bytes: int = 64 << 10
    idle_s: float = 30.0
    linger_s: float = 1.0
    linger_bytes: int = 4 << 20
    sweep_s: float = 1.0

    @property
    def per_address(self) -> int:
        """Connections that one address may have."""
        return max(1, self.max_connections // SHARE)


class Guarded(Protocol):
    """A connection as the table sees it.

    Attributes:
        n_unsent: bytes of answers that are written but not sent.
        must_close: whether the connection closes after the present, or the next, answer.
    """

    must_close: bool

    @property
    def n_unsent(self) -> int:
        """See above."""

    def check(self, now: float) -> None:
        """End the connection if a deadline has passed; `now` is the time of the event loop, in seconds."""

    def make_room(self) -> None:
        """End a connection for health, because another connection needs its place."""


class ConnectionTable:
    """The connections of one event loop.

    Args:
        limits: see `ConnectionLimits`.
        group: the name under which an address counts; None for an address that is not limited, such as a proxy.

    Attributes:
        busy_s: when a client last connected or, while the service stops, left (`time.monotonic`).
    """

    def __init__(self, limits: ConnectionLimits, group: Callable[[str], str | None]) -> None:
        self.limits = limits
        self.n_held_bytes = 0
        self._group = group
        self._groups: dict[Guarded, str | None] = {}
        self._n_of_group: dict[str, int] = {}
        self._for_health: dict[Guarded, None] = {}  # in the order of arrival
        self._watched: dict[Guarded, None] = {}
        self._lingering: set[Guarded] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.busy_s = float("-inf")
        self._is_draining = False

    @property
    def n_open(self) -> int:
        """Open connections, including those for health."""
        return len(self._groups) + len(self._for_health)

    def add(self, connection: Guarded, address: str) -> bool:
        """Count a new connection; false if it may only ask for health.

        If there are too many connections for health, the oldest of them is ended: a probe sends its request at once.
        """
        self.busy_s = time.monotonic()
        connection.must_close = self._is_draining
        group = self._group(address)
        n_of_group = 0 if group is None else self._n_of_group.get(group, 0)
        if len(self._groups) < self.limits.max_connections and n_of_group < self.limits.per_address:
            self._groups[connection] = group
            if group is not None:
                self._n_of_group[group] = n_of_group + 1
            return True
        if len(self._for_health) >= self.limits.health_connections:
            next(iter(self._for_health)).make_room()
        self._for_health[connection] = None
        return False

    def discard(self, connection: Guarded) -> None:
        """Forget a connection that is closed."""
        if self._is_draining:
            self.busy_s = time.monotonic()
        self.unwatch(connection)
        self._for_health.pop(connection, None)
        self._lingering.discard(connection)
        group = self._groups.pop(connection, None)
        if group is not None:
            self._n_of_group[group] -= 1
            if not self._n_of_group[group]:
                del self._n_of_group[group]

    def drain(self) -> None:
        """From now on, close each connection after one more answer."""
        self._is_draining = True
        for connection in (*self._groups, *self._for_health):
            connection.must_close = True
            self.busy_s = time.monotonic()

    def too_many(self) -> Overloaded:
        """The error of a connection that may only ask for health."""
        return Overloaded(
            f"{self.limits.max_connections:,} connections are open, or {self.limits.per_address:,} from your address;"
            " keep connections alive and share them"
        )

    def only_for_health(self, request: bytes) -> bytes:
        """The request of such a connection, with `Connection: close`.

        Raises:
            Overloaded: it asks for anything but health.
        """
        if HEALTH_REQUESTS.match(request) is None:
            raise self.too_many()
        return request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)

    def may_linger(self, connection: Guarded) -> bool:
        """Whether one more refused connection may stay open; it then no longer counts as one for health."""
        self._for_health.pop(connection, None)
        if len(self._lingering) >= self.limits.max_lingering:
            return False
        self._lingering.add(connection)
        return True

    def reads_too_little(self, connection: Guarded) -> bool:
        """Whether the client has too many unread bytes of answers; connections of a proxy count one by one."""
        group = self._groups.get(connection)
        if group is None:
            return connection.n_unsent > self.limits.unsent_bytes
        of_client = (one for one in self._watched if self._groups.get(one) == group)
        return sum(one.n_unsent for one in of_client) > self.limits.unsent_bytes

    def watch(self, connection: Guarded) -> None:
        """Call `check` of this connection every `sweep_s` seconds."""
        self._watched[connection] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.limits.sweep_s, self._sweep)

    def unwatch(self, connection: Guarded) -> None:
        """Stop calling `check` of this connection."""
        self._watched.pop(connection, None)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self._watched):
            connection.check(now)
        self._timer = loop.call_later(self.limits.sweep_s, self._sweep) if self._watched else None
