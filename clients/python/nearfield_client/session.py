"""`Session`: what operations need to ask one service, or one of its data sets."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from nearfield_client.batches import Batch
from nearfield_client.connections import AsyncConnections, Connections
from nearfield_client.positions import Position

if TYPE_CHECKING:
    from typing_extensions import Self

TIMEOUT_S = 60.0  # seconds to connect, and seconds to get an answer
PATIENCE_S = 30.0


@dataclass
class Session:
    """The `client` of all generated functions. As a context manager it closes its connections at the end.

    `Nearfield` and `AsyncNearfield` add methods to it.

    Attributes:
        token: the key; none if it is empty.
        prefix, auth_header_name: the key is sent in this header, behind the prefix and a space if there is one.
        cookies, headers, follow_redirects: of each request.
        timeout: of each request; default: 60 s.
        verify_ssl: whether to check certificates, and how: as httpx takes it.
        httpx_args: further arguments of `httpx.Client` and `httpx.AsyncClient`.
        patience_s: seconds to wait at most, for all attempts of one request together; 0: no second attempt.
        position: the newest position that writes have answered; reads wait for it. Clients that get the same one see
            what the others write.
    """

    base_url: str
    token: str = field(default="", repr=False)
    prefix: str = ""
    auth_header_name: str = "X-API-Key"
    cookies: dict[str, str] = field(default_factory=dict, repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    timeout: httpx.Timeout | None = None
    verify_ssl: str | bool | ssl.SSLContext = True
    follow_redirects: bool = False
    httpx_args: dict[str, Any] = field(default_factory=dict, repr=False)
    patience_s: float = PATIENCE_S
    position: Position = field(default_factory=Position)
    _client: httpx.Client | None = field(default=None, init=False, repr=False)
    _async_client: httpx.AsyncClient | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        self.get_httpx_client().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self.get_httpx_client().__exit__(kind, error, trace)

    async def __aenter__(self) -> Self:
        await self.get_async_httpx_client().__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        await self.get_async_httpx_client().__aexit__(kind, error, trace)

    def get_httpx_client(self) -> httpx.Client:
        """The connections; they are made when they are first asked for."""
        if self._client is None:
            self._client = Connections(self.patience_s, self.position, **self._arguments())
        return self._client

    def get_async_httpx_client(self) -> httpx.AsyncClient:
        """The connections of the `asyncio` functions."""
        if self._async_client is None:
            self._async_client = AsyncConnections(self.patience_s, self.position, **self._arguments())
        return self._async_client

    def set_httpx_client(self, client: httpx.Client) -> Self:
        """Use these connections, which know nothing of retries, positions and the key."""
        self._client = client
        return self

    def set_async_httpx_client(self, async_client: httpx.AsyncClient) -> Self:
        """Use these connections for the `asyncio` functions."""
        self._async_client = async_client
        return self

    def with_headers(self, headers: dict[str, str]) -> Self:
        """A client like this one, but with more headers; this one's open connections send them too."""
        for connections in (self._client, self._async_client):
            if connections is not None:
                connections.headers.update(headers)
        return replace(self, headers={**self.headers, **headers})

    def with_cookies(self, cookies: dict[str, str]) -> Self:
        """A client like this one, but with more cookies; this one's open connections send them too."""
        for connections in (self._client, self._async_client):
            if connections is not None:
                connections.cookies.update(cookies)
        return replace(self, cookies={**self.cookies, **cookies})

    def with_timeout(self, timeout: httpx.Timeout) -> Self:
        """A client like this one, but with another timeout, which this one's open connections get too."""
        for connections in (self._client, self._async_client):
            if connections is not None:
                connections.timeout = timeout
        return replace(self, timeout=timeout)

    def wait_for(self, stream_id: str) -> None:
        """Let all later reads wait for a position, for example one that another client got for a write."""
        self.position.note(stream_id)

    def ratings(self) -> Batch:
        """Post ratings in batches."""
        return Batch(self.get_httpx_client(), "/ratings")

    def items(self) -> Batch:
        """Put items in batches."""
        return Batch(self.get_httpx_client(), "/items")

    def events(self) -> Batch:
        """Post events in batches; an event without an `event_id` gets one, so that a body may come twice."""
        return Batch(self.get_httpx_client(), "/events", are_events=True)

    def _arguments(self) -> dict[str, Any]:
        key = {self.auth_header_name: f"{self.prefix} {self.token}".strip()} if self.token else {}
        return {
            "base_url": self.base_url,
            "cookies": self.cookies,
            "headers": self.headers | key,
            "timeout": self.timeout or TIMEOUT_S,
            "verify": self.verify_ssl,
            "follow_redirects": self.follow_redirects,
            **self.httpx_args,
        }
