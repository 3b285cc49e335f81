"""Structured logs: one event a line with its fields and the request id, for people on a terminal or as JSON."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from service.settings import LogFormat, LogLevel

_LIBRARIES = ("uvicorn", "uvicorn.error", "asyncio")


def configure(level: LogLevel, form: LogFormat) -> None:
    """Send every line at `level` and above to stderr; `auto` writes for people if that is a terminal."""
    people = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, *_rendering(people)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    _adopt_libraries(level, shared, _rendering(people))


def _rendering(people: bool) -> list[Any]:
    if people:
        return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=_text)]


def _adopt_libraries(level: LogLevel, shared: list[Any], rendering: list[Any]) -> None:
    """Lines of the web server in the same form; its information about itself is of no interest."""
    handler = logging.StreamHandler(sys.stderr)
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


def _text(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
