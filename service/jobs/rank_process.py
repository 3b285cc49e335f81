"""`RankProcess`: the process of a rank as the coordinator sees it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

from gpu.backend import Backend
from service.jobs.last_words import LastWords

LEAVE_S = 2.0  # seconds that a rank that has finished gets to end by itself


class RankProcess:
    """A rank, in a process group of its own: Ctrl-C of a terminal reaches the coordinator alone."""

    def __init__(self, rank: int, n_ranks: int, port: int, key: bytes, backend: Backend) -> None:
        """Start it.

        Raises:
            OSError: the system refuses another process.
        """
        self._process = subprocess.Popen(  # noqa: S603 (our own module, no shell)
            [sys.executable, "-m", "service.jobs.rank", "--port", str(port), "--rank", str(rank)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
            env=environment(dict(os.environ), rank, n_ranks, backend),
        )
        assert self._process.stdin is not None and self._process.stderr is not None  # noqa: S101
        self._last_words = LastWords(self._process.stderr, "rank-stderr")
        with contextlib.suppress(OSError), self._process.stdin as pipe:  # it has ended already
            pipe.write(key.hex().encode() + b"\n")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def code(self) -> int | None:
        """Its return code; None while it runs."""
        return self._process.poll()

    def last_words(self) -> str:
        """How it ended, and the last line of its stderr."""
        self._last_words.thread.join(1.0)
        return self._last_words.after(self._process.returncode)

    def leave(self) -> None:
        """Wait until it has ended by itself, for a short time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVE_S)

    def end(self) -> None:
        """End it by SIGKILL: it may hang in a collective operation, and its files are of no use."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._last_words.thread.join()


def environment(inherited: dict[str, str], rank: int, n_ranks: int, backend: Backend) -> dict[str, str]:
    """The environment of a rank: its share of the cores, or its GPU among those that this process may use."""
    n_cores = len(os.sched_getaffinity(0))
    n_threads = min(n_cores, int(inherited.get("NUMBA_NUM_THREADS", n_cores)))
    own = {"NUMBA_NUM_THREADS": str(max(1, n_threads // n_ranks))}
    if backend.name == "device":
        visible = inherited.get("CUDA_VISIBLE_DEVICES")
        devices = [str(number) for number in range(n_ranks)] if visible is None else visible.split(",")
        # A rank beyond the last GPU sees none, and fails with a message.
        own["CUDA_VISIBLE_DEVICES"] = devices[rank] if rank < len(devices) else ""
        own["NCCL_NVLS_ENABLE"] = "0"  # multicast needs rights that containers lack
    return inherited | own
