"""`Scrape`: the page of `/metrics`, rendered in a thread, at most once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

CACHED_S = 1.0  # s; Prometheus asks every 15 by default


class Scrape:
    """One page for everybody who asks at the same time.

    Args:
        render: makes the page; called in a thread, one call at a time.
    """

    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render
        self._rendering: asyncio.Future[bytes] | None = None
        self._at = 0.0

    async def page(self) -> bytes:
        """The page as it was at most a second ago."""
        now = time.monotonic()
        if self._rendering is None or (self._rendering.done() and now - self._at >= CACHED_S):
            self._at = now
            self._rendering = asyncio.ensure_future(asyncio.to_thread(self._render))
        return await asyncio.shield(self._rendering)
