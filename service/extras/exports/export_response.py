"""`ExportResponse`: sends an export on while it is made, and ends it as soon as the client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.extras.exports.export_process import ExportProcess


class ExportResponse(StreamingResponse):
    """The answer of one export.

    Its status is sent with the first bytes. What fails before becomes a problem document. What fails later breaks the
    connection off, so that no client takes a part for the whole.
    """

    def __init__(self, process: ExportProcess, media_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(_nothing(), media_type=media_type, headers=headers)
        self._export = process

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Start the process, send what it writes, and end it."""
        async with self._export:
            sending = asyncio.ensure_future(self._send(send))
            leaving = asyncio.ensure_future(_departure(receive))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                for task in (sending, leaving):
                    task.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        chunks = self._export.chunks()
        chunk = await anext(chunks, b"")
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while chunk:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            chunk = await anext(chunks, b"")
        await send({"type": "http.response.body", "body": b""})


async def _departure(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
