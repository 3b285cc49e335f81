"""Which requests are sent again, and when.

A request is sent again if the service has certainly not applied it: it could not be reached, it answered 429, or 503
with one of the reasons in `NOT_APPLIED`. If the outcome is unknown (a connection that broke, a timeout, another 502,
503 or 504), only requests are sent again whose repetition changes nothing, see `is_repeatable`.
"""

from __future__ import annotations

import contextlib
import re

import httpx

from nearfield_client.problems import retry_after_s

NOT_APPLIED = frozenset(("overloaded", "not-ready", "not-seen-yet", "log-unavailable"))  # refused before it began
TOO_MANY = 429
BUSY = frozenset((502, 503, 504))
IDEMPOTENT = frozenset(("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"))
# A rating or an item replaces the earlier one, and lists are only read.
REPEATABLE_POSTS = re.compile(r"/(ratings|items|neighbors|recommend(/[^/]*)?)$")
REPEATABLE = "nearfield.repeatable"  # extension of a request that the service recognizes if it comes twice
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0


def is_repeatable(request: httpx.Request) -> bool:
    """Whether a request that came twice changes no more than one that came once.

    The order of writes is kept for one client alone: what another one writes between both is overwritten.
    """
    if request.method in IDEMPOTENT or REPEATABLE in request.extensions or "X-Source" in request.headers:
        return True
    return REPEATABLE_POSTS.search(request.url.raw_path.partition(b"?")[0].decode("ascii")) is not None


class Attempts:
    """The attempts of one request."""

    def __init__(self, request: httpx.Request, patience_s: float) -> None:
        """`patience_s` bounds the sum of all pauses, in seconds; each counts as `FIRST_PAUSE_S` at least."""
        self._left_s, self._pause_s = patience_s, FIRST_PAUSE_S
        self._is_repeatable = is_repeatable(request)
        self._has_its_body = isinstance(request.stream, httpx.ByteStream)  # not one that was read from somewhere

    def pause_after(self, outcome: httpx.Response | httpx.TransportError) -> float | None:
        """Seconds to wait before the next attempt; None if there is none. Reads the bodies of refusals."""
        if not self._has_its_body or not self._may_repeat(outcome):
            return None
        asked = None if isinstance(outcome, httpx.TransportError) else retry_after_s(outcome)
        pause_s = self._pause_s if asked is None else asked
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        counted_s = max(pause_s, FIRST_PAUSE_S)  # so that attempts without pauses end too
        if counted_s > self._left_s:
            return None
        self._left_s -= counted_s
        return pause_s

    def _may_repeat(self, outcome: httpx.Response | httpx.TransportError) -> bool:
        if isinstance(outcome, httpx.TransportError):
            is_unsent = isinstance(outcome, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
            is_broken = isinstance(outcome, (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError))
            return is_unsent or (is_broken and self._is_repeatable)
        if outcome.status_code == TOO_MANY:
            return True
        return outcome.status_code in BUSY and (self._is_repeatable or _slug(outcome) in NOT_APPLIED)


def is_refusal(response: httpx.Response) -> bool:
    """Whether an answer may mean that the request is to be sent again; then its body has to be read."""
    return response.status_code == TOO_MANY or response.status_code in BUSY


def _slug(response: httpx.Response) -> str:
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        return str(response.json()["type"]).rpartition(":")[2]
    return ""
