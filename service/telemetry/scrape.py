"""`Scrape`: renders the pages of `/metrics`, one per format, in a thread and each at most once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

CACHED_S = 1.0  # seconds; Prometheus asks every 15 s by default


class Scrape:
    """Shares one page among all requests for a format at the same time.

    Args:
        render: makes the page of a format; called in a thread, one call at a time for each format.
        before: awaited before each call of `render`, if there is something to await.
    """

    def __init__(self, render: Callable[[str], bytes], before: Callable[[], Awaitable[None]] | None = None) -> None:
        self._render, self._before = render, before
        self._rendering: dict[str, tuple[asyncio.Future[bytes], float]] = {}  # format -> (page, begun at)

    async def page(self, kind: str) -> bytes:
        """The page of format `kind`, at most a second old."""
        now = time.monotonic()
        page, at = self._rendering.get(kind, (None, 0.0))
        if page is None or (page.done() and now - at >= CACHED_S):
            page = asyncio.ensure_future(self._rendered(kind))
            self._rendering[kind] = page, now
        return await asyncio.shield(page)

    async def _rendered(self, kind: str) -> bytes:
        if self._before is not None:
            await self._before()
        return await asyncio.to_thread(self._render, kind)
