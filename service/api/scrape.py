"""`Scrape`: the pages of `/metrics`, one for each format, rendered in a thread, each at most once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

CACHED_S = 1.0  # s; Prometheus asks every 15 by default


class Scrape:
    """One page for everybody who asks for a format at the same time.

    Args:
        render: makes the page of a format; called in a thread, one call at a time for each format.
    """

    def __init__(self, render: Callable[[str], bytes]) -> None:
        self._render = render
        self._rendering: dict[str, tuple[asyncio.Future[bytes], float]] = {}  # format -> (page, begun at)

    async def page(self, kind: str) -> bytes:
        """The page of format `kind` as it was at most a second ago."""
        now = time.monotonic()
        page, at = self._rendering.get(kind, (None, 0.0))
        if page is None or (page.done() and now - at >= CACHED_S):
            page = asyncio.ensure_future(asyncio.to_thread(self._render, kind))
            self._rendering[kind] = page, now
        return await asyncio.shield(page)
