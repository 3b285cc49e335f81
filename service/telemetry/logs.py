"""Structured logs: one event a line with its fields and the request id, for people on a terminal or as JSON."""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from typing import Any

import structlog

LINES_PER_S = 10  # lines per second of one kind; at 300 bytes a line at most 10 GB a month
BURST_LINES = 100  # lines that may come at once after a quiet time
STDERR = 2  # its file descriptor
_LIBRARIES = ("uvicorn", "uvicorn.error", "asyncio", "opentelemetry")


class LineBudget:
    """A token bucket for log lines of one kind: lines that any client can cause must not fill a disk."""

    def __init__(self, per_s: float = LINES_PER_S, burst: float = BURST_LINES) -> None:
        self._per_s, self._burst = per_s, burst
        self._n_free, self._at = burst, time.monotonic()
        self._n_left_out = 0

    def take(self) -> int | None:
        """Number of lines left out since the last written one; None if this line must be left out too."""
        now = time.monotonic()
        self._n_free = min(self._burst, self._n_free + (now - self._at) * self._per_s)
        self._at = now
        if self._n_free < 1:
            self._n_left_out += 1
            return None
        self._n_free -= 1
        n_left_out, self._n_left_out = self._n_left_out, 0
        return n_left_out


class _Bounded(logging.Filter):
    """A `LineBudget` for the lines of libraries."""

    def __init__(self) -> None:
        super().__init__()
        self._budget = LineBudget()

    def filter(self, record: logging.LogRecord) -> bool:
        n_left_out = self._budget.take()
        if n_left_out:
            record.msg = f"{record.msg} ({n_left_out:,} lines before this one were left out)"
        return n_left_out is not None


class _Stderr(io.RawIOBase):
    """Writes lines to stderr without a buffer. What has no room on a full disk is lost, because who logs must go on."""

    def __init__(self) -> None:
        super().__init__()
        self._is_cut = False

    def writable(self) -> bool:
        return True

    def write(self, line: Any) -> int:
        """Take a whole line, also if less of it or nothing can be written."""
        to_write = b"\n" + bytes(line) if self._is_cut else bytes(line)  # ends a line that was written in part
        try:
            n_written = os.write(STDERR, to_write)
        except OSError:  # a full disk, or a pipe that nobody reads
            return len(line)
        self._is_cut = n_written < len(to_write)
        return len(line)


def configure(level: str, form: str, process: str = "") -> None:
    """Send all lines at `level` and above to stderr; `auto` means console if stderr is a terminal, else JSON.

    Lines that cannot be written are lost.

    Args:
        level, form: as in the settings `log_level` and `log_format`.
        process: name of this process in each line, if the service has several.
    """
    stderr: Any = _Stderr()
    lines = io.TextIOWrapper(stderr, "utf-8", "backslashreplace", write_through=True)
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if process:
        shared.append(lambda _, __, event: {**event, "process": process})
    rendering: list[Any] = [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(default=_text),
    ]
    if form == "console" or (form == "auto" and sys.stderr.isatty()):
        # Plain tracebacks: pretty ones render all local variables, which took 20 s for large ones.
        formatter = structlog.dev.plain_traceback
        rendering = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=formatter)]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(lines),
        cache_logger_on_first_use=True,
    )
    # The lines of libraries get the same form, from warnings up.
    handler = logging.StreamHandler(lines)
    handler.addFilter(_Bounded())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    for name in _LIBRARIES:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))


def to_stderr_alone() -> None:
    """Warnings to stderr, in a process whose stdout a program reads: without a configuration they would go there."""
    configure("warning", "console")


def _text(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
