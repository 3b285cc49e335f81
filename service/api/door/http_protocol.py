"""`HttpProtocol`: uvicorn's HTTP protocol, without trailers, and with problem documents for refused requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.errors import MalformedRequest
from service.base.errors import ServiceError


class HttpProtocol(HttpToolsProtocol):
    """One connection.

    Args:
        refusal: makes the whole response for an error, with `Connection: close`.
        options: uvicorn's.
    """

    def __init__(self, refusal: Callable[[ServiceError], bytes], **options: Any) -> None:
        super().__init__(**options)
        self._refusal = refusal

    def on_headers_complete(self) -> None:
        """Called by the parser at the end of the head. It calls `on_header` for trailers too, after the body: they go
        into a list that nobody reads, because who checks a request has read its headers, and no proxy looks there.
        """
        super().on_headers_complete()
        self.headers = []

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for a request that its parser refuses: answer with a problem document, like all errors."""
        error = MalformedRequest(
            "Invalid request: expected HTTP/1.1, with a method, a path and headers that can be read"
        )
        self.transport.write(self._refusal(error))
        self.transport.close()
