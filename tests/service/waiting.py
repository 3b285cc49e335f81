"""Waiting for what other threads and processes do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def eventually(condition: Callable[[], Value | None], timeout_s: float = 200.0) -> Value:
    """The first truthy value of `condition()`; fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.02)
    return value


async def soon(condition: Callable[[], Value | None], timeout_s: float = 30.0) -> Value:
    """`eventually` for code on an event loop, which goes on meanwhile."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "not within the time"
        await asyncio.sleep(0.005)
    return value
