"""`Traffic`: counts what a rank sends to other ranks, and the time that it spends on that."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Moved(NamedTuple):
    """What a rank has sent, and for how long it was in exchanges.

    Attributes:
        sent: bytes by kind of exchange: the operations of `gpu.ranks.exchange.Exchange`, and "stores" for kernels that
            write to the memory of other devices.
        seconds: time in exchanges, including the time to wait for other ranks.
    """

    sent: dict[str, int]
    seconds: float


class Traffic:
    """The traffic of one rank since the last `take`. One thread uses it."""

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}
        self._measured: list[Callable[[], float]] = []
        self._seconds, self._kind = 0.0, ""

    @contextlib.contextmanager
    def of(self, kind: str, n_bytes: int = 0) -> Iterator[None]:
        """Count `n_bytes`, and all that is sent within the block, as `kind`; an outer block comes first."""
        outer, self._kind = self._kind, self._kind or kind
        self.add(n_bytes)
        try:
            yield
        finally:
            self._kind = outer

    def add(self, n_bytes: int, seconds: float = 0.0) -> None:
        """Count bytes that are sent, and time."""
        self._sent[self._kind] = self._sent.get(self._kind, 0) + n_bytes
        self._seconds += seconds

    def measure(self, seconds: Callable[[], float]) -> None:
        """Count the time that `seconds` returns; it is called by `take`, as a device knows the time only afterwards."""
        self._measured.append(seconds)

    def take(self) -> Moved:
        """What was counted since the last call; may wait for the device."""
        found = Moved(self._sent, self._seconds + sum(measured() for measured in self._measured))
        self._sent, self._measured, self._seconds = {}, [], 0.0
        return found
