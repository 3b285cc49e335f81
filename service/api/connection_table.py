"""All open connections: how many there may be, how many of them from one address, and who is watched for a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

SHARE = 4  # one address gets a quarter of all connections: it takes four addresses to lock others out


@dataclass(frozen=True)
class ConnectionLimits:
    """What one connection, and all together, may take.

    Attributes:
        max_connections: connections that are open at a time, apart from those for health.
        health_connections: further ones, which may ask for `/health/` only; a probe needs one for milliseconds.
        max_lingering: connections that are over but still let the client read why; beyond, they are closed at once.
        head_bytes: of a request line with its headers. Proxies send at most 8 to 16 KiB. When more than that waits to
            be handed on, nothing more is read; the last read may add 256 KiB.
        url_bytes: of a request line. 60 excluded items of 256 bytes fit; longer lists go into the body of a POST.
        all_held_bytes: that all connections together hold; a connection that passes it is cut off.
        unsent_bytes: of answers that one client has not read yet, on all its connections; one that makes it more is cut
            off. A longest answer has about 10 MB.
        head_s: for the head of a request, from the connection or the head's first byte on.
        body_s: for the body; 1 MiB then needs 35 kB/s.
        send_s: in which a client has to take `sent_bytes` of an answer, or its rest.
        linger_s: after a refusal, for the client to read it.
        linger_bytes: that are thrown away meanwhile; beyond, the connection is cut off.
        sweep_s: between two looks at those that are watched, so that deadlines are kept to a second.
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
    linger_s: float = 1.0
    linger_bytes: int = 4 << 20
    sweep_s: float = 1.0

    @property
    def per_address(self) -> int:
        """Connections that one address may have."""
        return max(1, self.max_connections // SHARE)


class Guarded(Protocol):
    """A connection, as the table sees it.

    Attributes:
        n_unsent: bytes of answers that are written and not sent.
    """

    @property
    def n_unsent(self) -> int:
        """See above."""

    def check(self, now: float) -> None:
        """End the connection if a deadline has passed; `now` is the time of the event loop, in seconds."""

    def make_room(self) -> None:
        """End a connection that may ask for health only: another one needs its place."""


class ConnectionTable:
    """The connections of one event loop.

    Args:
        group: the name under which an address is counted; None if it is not, as for a proxy that many clients share.
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

    @property
    def n_open(self) -> int:
        """Connections that are open, those for health included."""
        return len(self._groups) + len(self._for_health)

    def add(self, connection: Guarded, address: str) -> bool:
        """Count a new connection; false if it may ask for health only.

        Where those are too many as well, the oldest of them makes room: a probe says at once what it wants.
        """
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
        self.unwatch(connection)
        self._for_health.pop(connection, None)
        self._lingering.discard(connection)
        group = self._groups.pop(connection, None)
        if group is not None:
            self._n_of_group[group] -= 1
            if not self._n_of_group[group]:
                del self._n_of_group[group]

    def may_linger(self, connection: Guarded) -> bool:
        """Whether there is room for one more connection that is over; it no longer counts as one for health then."""
        self._for_health.pop(connection, None)
        if len(self._lingering) >= self.limits.max_lingering:
            return False
        self._lingering.add(connection)
        return True

    def reads_too_little(self, connection: Guarded) -> bool:
        """Whether the client of a connection has more answers unread than it may; of a proxy each connection counts."""
        group = self._groups.get(connection)
        if group is None:
            return connection.n_unsent > self.limits.unsent_bytes
        of_client = (one for one in self._watched if self._groups.get(one) == group)
        return sum(one.n_unsent for one in of_client) > self.limits.unsent_bytes

    def watch(self, connection: Guarded) -> None:
        """Call `check` of this connection now and then."""
        self._watched[connection] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.limits.sweep_s, self._sweep)

    def unwatch(self, connection: Guarded) -> None:
        """No longer."""
        self._watched.pop(connection, None)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self._watched):
            connection.check(now)
        self._timer = loop.call_later(self.limits.sweep_s, self._sweep) if self._watched else None
