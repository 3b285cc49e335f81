"""Ranks that are threads of one process: the exchange of tests, and of several ranks on one device."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from gpu.base.errors import RankLost
from gpu.ranks.ring import TIMEOUT_S, Bytes, Ring


class QueueLink:
    """A link between threads of one process; copies what is sent."""

    def __init__(
        self, to_next: queue.SimpleQueue[bytes], from_last: queue.SimpleQueue[bytes], timeout_s: float = TIMEOUT_S
    ) -> None:
        self._to_next, self._from_last, self._timeout_s = to_next, from_last, timeout_s

    def exchange(self, send: Bytes, receive: Bytes) -> None:
        """Put a copy, and wait for the neighbor's."""
        self._to_next.put(bytes(send))
        try:
            data = self._from_last.get(timeout=self._timeout_s)
        except queue.Empty:
            raise RankLost(f"the rank before did not answer within {self._timeout_s:g} s") from None
        if len(data) != len(receive):
            raise RankLost("the rank before is gone: it has left")
        receive[:] = data

    def close(self) -> None:
        """Tell the next rank with an empty message."""
        self._to_next.put(b"")


def threads(size: int, timeout_s: float = TIMEOUT_S, weights: Sequence[float] | None = None) -> list[Ring]:
    """`size` ranks, for as many threads of this process; `weights` as in `gpu.ranks.ring.Ring`."""
    queues: list[queue.SimpleQueue[bytes]] = [queue.SimpleQueue() for _ in range(size)]
    return [Ring(rank, size, QueueLink(queues[rank], queues[rank - 1], timeout_s), weights) for rank in range(size)]


def run_threads(
    size: int, work: Callable[[Ring], Any], timeout_s: float = TIMEOUT_S, weights: Sequence[float] | None = None
) -> list[Any]:
    """Call `work` with the exchange of each rank, in a thread each; the results in the order of ranks.

    Raises:
        BaseException: what the first rank that failed has raised; the others get `RankLost`.
    """
    results: list[Any] = [None] * size
    failures: list[BaseException] = []

    def run(ring: Ring) -> None:
        try:
            results[ring.rank] = work(ring)
        except BaseException as error:
            failures.append(error)
        finally:
            ring.close()

    started = [threading.Thread(target=run, args=(ring,)) for ring in threads(size, timeout_s, weights)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if failures:
        raise failures[0]
    return results
