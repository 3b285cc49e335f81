"""`Position`: the newest position that writes have answered. Reads that carry it see these writes."""

from __future__ import annotations

import re
import threading
from typing import Any

import httpx

# The reads without `wait_for`, by their path behind the address.
NEVER_WAIT = re.compile(
    r"/?(|docs|openapi\.json|metrics|health/.*|admin/(audit|keys|exports|schedules|webhooks)(/.*)?)$"
)
WAITING_POSTS = re.compile(r"/?(neighbors|recommend(/[^/]*)?)$")
Content = dict[str, Any]


class Position:
    """The newest of the positions that it was told; any thread may use it."""

    def __init__(self) -> None:
        self.latest: str | None = None
        self._lock = threading.Lock()

    def note(self, stream_id: str) -> None:
        """Keep a position if it is newer than the one that is kept."""
        with self._lock:
            if self.latest is None or _order(stream_id) > _order(self.latest):
                self.latest = stream_id

    def note_answer(self, response: httpx.Response) -> None:
        """Keep the `stream_id` of the answer to a write, if there is one."""
        if response.is_success and response.request.method != "GET" and b'"stream_id"' in response.content:
            document = response.json()
            if isinstance(document, dict) and isinstance(document.get("stream_id"), str):
                self.note(document["stream_id"])

    def added(self, method: str, path: str, content: Content) -> Content:
        """The arguments of a request, with `wait_for` if it reads and does not say itself what to wait for."""
        if self.latest is None:
            return content
        if method == "GET" and not NEVER_WAIT.match(path):
            query = httpx.QueryParams(content.get("params"))
            return content if "wait_for" in query else {**content, "params": query.set("wait_for", self.latest)}
        body = content.get("json")
        if method == "POST" and isinstance(body, dict) and WAITING_POSTS.match(path):
            return {**content, "json": {"wait_for": self.latest, **body}}
        return content


def _order(stream_id: str) -> tuple[int, int]:
    milliseconds, _, number = stream_id.partition("-")
    return int(milliseconds), int(number)
