"""`Deadline`: the next action that the client of a connection owes us, and the time until which it has."""

from __future__ import annotations

import enum
import math

from service.api.door.connection_table import ConnectionLimits


class Due(enum.Enum):
    """The next action that the client owes us, with a deadline."""

    NOTHING = enum.auto()  # the server works on a request
    REQUEST = enum.auto()  # the next one, once the server has answered the last one
    HEAD = enum.auto()
    BODY = enum.auto()
    READING = enum.auto()  # of the rest of the last answer
    LEAVING = enum.auto()  # closing its side after the last answer


class Deadline:
    """The deadline of one connection. Times are those of the event loop, in seconds.

    Attributes:
        due: the action.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.due = Due.NOTHING
        self._seconds = {
            Due.REQUEST: limits.idle_s,
            Due.HEAD: limits.head_s,
            Due.BODY: limits.body_s,
            Due.LEAVING: limits.linger_s,
        }
        self._send_s, self._sent_bytes = limits.send_s, limits.sent_bytes
        self._at = math.inf
        self._unsent: tuple[int, float] | None = None  # unsent bytes, and since when

    def enter(self, due: Due, now: float) -> None:
        """Expect another action; the deadline of the same one stays."""
        if due is not self.due:
            self.due = due
            self.renew(now)

    def renew(self, now: float) -> None:
        """Give the client the whole time again."""
        self._at = now + self._seconds.get(self.due, math.inf)

    def is_over(self, now: float) -> bool:
        """Whether the client has missed it."""
        return now >= self._at

    def note_read(self) -> None:
        """The client has read most of what was unsent. Of a long answer more is written then, and as much is unsent."""
        self._unsent = None

    def is_stalled(self, n_unsent: int, now: float) -> bool:
        """Whether the client, with `n_unsent` bytes of answers unread, has read almost nothing for too long."""
        if not n_unsent:
            self._unsent = None
        elif self._unsent is None or not 0 <= self._unsent[0] - n_unsent < self._sent_bytes:
            self._unsent = n_unsent, now
        return self._unsent is not None and now - self._unsent[1] >= self._send_s
