"""`Background`: runs low-priority work as generators, one step at a time."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

Slices = Generator[None, None, Any]
SLICE_S = 0.003  # seconds; what one step of such a generator should take


class Background:
    """A queue of generators. Any thread may call `add`; only the thread that runs them may call the rest.

    Attributes:
        wait_s: seconds; the longest time between two steps while requests keep coming.
        last_s: when the last step ended, monotonic seconds.
    """

    def __init__(self, wait_s: float) -> None:
        self._waiting: deque[tuple[Slices, Future[Any]]] = deque()
        self.wait_s, self.last_s = wait_s, 0.0

    def __len__(self) -> int:
        """Generators that are not finished."""
        return len(self._waiting)

    def add(self, slices: Slices) -> Future[Any]:
        """Queue a generator; the future gets its value or its exception."""
        future: Future[Any] = Future()
        self._waiting.append((slices, future))
        return future

    def step(self) -> None:
        """Run one step of the next generator in the queue."""
        slices, future = self._waiting.popleft()
        try:
            next(slices)
        except StopIteration as stop:
            future.set_result(stop.value)
        except Exception as error:
            future.set_exception(error)
        else:
            self._waiting.append((slices, future))
        self.last_s = time.monotonic()

    def abandon(self, error: Exception) -> None:
        """Close every generator; their futures get `error`."""
        with contextlib.suppress(IndexError):  # two threads may do this at once, when the service stops
            while True:
                slices, future = self._waiting.popleft()
                slices.close()
                future.set_exception(error)
