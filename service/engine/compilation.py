"""Compiles the Numba kernels that each model needs, without delaying requests.

Kernels declare what Python calls them for, and with which types (`gpu.base.host.declared`).

Numba compiles one kernel at a time and holds the GIL for most of it, so that requests would wait. Where the cache
folder is writable, separate processes fill it (`service.cli.warm`), and this process loads the kernels from there.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from gpu.algorithms import ALGORITHMS
from gpu.base.backend import HOST, Backend
from gpu.base.host import compilation
from gpu.base.host.declared import Use
from gpu.data.param_kinds import Params
from gpu.online import drift
from service.base.threads import helper
from service.settings.environment import without_secrets

MAX_PROCESSES = 4  # processes; more would compile the same kernels, because most kernels depend on shared ones
CORES_OF_READING = 4  # cores for each process that compiles what reads the log, beside those of `MAX_PROCESSES`
SECONDS_PER_KERNEL = 2.0  # seconds of one core, with the kernels that it calls; measured: 32 kernels in 59 s
NICENESS = 10  # of the processes that compile: requests go first
POLL_S = 0.2

_log = structlog.get_logger(__name__)
OnProgress = Callable[[float, str], None]


def needed(algorithm: str, backend: Backend = HOST) -> list[str]:
    """Names of the host's kernels that Python calls while a model of `algorithm` answers and learns on that backend.

    Those that read ratings, `Use.READING`, are left out: every service compiles them before that.
    """
    return compilation.called_for(_uses(ALGORITHMS[algorithm].params(), is_on_host=backend.name == HOST.name))


def compile_reading() -> None:
    """Compile the kernels that read ratings and events, or load them from the cache.

    A service reads its log only when it has them. So this process compiles at once, and others share its work if there
    are cores left by those of `prepare`.
    """
    kernels = compilation.called_for({Use.READING})
    n_processes = max(min(_n_cores() // CORES_OF_READING, MAX_PROCESSES), 1)
    if not (compilation.can_save() and compilation.uncached(set(kernels))):
        n_processes = 1
    own, *others = _orders(kernels, n_processes)
    started = [_start(order, lambda _: None) for order in others]
    _compile(own)
    for process in started:
        process.terminate()
        process.wait()


def compile_model(algorithm: str, backend: Backend, on_kernel: Callable[[int, int], None] = lambda *_: None) -> None:
    """Compile the kernels of a model, or load them from the cache, in this thread.

    `on_kernel` is called before each with its number, from 1, and the number of all.
    """
    kernels = list(needed(algorithm, backend))
    for number, kernel in enumerate(kernels, 1):
        on_kernel(number, len(kernels))
        compilation.compile_kernel(kernel)


def _compile(kernels: Iterable[str], is_stopping: Callable[[], bool] = bool) -> None:
    for kernel in kernels:
        if not is_stopping():
            compilation.compile_kernel(kernel)


def _uses(params: Params, *, is_on_host: bool) -> set[Use]:
    """What kernels of the host such a model needs. A device ranks, and it refits rows that are learned by gradients."""
    uses, learns = {Use.ANSWERS} | ({Use.RIVALS} if params.is_implicit else set()), drift.learns(params)
    if params.has_item_weights:  # on the host, whatever the backend
        lists = {Use.LISTS} if params.has_item_lists else set()
        return uses | {Use.ITEM_WEIGHTS, Use.RANKING, Use.NEW_ITEMS} | lists
    uses |= {Use.FACTORS}
    uses |= {Use.RANKING, Use.NEW_ITEMS} if is_on_host else {Use.RANKING_ON_DEVICE}
    uses |= {Use.DRIFT} if learns else set()
    if params.refits == "none":
        return uses | {Use.NEW_ITEMS}
    if params.refits != "sampled":
        kind = Use.EXACT_IMPLICIT if params.is_implicit else Use.EXACT_EXPLICIT
        return uses | {Use.EXACT, Use.NEW_ITEMS, Use.GRAMS, kind}
    uses |= {Use.SAMPLED} if params.is_implicit else {Use.SAMPLED, Use.GRAMS}
    uses |= {Use.SAMPLED_DRIFT, Use.ITEMS} if learns else set()
    uses |= {Use.USERS, Use.ITEMS} if is_on_host else set()
    if params.has_signatures:
        uses |= {Use.HASHED_DRIFT} if learns else set()
        uses |= {Use.HASHED} if is_on_host else set()
        uses |= {Use.ABSENCES} if is_on_host and params.is_implicit else set()
    return uses


def check_cache() -> None:
    """Log a warning if no cache folder is writable: then every start and every training compiles again."""
    if not compilation.can_save() and compilation.uncached(set(compilation.kernels())):
        _log.warning(
            "compiled kernels cannot be kept, since no cache folder can be written: every start compiles them again; "
            "set NUMBA_CACHE_DIR to a folder that this user can write"
        )


def prepare(
    algorithms: Sequence[str], backend: Backend, on_progress: OnProgress, is_stopping: Callable[[], bool]
) -> None:
    """Compile the host's kernels of these algorithms, or load them from the cache. Any thread but the engine's.

    Args:
        backend: where the models answer.
        on_progress: called with the share that is done, 0 to 1, and a sentence for people.
        is_stopping: polled; when it returns true, `prepare` returns without finishing.
    """
    kernels = sorted({kernel for algorithm in algorithms for kernel in needed(algorithm, backend)})
    missing = compilation.uncached(set(kernels))
    progress = _Progress(algorithms, missing, on_progress)
    if missing:
        n_processes = min(_n_cores(), MAX_PROCESSES)
        progress.announce(n_processes if compilation.can_save() else 1)
    if missing and compilation.can_save():
        _in_processes(kernels, n_processes, progress.note, is_stopping)
    with compilation.watched(progress.note):  # nothing is left to compile if the processes did it all
        _compile(kernels, is_stopping)


class _Progress:
    """Counts the missing kernels that have been compiled, and estimates the time for the others."""

    def __init__(self, algorithms: Sequence[str], missing: set[str], on_progress: OnProgress) -> None:
        self._what = f"compiling kernels for {', '.join(algorithms)}"
        self._missing, self._n_missing, self._on_progress = set(missing), len(missing), on_progress
        self._began_s = time.monotonic()
        self._expected_s = 0.0

    def announce(self, n_processes: int) -> None:
        """Log that compilation begins and about how long it takes."""
        self._expected_s = self._n_missing * SECONDS_PER_KERNEL / n_processes
        _log.info(
            f"{self._what}: there are none for this processor in the cache; models answer when it is done",
            kernels=self._n_missing,
            about_seconds=self._seconds_left(),
            processes=n_processes,
        )
        self._report("")

    def note(self, kernel: str) -> None:
        """Count a kernel that this process or another has compiled."""
        if kernel in self._missing:
            self._missing.remove(kernel)
            self._report(f", the last one {kernel}")

    def _seconds_left(self) -> int:
        """Estimate that starts from the expected time and shifts to the measured pace as work completes."""
        left = len(self._missing) / self._n_missing
        passed_s = time.monotonic() - self._began_s
        return round(left * (left * self._expected_s + passed_s)) + 1

    def _report(self, last: str) -> None:
        n_done = self._n_missing - len(self._missing)
        text = f"{self._what}: {n_done} of {self._n_missing} done{last}; about {self._seconds_left()} s left"
        self._on_progress(n_done / self._n_missing, text)


def _in_processes(
    kernels: Sequence[str], n_processes: int, note: Callable[[str], None], is_stopping: Callable[[], bool]
) -> None:
    """Fill the cache folder. Each process begins at another kernel, and loads those that the others have stored."""
    compiled: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    started = [_start(order, compiled.put) for order in _orders(kernels, n_processes)]
    n_running = n_processes
    while n_running and not is_stopping():
        with contextlib.suppress(queue.Empty):
            kernel = compiled.get(timeout=POLL_S)
            if kernel is None:
                n_running -= 1
            else:
                note(kernel)
    for process in started:
        process.terminate()
        process.wait()


def _orders(kernels: Sequence[str], n: int) -> list[Sequence[str]]:
    """The kernels in the order in which each of `n` processes compiles them."""
    orders: list[Sequence[str]] = []
    for turn in range(n):
        first = turn // 2 * 2 * len(kernels) // n  # two processes start there, in opposite directions
        ordered = [*kernels[first:], *kernels[:first]]
        orders.append(ordered[:: 1 if turn % 2 == 0 else -1])
    return orders


def _n_cores() -> int:
    return len(os.sched_getaffinity(0))


def _start(kernels: Sequence[str], on_kernel: Callable[[str | None], None]) -> subprocess.Popen[str]:
    """Start to compile; `on_kernel` gets each kernel that is compiled, and None at the end, on another thread."""
    command = [sys.executable, "-m", "service.cli.warm", *kernels]
    process = subprocess.Popen(  # noqa: S603 (our own module, no shell)
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
        env=without_secrets(os.environ),
    )
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)

    def read() -> None:
        assert process.stdout is not None  # noqa: S101 (tells the type checker)
        with process.stdout as lines:
            for line in lines:
                on_kernel(line.strip())
        on_kernel(None)

    helper("compilation", read)
    return process
