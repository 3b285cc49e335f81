"""`Stalls`: a process that only looks at the clock. When it is late, the machine stopped, whatever the service did."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection

LOOK_S = 0.001  # seconds between two looks


class Stalls:
    """Counts how late each look is, from `begin` to `end`."""

    def __init__(self) -> None:
        """Start the process."""
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_look, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self._pipe.recv()

    def begin(self) -> None:
        """Forget what was before."""
        self.end()

    def end(self) -> list[float]:
        """Seconds by which each look since `begin` was late."""
        self._pipe.send(None)
        late_s: list[float] = self._pipe.recv()
        return late_s

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self.process.join()


def _look(pipe: Connection) -> None:
    late_s = list[float]()
    pipe.send(None)
    before_s = time.perf_counter()
    while True:
        time.sleep(LOOK_S)
        now_s = time.perf_counter()
        late_s.append(now_s - before_s - LOOK_S)
        if pipe.poll():
            try:
                pipe.recv()
            except EOFError:
                return
            pipe.send(late_s)
            late_s = []
        before_s = now_s
