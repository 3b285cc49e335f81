"""`Connections` and `AsyncConnections`: clients of httpx that send requests again and add positions to reads."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx

from nearfield_client import proxies
from nearfield_client.positions import Position
from nearfield_client.retries import Attempts, is_refusal

DOTS = {".": "%2E", "..": "%2E%2E"}  # ids that httpx would take for steps in the path


def _path(url: httpx.URL | str) -> str:
    return "/".join(DOTS.get(segment, segment) for segment in str(url).split("/"))


class Connections(httpx.Client):
    """The connections of a `Session`. Further arguments are those of `httpx.Client`."""

    def __init__(self, patience_s: float, position: Position, **arguments: Any) -> None:
        routed, self._proxy = proxies.routed(arguments)
        super().__init__(**routed)
        self._patience_s, self._position = patience_s, position

    def build_request(self, method: str, url: httpx.URL | str, **content: Any) -> httpx.Request:
        """The request, with `wait_for` if it reads."""
        path = _path(url)
        return super().build_request(method, path, **self._position.added(method.upper(), path, content))

    def send(self, request: httpx.Request, *, stream: bool = False, **arguments: Any) -> httpx.Response:
        """Send a request, and send it again as `nearfield_client.retries` says."""
        attempts = Attempts(request, self._patience_s)
        while True:
            try:
                response = super().send(request, stream=stream, **arguments)
            except httpx.TransportError as error:
                pause_s = attempts.pause_after(error)
                if pause_s is None:
                    raise proxies.no_answer(error, self._proxy) from error
            else:
                if is_refusal(response):
                    response.read()
                pause_s = attempts.pause_after(response)
                if pause_s is None:
                    proxies.check(response, self._proxy)
                    if not stream:
                        self._position.note_answer(response)
                    return response
            time.sleep(pause_s)


class AsyncConnections(httpx.AsyncClient):
    """`Connections` for the `asyncio` functions."""

    def __init__(self, patience_s: float, position: Position, **arguments: Any) -> None:
        routed, self._proxy = proxies.routed(arguments)
        super().__init__(**routed)
        self._patience_s, self._position = patience_s, position

    def build_request(self, method: str, url: httpx.URL | str, **content: Any) -> httpx.Request:
        """The request, with `wait_for` if it reads."""
        path = _path(url)
        return super().build_request(method, path, **self._position.added(method.upper(), path, content))

    async def send(self, request: httpx.Request, *, stream: bool = False, **arguments: Any) -> httpx.Response:
        """Send a request, and send it again as `nearfield_client.retries` says."""
        attempts = Attempts(request, self._patience_s)
        while True:
            try:
                response = await super().send(request, stream=stream, **arguments)
            except httpx.TransportError as error:
                pause_s = attempts.pause_after(error)
                if pause_s is None:
                    raise proxies.no_answer(error, self._proxy) from error
            else:
                if is_refusal(response):
                    await response.aread()
                pause_s = attempts.pause_after(response)
                if pause_s is None:
                    proxies.check(response, self._proxy)
                    if not stream:
                        self._position.note_answer(response)
                    return response
            await asyncio.sleep(pause_s)
