"""The parent of a service: starts its processes, replaces those that die, and stops them in order.

It forks, so that all processes share the memory of the modules that it has imported; therefore it has no event loop and
starts no threads. The listening socket belongs to it: while a front is replaced, the others accept connections.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from service.api.door.rate_limit import Limits
from service.base import tuning
from service.processes import archiver_process, engine_process, front_process
from service.processes.acceptor import OpenConnections
from service.processes.certificate import Certificate
from service.processes.child import IN_ORDER, NOT_STARTED, TELL_STACKS, Child
from service.processes.engine_process import Announcement
from service.processes.event_loop import CHILD_LEAVE, CHILD_STOP, STOP_S
from service.processes.front_process import Front, Place, Shared
from service.processes.http_server import DRAIN_S, GRACE_S, url_of
from service.settings.settings import Settings
from service.storage.streams.redis_server import runtime_folder
from service.telemetry import logs

CORES_PER_FRONT = 4
FEW_CORES = 2  # with so few, two processes would only take turns: in one process a read takes four fifths of the time
MOST_FRONTS = 4  # by default; the engine answers fewer reads for more of them, which send it smaller frames
# Seconds for the fronts to let clients leave and to answer what is in flight; the archiver needs less.
FRONTS_STOP_S = DRAIN_S + GRACE_S + 2.0
FURTHER_STOP_S = 4.0  # seconds for the engines of further data sets, which have written nothing
CHECK_EVERY_S, REST_S = 0.1, 10.0  # seconds between two looks, without a signal; while all processes run
STACKS_S = 0.5  # seconds for a process that hangs to write where
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

_log = structlog.get_logger(__name__)


def n_fronts(settings: Settings) -> int:
    """The setting `fronts`; by default one for four cores, at least 1 and at most 4."""
    return settings.fronts or min(max(tuning.n_cores() // CORES_PER_FRONT, 1), MOST_FRONTS)


def has_local_front(settings: Settings) -> bool:
    """Whether the only front of the only data set is in the engine's process: on one or two cores."""
    return n_fronts(settings) == 1 and not settings.data_sets and tuning.n_cores() <= FEW_CORES


def run(settings: Settings, listener: socket.socket) -> int:
    """Serve until SIGTERM or SIGINT.

    The exit status is 0 if all processes have ended in order, else 1: for example if the first engine's process has
    failed before it was ready. Later ones are started again and again, because the fault may pass.
    """
    logs.configure(settings.log_level, settings.log_format, "parent")
    folder, n, certificate = runtime_folder(settings.data), n_fronts(settings), Certificate.of(settings)
    places = [Place(one, folder / f"{_name('engine', one)}-{os.getpid()}.sock") for one in settings.each()]
    limits = [Limits.of(one) for one, _ in places]
    limits = [one._replace(failures=limits[0].failures) for one in limits]  # else guesses go on at the next data set
    shared = Shared(limits, OpenConnections(n), certificate)
    of_front = []
    for one, path in places:
        shares = {name: -(-getattr(one, name) // n) for name in ("max_connections", "max_waiting")}
        of_front.append(Place(one.model_copy(update=shares), path))
    announcement = Announcement(url_of(listener, certificate), n, {one.data_set: path for one, path in places[1:]})
    engines, archivers, fronts = [], [], []
    is_local = has_local_front(settings)
    for one, path in places:
        role = _without(listener, engine_process.run, one, path, announcement)
        if is_local:
            front = functools.partial(Front, of_front, listener, shared, 0)
            role = functools.partial(engine_process.run, one, path, announcement, front)
        engines.append(Child(_name("engine", one), one, role))
        if settings.store is None:  # else the worker archives
            role = _without(listener, archiver_process.run, one, path)
            archivers.append(Child(_name(archiver_process.NAME, one), one, role))
    for number in range(0 if is_local else n):
        role = functools.partial(front_process.run, of_front, listener, shared, number)
        fronts.append(Child(front_process.name_of(number), settings, role))
    gc.collect()
    gc.freeze()  # the collector would write to all objects, and so copy the pages that the processes share
    try:
        return _Parent(engines, archivers, fronts, listener).run()
    finally:
        for _, path in places:
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()


def _name(kind: str, settings: Settings) -> str:
    """The name of a process of a data set."""
    return f"{kind}-{settings.data_set}" if settings.data_set else kind


def _without(listener: socket.socket, role: Callable[..., int], *arguments: Any) -> Callable[[], int]:
    """The role of a process that closes `listener` first: else clients connect, and wait, when all fronts are gone."""

    def run() -> int:
        listener.close()
        return role(*arguments)

    return run


class _Parent:
    """Watches the processes, by signals that stay blocked and are waited for."""

    def __init__(
        self, engines: Sequence[Child], archivers: Sequence[Child], fronts: Sequence[Child], listener: socket.socket
    ) -> None:
        """Take the processes, those of the default data set first."""
        self._engine, *self._further = engines
        self._archivers, self._fronts, self._listener = archivers, fronts, listener
        self._children = [*engines, *archivers, *fronts]

    def run(self) -> int:
        """Start all, replace those that die until a stop signal, and stop all."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it was ignored, no status of a child could be read
        for child in self._children:
            child.start()
        while self._next_signal() not in (signal.SIGTERM, signal.SIGINT) and not self._has_failed():
            for child in self._children:
                child.start_if_due()
        running = [child for child in self._children if child.pid]
        self._stop()
        return int(self._has_failed() or any(child.status not in IN_ORDER for child in running))

    def _has_failed(self) -> bool:
        """Whether the start of the service has failed; a further data set that fails does not end the others."""
        return self._engine.status == NOT_STARTED and self._engine.n_starts == 1

    def _next_signal(self) -> int | None:
        """Wait for a signal, or for a moment while a process shall start again; note those that have ended."""
        received = signal.sigtimedwait(_SIGNALS, REST_S if all(one.pid for one in self._children) else CHECK_EVERY_S)
        for child in self._reaped():
            if not self._has_failed():
                child.report()
        return None if received is None else received.si_signo

    def _stop(self) -> None:
        """Let the fronts answer what is in flight and the archivers commit, then stop the engines, at last with Redis.

        The engines commit what a front takes after the last commit of an archiver. Kills those that hang.
        """
        self._listener.close()
        deadline_s = time.monotonic() + STOP_S
        self._engine.send(CHILD_LEAVE)
        self._end([*self._fronts, *self._archivers], FRONTS_STOP_S)
        self._end(self._further, FURTHER_STOP_S)
        self._end([self._engine], deadline_s - time.monotonic())

    def _end(self, children: Sequence[Child], timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        for child in children:
            child.send(CHILD_STOP)
        while any(child.pid for child in children) and time.monotonic() < deadline_s:
            signal.sigtimedwait([signal.SIGCHLD], CHECK_EVERY_S)
            self._reaped()
        hanging = [child for child in children if child.pid]
        for child in hanging:
            _log.error("a process does not end and is killed", killed=child.name)
            child.send(TELL_STACKS)
        time.sleep(STACKS_S if hanging else 0.0)
        for child in hanging:
            child.send(signal.SIGKILL)
            os.waitpid(child.pid, 0)
            child.ended(signal.SIGKILL)

    def _reaped(self) -> list[Child]:
        """The processes that have ended since the last call."""
        ended = []
        for child in self._children:
            if child.pid:
                pid, wait_status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    child.ended(wait_status)
                    ended.append(child)
        return ended
