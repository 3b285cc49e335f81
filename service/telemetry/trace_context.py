"""`Trace`: a span as threads and processes pass it on, and `Sampling`: which traces are recorded.

Whether a request is recorded is drawn before anything is made for it. Then it has a `Trace`, three integers.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Mapping
from typing import NamedTuple

DEFAULT_SHARE = 0.01
TRACE_BITS, SPAN_BITS = 128, 64
_LOW = (1 << 64) - 1  # the bits of a trace id by which all samplers of a ratio decide
_TRACE_BYTES, _SPAN_BYTES = TRACE_BITS // 8, SPAN_BITS // 8
_TRACEPARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
# Sampler -> (share, None: that of the argument; whether the decision of a caller is followed).
_SAMPLERS: dict[str, tuple[float | None, bool]] = {
    "always_on": (1.0, False),
    "always_off": (0.0, False),
    "traceidratio": (None, False),
    "parentbased_always_on": (1.0, True),
    "parentbased_always_off": (0.0, True),
    "parentbased_traceidratio": (None, True),
}


class Trace(NamedTuple):
    """A span that is or will be recorded.

    Attributes:
        trace_id: 128 bits, not 0.
        span_id: 64 bits, not 0.
        parent_id: the span of which it is a part; 0: none.
    """

    trace_id: int
    span_id: int
    parent_id: int = 0

    def child(self) -> Trace:
        """A new span that is a part of this one."""
        return Trace(self.trace_id, new_id(SPAN_BITS), self.span_id)

    @property
    def hex_id(self) -> str:
        """The trace id as people and tools write it."""
        return f"{self.trace_id:032x}"

    @property
    def header(self) -> str:
        """The value of `traceparent` for what this span causes."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-01"

    @property
    def encoded(self) -> bytes:
        """24 bytes from which `decoded` makes a trace again, without its parent."""
        return self.trace_id.to_bytes(_TRACE_BYTES) + self.span_id.to_bytes(_SPAN_BYTES)

    @classmethod
    def decoded(cls, text: bytes) -> Trace:
        """The trace of `encoded`."""
        return cls(int.from_bytes(text[:_TRACE_BYTES]), int.from_bytes(text[_TRACE_BYTES:]))

    @classmethod
    def of_header(cls, header: str | None) -> Trace | None:
        """The span that a `traceparent` names; None if it cannot be read, or is not recorded."""
        if header is None or (caller := caller_of(header.encode())) is None:
            return None
        trace_id, span_id, is_recorded = caller
        return Trace(trace_id, span_id) if is_recorded else None


class Sampling(NamedTuple):
    """Which traces are recorded.

    Attributes:
        share: of the requests, from 0 to 1.
        follows: whether a request is recorded as `traceparent` says, if it has one.
    """

    share: float
    follows: bool

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Sampling:
        """What OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG say; unset: `parentbased_traceidratio` of 0.01.

        Raises:
            ValueError: there is no such sampler, or the share is none.
        """
        name = variables.get("OTEL_TRACES_SAMPLER", "parentbased_traceidratio").strip().lower()
        if name not in _SAMPLERS:
            names = ", ".join(_SAMPLERS)
            raise ValueError(f"Invalid variable OTEL_TRACES_SAMPLER: expected one of {names}, got {name!r}")
        share, follows = _SAMPLERS[name]
        if share is None:
            text = variables.get("OTEL_TRACES_SAMPLER_ARG")
            with contextlib.suppress(ValueError):
                share = DEFAULT_SHARE if text is None else float(text)
            if share is None or not 0.0 <= share <= 1.0:
                raise ValueError(
                    f"Invalid variable OTEL_TRACES_SAMPLER_ARG: expected a share from 0 to 1, got {text!r}"
                )
        return cls(share, follows)

    def begin(self, traceparent: bytes | None) -> Trace | None:
        """Draw whether a request with this header is recorded: its span, or None."""
        if traceparent is None:
            draw = random.random()  # noqa: S311 (no secret)
            return None if draw >= self.share else trace_of(draw)
        caller = caller_of(traceparent)
        if caller is None:  # as W3C demands: go on as without the header
            return self.begin(None)
        trace_id, span_id, is_sampled = caller
        is_wanted = is_sampled if self.follows else trace_id & _LOW < self.share * 2.0**64
        return Trace(trace_id, new_id(SPAN_BITS), span_id) if is_wanted else None

    def rare(self) -> Trace | None:
        """The span of something rare that no recorded request has caused, such as a swap; None if the share is 0."""
        return trace_of(random.random() * self.share) if self.share else None  # noqa: S311 (no secret)


def caller_of(traceparent: bytes) -> tuple[int, int, bool] | None:
    """Trace id, span id and whether it is recorded, of W3C's header; None if it cannot be read."""
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None or (match[1] == b"00" and match[5]):
        return None
    return int(match[2], 16), int(match[3], 16), bool(int(match[4], 16) & 1)


def trace_of(draw: float) -> Trace:
    """A new trace whose id other samplers of a ratio would choose too: they compare its low bits with the share."""
    return Trace(new_id(64) << 64 | int(draw * 2.0**64), new_id(SPAN_BITS))


def new_id(bits: int) -> int:
    """A number that no other trace or span has."""
    return random.getrandbits(bits) or 1
