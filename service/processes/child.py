"""`Child`: one process that the parent has forked, and forks again when it dies."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

import structlog

from service.processes.event_loop import CHILD_LEAVE, CHILD_STOP, STOP_SIGNALS
from service.processes.parts import parts
from service.settings.settings import Settings
from service.telemetry import logs, traces

FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 5.0  # seconds before a process that died is started again
STEADY_S = 30.0  # seconds after which a process counts as started well
NOT_STARTED = 78  # exit status of an engine's process that failed before it was ready; EX_CONFIG of sysexits.h
TELL_STACKS = signal.SIGUSR2  # makes a process write the stack of each of its threads to stderr, even if it hangs
IN_ORDER = (0, -CHILD_STOP, -CHILD_LEAVE)  # statuses of a process that was stopped; below 0: it had hardly begun
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # from sys/prctl.h

_log = structlog.get_logger(__name__)


class Child:
    """One process.

    Attributes:
        name: in logs; `ps` and `top` show it after `nf-`.
        pid: 0 while it does not run.
        status: its last exit status, or minus the signal that ended it; 0 before its first end.
        n_starts: how often it was started.
    """

    def __init__(self, name: str, settings: Settings, role: Callable[[], int]) -> None:
        """Prepare; `role` is the work of the process and returns its exit status."""
        self.name, self._settings, self._role = name, settings, role
        self.pid = self.status = self.n_starts = 0
        self._started_s = self._due_s = 0.0  # monotonic
        self._wait_s = FIRST_WAIT_S

    def start(self) -> None:
        """Fork. If the system allows no further process, the next attempt comes as after a death."""
        self._started_s = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        try:
            self.pid = os.fork()
        except OSError as error:
            _log.error("a process of the service cannot be started", failed=self.name, error=str(error))
            self._postpone()
            return
        if not self.pid:
            self._live(parent)
        self.n_starts += 1

    def start_if_due(self) -> None:
        """Fork if the process has died and the pause after its death is over."""
        if not self.pid and time.monotonic() >= self._due_s:
            self.start()

    def send(self, number: int) -> None:
        """Send a signal, if the process runs."""
        if self.pid:
            os.kill(self.pid, number)

    def ended(self, wait_status: int) -> None:
        """Note the end of the process; a process that ends soon after its start waits longer each time."""
        self.pid, self.status = 0, os.waitstatus_to_exitcode(wait_status)
        if time.monotonic() - self._started_s >= STEADY_S:
            self._wait_s = FIRST_WAIT_S
        self._postpone()

    def report(self) -> None:
        """Log a death that nobody has asked for."""
        cause = f"signal {signal.Signals(-self.status).name}" if self.status < 0 else f"status {self.status}"
        wait_s = round(max(0.0, self._due_s - time.monotonic()), 1)
        _log.error("a process of the service died", died=self.name, cause=cause, starts_again_in_s=wait_s)

    def _postpone(self) -> None:
        self._due_s = time.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)

    def _live(self, parent: int) -> NoReturn:
        """The whole life of the forked process, which must never return to the code of its parent."""
        status = 1
        try:
            # The signal to stop comes when the parent ends, by SIGKILL too.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, CHILD_STOP)
            if os.getppid() != parent:  # it has ended before the call
                os._exit(1)
            ctypes.CDLL(None).prctl(_PR_SET_NAME, f"nf-{self.name}".encode())  # for `ps` and `top`
            # Ctrl-C and systemd reach all processes; the parent stops them in order. Programs that this process starts
            # inherit no handler, as they would inherit SIG_IGN.
            for number in (*STOP_SIGNALS, CHILD_LEAVE):
                signal.signal(number, lambda *_: None)
            faulthandler.register(TELL_STACKS)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            logs.configure(self._settings.log_level, self._settings.log_format, self.name)
            with traces.running(self._settings.trace_variables(), self.name, parts().span_export):
                status = self._role()
        except BaseException as error:
            _log.critical("a process of the service failed", exc_info=error)
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
