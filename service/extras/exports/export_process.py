"""`ExportProcess`: a handle on the process that makes an export. Belongs to an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from service.base.errors import Conflict, ServiceError
from service.settings.environment import without_secrets
from service.storage.files import FileLock

LOCK_FILE = ".export.lock"  # in the folder of the log
CHUNK = 1 << 18  # bytes
ERROR_BYTES = 2000  # of the last words


class ExportRunning(Conflict):
    """Another export of this folder is running: each takes memory for all ratings."""

    slug, title = "export-running", "An export is already running"


class ExportFailed(ServiceError):
    """The process of an export has ended before its end; the message has its last words."""

    slug, title = "export-failed", "Export failed"


class ExportProcess:
    """Runs `service.extras.exports.exporter`; as a context manager it ends the process with the block in any case."""

    def __init__(self, data: Path, **options: str) -> None:
        """Prepare; options as those of `service.extras.exports.exporter`."""
        arguments = [f"--{name}={value}" for name, value in {"data": data, **options}.items()]
        self._command = [sys.executable, "-m", "service.extras.exports.exporter", *arguments]
        self._lock_file = data / "ratings" / LOCK_FILE

    async def __aenter__(self) -> ExportProcess:
        """Start the process.

        Raises:
            ExportRunning: another one runs, in whatever process of whatever service on this folder.
        """
        lock = FileLock.try_take(self._lock_file)
        if lock is None:
            raise ExportRunning("An export of this data folder is already running: wait for its end")
        with lock:  # the process inherits it
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(lock.descriptor,),
                env=without_secrets(os.environ),
                start_new_session=True,  # see `tuning.go_after_others`
            )
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Kill the process if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The bytes of the export.

        Raises:
            ExportFailed: the process has ended before its end.
        """
        assert self._process.stdout is not None  # noqa: S101 (tells the type checker)
        assert self._process.stderr is not None  # noqa: S101
        while chunk := await self._process.stdout.read(CHUNK):
            yield chunk
        words = await self._process.stderr.read(ERROR_BYTES)
        code = await self._process.wait()
        if code:
            raise ExportFailed(words.decode(errors="replace").strip() or f"the process of the export ended with {code}")
