"""An event loop whose clock jumps to the next timer: waiting costs nothing, and a machine that stands still no time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any
from unittest import mock

GRACE_S = 0.02  # real time in which what was sent to ourselves arrives


class _Selector(selectors.DefaultSelector):
    """Waits for sockets for `GRACE_S` at most, and lets the rest of the wait pass in `now`."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout if timeout is None else min(timeout, GRACE_S))
        if not ready and timeout is not None:
            self.now += max(timeout, 0.0)
        return ready


class Loop(asyncio.SelectorEventLoop):
    """Only for programs whose other ends run in this loop too: nothing else keeps pace with its clock."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Seconds that have passed here."""
        return self._virtual.now

    def stand_still(self, seconds: float) -> None:
        """What a program does that does not come back to the loop for so long."""
        self._virtual.now += seconds


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """`asyncio.run` in virtual time; `time.perf_counter` shows it too."""
    with asyncio.Runner(loop_factory=Loop) as runner, mock.patch("time.perf_counter", runner.get_loop().time):
        return runner.run(main)
