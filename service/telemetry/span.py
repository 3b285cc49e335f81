"""`Span`: a piece of work that is over, as a part of a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from service.telemetry.trace_context import Trace

Value = str | int | float | bool
Attributes = Mapping[str, Value]


class Span(NamedTuple):
    """A span that is over.

    Attributes:
        began_ns, ended_ns: Unix nanoseconds.
        attributes: no ids of users or items, keys or query strings.
        links: spans of other requests that it served too.
        error: the kind of error with which it ended, without its text, which may quote a request.
        is_request: whether it is that of an HTTP request.
    """

    name: str
    trace: Trace
    began_ns: int
    ended_ns: int
    attributes: Attributes
    links: Sequence[Trace] = ()
    error: str | None = None
    is_request: bool = False
