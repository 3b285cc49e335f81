"""`Nearfield`: one service, or one of its data sets."""

from __future__ import annotations

from typing import Any

import httpx
from attrs import define, field

from nearfield_client.batches import Batch
from nearfield_client.connections import AsyncConnections, Connections
from nearfield_client.generated.client import AuthenticatedClient
from nearfield_client.positions import Position

TIMEOUT_S = 60.0  # seconds to connect, and seconds to get an answer
PATIENCE_S = 30.0


@define
class Nearfield(AuthenticatedClient):
    """The `client` of all generated functions. As a context manager it closes its connections at the end.

    `Nearfield("http://localhost:8000", "the key")`; the address of a data set ends with `/d/NAME`. Further arguments
    are those of `AuthenticatedClient`.

    Attributes:
        token: the key, which is sent as X-API-Key; none if it is empty.
        patience_s: seconds to wait at most, for all attempts of one request together; 0: no second attempt.
        position: the newest position that writes have answered; reads wait for it. Clients that get the same one see
            what the others write.
    """

    token: str = field(default="", repr=False)
    prefix: str = ""
    auth_header_name: str = "X-API-Key"
    patience_s: float = field(default=PATIENCE_S, kw_only=True)
    position: Position = field(factory=Position, kw_only=True)

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
        key = {self.auth_header_name: self.token} if self.token else {}
        return {
            "base_url": self._base_url,
            "cookies": self._cookies,
            "headers": self._headers | key,
            "timeout": self._timeout or TIMEOUT_S,
            "verify": self._verify_ssl,
            "follow_redirects": self._follow_redirects,
            **self._httpx_args,
        }
