"""`RankProcess`: the process of a rank, and `Here`, which starts ranks on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from gpu.base.backend import Backend
from gpu.base.device import memory_of_devices
from gpu.base.errors import BackendUnavailable
from service.extras.ranks.launcher import RankEnd
from service.jobs.gpu_order import VISIBLE, inherited
from service.jobs.last_words import LastWords

LEAVE_S = 2.0  # seconds that a rank that has finished gets to end by itself
STOPPED_S = 2.0  # seconds for which a signal may stop a rank; busy or waiting ranks are never stopped
BY_SIGNAL = "T"  # state of a stopped process in /proc
LOOPBACK = "127.0.0.1"
SHARED_WEIGHT = 0.5  # of a GPU from which a service answers: the driver gives each process about half of it
_VMSTAT = Path("/proc/vmstat")


class RankProcess:
    """A rank, in a process group of its own: Ctrl-C of a terminal reaches the coordinator alone.

    Its standard input stays open: when it closes, this process is gone, and the rank ends.
    """

    def __init__(
        self,
        rank: int,
        coordinator: tuple[str, int],
        key: bytes,
        environment: dict[str, str],
        folder: Path | None = None,
    ) -> None:
        """Start it.

        Args:
            rank: its number, from 0.
            coordinator: host and port.
            key: secret of the attempt.
            environment: see `environment`.
            folder: for copies of ratings and checkpoints, if the work folder of the coordinator may be elsewhere.

        Raises:
            OSError: the system refuses another process.
        """
        self._n_oom_kills = n_oom_kills()
        self._looks, self._looks_since_s = ("", ""), time.monotonic()
        host, port = coordinator
        command = [
            sys.executable,
            "-m",
            "service.extras.ranks.rank",
            "--host",
            host,
            "--port",
            str(port),
            "--rank",
            str(rank),
        ]
        self._process = subprocess.Popen(  # noqa: S603 (our own module, no shell)
            command if folder is None else [*command, "--folder", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
            env=environment,
        )
        assert self._process.stdin is not None and self._process.stderr is not None  # noqa: S101
        self._last_words = LastWords(self._process.stderr, "rank-stderr")
        with contextlib.suppress(OSError):  # it has ended already
            self._process.stdin.write(key.hex().encode() + b"\n")
            self._process.stdin.flush()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ended(self) -> RankEnd | None:
        """See `service.extras.ranks.launcher.Rank`."""
        if (code := self._process.poll()) is not None:
            self._last_words.thread.join(1.0)
            return RankEnd(code, self._last_words.after(code), code < 0 and n_oom_kills() > self._n_oom_kills)
        # It counts as stopped if the system says so, and it has used no processor for `STOPPED_S`.
        now_s, looks = time.monotonic(), _state(self._process.pid)
        if looks != self._looks or looks[0] != BY_SIGNAL:
            self._looks, self._looks_since_s = looks, now_s
        if now_s - self._looks_since_s < STOPPED_S:
            return None
        return RankEnd(-signal.SIGSTOP, f"was stopped by a signal for {STOPPED_S:g} s", is_stopped=True)

    def leave(self) -> None:
        """Wait until it has ended by itself, for a short time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVE_S)

    def end(self) -> None:
        """End it by SIGKILL: it may hang in a collective operation, and its files are of no use."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(OSError):  # the key was not read
            assert self._process.stdin is not None  # noqa: S101 (tells the type checker)
            self._process.stdin.close()
        self._last_words.thread.join()


class Here:
    """Starts ranks as processes of this machine; see `service.extras.ranks.launcher.Launcher`."""

    def __init__(self, *, shares_gpu: bool = False) -> None:
        """`shares_gpu`: whether a service answers from the last GPU of `CUDA_VISIBLE_DEVICES`."""
        self._shares_gpu = shares_gpu

    def available(self, n_ranks: int, backend: Backend) -> int:
        """All of them.

        Raises:
            BackendUnavailable: there are fewer GPUs.
        """
        n_gpus = n_ranks if backend.name == "host" else len(memory_of_devices())
        if n_ranks > n_gpus:
            raise BackendUnavailable(
                f"Invalid ranks: expected at most {n_gpus}, the GPUs that CUDA finds here, got {n_ranks}; ask for fewer"
                " ranks, or name more GPUs in CUDA_VISIBLE_DEVICES"
            )
        return n_ranks

    def weights(self, n_ranks: int, backend: Backend) -> tuple[float, ...]:
        """Equal ones, but less for a rank on a GPU from which a service answers."""
        is_used = backend.name == "device" and n_ranks >= len(inherited().get(VISIBLE, "").split(","))
        n_shared = int(self._shares_gpu and is_used)
        return (1.0,) * (n_ranks - n_shared) + (SHARED_WEIGHT,) * n_shared

    def host(self) -> str:
        """Loopback."""
        return LOOPBACK

    def start(self, rank: int, n_ranks: int, coordinator: tuple[str, int], key: bytes, backend: Backend) -> RankProcess:
        """A process of this machine."""
        return RankProcess(rank, coordinator, key, environment(inherited(), rank, n_ranks, backend))

    def close(self) -> None:
        """Do nothing."""


def environment(inherited: dict[str, str], rank: int, n_ranks: int, backend: Backend) -> dict[str, str]:
    """The environment of a rank: its share of the cores, or its GPU among those that this process may use.

    Args:
        inherited: the environment of this process.
        rank: number of the rank among those of this machine.
        n_ranks: number of ranks on this machine.
        backend: where it computes.
    """
    n_cores = len(os.sched_getaffinity(0))
    n_threads = min(n_cores, int(inherited.get("NUMBA_NUM_THREADS", n_cores)))
    variables = {"NUMBA_NUM_THREADS": str(max(1, n_threads // n_ranks))}
    if backend.name == "device":
        visible = inherited.get(VISIBLE)
        devices = [str(number) for number in range(n_ranks)] if visible is None else visible.split(",")
        # On a machine of a cluster a rank beyond the last GPU sees none, and fails with a message.
        variables[VISIBLE] = devices[rank] if rank < len(devices) else ""
        variables["NCCL_NVLS_ENABLE"] = "0"  # multicast needs rights that containers lack
    return inherited | variables


def trusts_links() -> bool:
    """Whether devices may use the links between them; who keeps NCCL from them means kernels too."""
    return inherited().get("NCCL_P2P_DISABLE") != "1"


def _state(pid: int) -> tuple[str, str]:
    """(state, processor time) of a process, as Linux names them; empty if it is gone, and on other systems."""
    with contextlib.suppress(OSError):
        _, _, fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")
        state, *others = fields.split()
        return state, " ".join(others[10:12])
    return "", ""


def n_oom_kills() -> int:
    """Processes that Linux has killed since the start of the machine because memory ran out; 0 if it does not count."""
    with contextlib.suppress(OSError):
        if match := re.search(r"^oom_kill (\d+)$", _VMSTAT.read_text("ascii"), re.MULTILINE):
            return int(match[1])
    return 0
