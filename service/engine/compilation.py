"""Lists the Numba kernels that each model needs, and compiles them without delaying requests.

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
from collections.abc import Callable, Sequence

import structlog

from gpu.algorithms import ALGORITHMS
from gpu.backend import HOST, Backend
from gpu.host.jit import compilation
from gpu.online import drift
from gpu.param_kinds import GradientParams, Params
from gpu.params import CulshParams
from service.base.threads import helper
from service.engine.rehearsal import rehearse_model
from service.settings.environment import without_secrets

MAX_PROCESSES = 4  # processes; more would compile the same kernels, because most kernels depend on shared ones
SECONDS_PER_KERNEL = 0.4  # seconds of one core; measured: 91 kernels in 36 s
NICENESS = 10  # of the processes that compile: requests go first
POLL_S = 0.2

# Kernels by purpose, as names of modules or of single kernels.
_HISTORY = ("arena", "rating_table")
_ANSWERS = ("bounds", "estimate", "evidence", "filters", "item_index", "lists", "neighbor_blocks", "topn", "weighted")
_BY_FACTORS, _BY_RATINGS = {"lists.cosine", "lists.cosines"}, {"weighted.cosines_of_rows"}  # neighbors
_EXACT = ("exact", "gather_rows", "solve")
_SAMPLED = ("refit_items", "refit_users", "solve.add_observations", "solve.factorize", "solve.solve")
_HASHED = ("hamming", "lsh")
_DRIFT = ("drift.count",)
_SUMS = ("exact.add_gram",)
_ABSENCES = ("refit_items.draw_absences", "refit_items.draw_absent", "refit_items.likers")
# What a device does instead of the host: it ranks, and it refits users and new items of models that draw samples.
_RANKING = ("filters", "item_index", "lists.collect_some", "lists.join", "neighbor_blocks", "topn", "weighted")
_LEARNING = (*_HASHED, *_ABSENCES, "rating_table.items_left_out", "refit_users.newest", "refit_users.refit_users")
_OF_ITEMS = "refit_items", "rating_table.entries_of"

# Kernels that are never called while a model answers, and why. A rehearsal has to call every other kernel, see
# `tests/service/engine/test_rehearsal.py`.
OFFLINE = {
    "als": "half-iterations of a training",
    "als_sums": "sums of several ranks in a training",
    "averages": "biases at the start of a training",
    "blocks": "NMF in tiles, a training",
    "cg": "conjugate gradients of a training",
    "columns": "sums of a training",
    "esgd": "epochs of a training",
    "hals_sweeps": "updates of a training",
    "sgd": "epochs of a training",
    "similarity": "comparators of simLSH, of a training",
    "subspace": "blocks of factors in a training",
    "estimate.predict": "errors on held-out pairs, after a training",
    "exact.solve_rows_parallel": "refits without a budget: the engine always has one",
    "hamming.rank_blocks_parallel": "lists of more items than the engine makes at a time",
    "hamming.rank_buckets": "lists of all items of a training",
    "hamming.rank_second_hand": "the same",
    "lsh.add_columns": "signatures of a training",
    "refit_items.refit_items_parallel": "refits without a budget",
    "refit_users.refit_users_parallel": "refits without a budget",
}

_log = structlog.get_logger(__name__)
OnProgress = Callable[[float, str], None]


def needed(algorithm: str, backend: Backend = HOST) -> set[str]:
    """Names of the host's kernels with which a model of `algorithm` answers and learns on that backend."""
    params = ALGORITHMS[algorithm].params()
    names = [*_HISTORY, *_ANSWERS]
    lacking = {"arena.move_rows", "rating_table.looked_up"}  # only reading the log, and events, call them
    lacking |= _BY_FACTORS if params.has_item_weights else _BY_RATINGS
    lacking |= set() if isinstance(params, CulshParams) else {"item_index.unlist"}  # only they have lists of neighbors
    if isinstance(params, GradientParams):
        names += [*_SAMPLED, *(_ABSENCES if params.is_implicit else _SUMS), *_drift(params, "drift")]
        names += _HASHED if isinstance(params, CulshParams) else ()
        lacking |= set() if isinstance(params, CulshParams) else {"drift.readers"}
        lacking |= set() if params.is_implicit else set(_ABSENCES)
    elif params.has_item_weights:
        lacking |= {"rating_table.entries_of"}
    else:
        names += [*_EXACT, *_drift(params, *_DRIFT)]
        lacking |= set() if params.is_implicit else set(_SUMS)
    return _of(names) - lacking - (_of(_replaced(params)) if backend.name != HOST.name else set())


def _replaced(params: Params) -> tuple[str, ...]:
    """The kernels of such a model that a device has instead of the host."""
    if params.has_item_weights:
        return ()
    if params.refits != "sampled":
        return _RANKING
    return (*_RANKING, *_LEARNING, *(() if drift.learns(params) else _OF_ITEMS))


def _drift(params: Params, *names: str) -> tuple[str, ...]:
    """`names` if the trained items of such a model learn, else nothing."""
    return names if drift.learns(params) else ()


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
    missing = (
        compilation.uncached(set().union(*(needed(algorithm, backend) for algorithm in algorithms)))
        if algorithms
        else set()
    )
    progress = _Progress(algorithms, missing, on_progress)
    if missing:
        n_processes = min(len(os.sched_getaffinity(0)), MAX_PROCESSES, 2 * len(algorithms))
        progress.announce(n_processes if compilation.can_save() else 1)
    if missing and compilation.can_save():
        _in_processes(algorithms, backend, n_processes, progress.note, is_stopping)
    with compilation.watched(progress.note):  # nothing is left to compile if the processes did it all
        for algorithm in algorithms:
            if not is_stopping():
                rehearse_model(algorithm, backend)


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


def _of(names: Sequence[str]) -> set[str]:
    """The kernels of these modules, and those named one by one, without those of `OFFLINE`."""
    every = compilation.kernels()
    return {name for name in every if _is_in(name, names) and not _is_in(name, OFFLINE)}


def _is_in(kernel: str, names: Sequence[str] | dict[str, str]) -> bool:
    return kernel in names or kernel.partition(".")[0] in names


def _in_processes(
    algorithms: Sequence[str],
    backend: Backend,
    n_processes: int,
    note: Callable[[str], None],
    is_stopping: Callable[[], bool],
) -> None:
    """Fill the cache folder. Each process begins at another kernel, and skips those that the others have stored."""
    kernels: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    started = [_start(algorithms, backend, turn, kernels) for turn in range(n_processes)]
    n_running = n_processes
    while n_running and not is_stopping():
        with contextlib.suppress(queue.Empty):
            kernel = kernels.get(timeout=POLL_S)
            if kernel is None:
                n_running -= 1
            else:
                note(kernel)
    for process in started:
        process.terminate()
        process.wait()


def _start(
    algorithms: Sequence[str], backend: Backend, turn: int, kernels: queue.SimpleQueue[str | None]
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "service.cli.warm", str(turn), backend.name, *algorithms]
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
                kernels.put(line.strip())
        kernels.put(None)

    helper("compilation", read)
    return process
