"""`ServiceProcess`: starts `nearfield serve` as a child process, waits until it is ready, and stops it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from service.base.errors import ServiceError

START_TIMEOUT_S = 180.0  # seconds; the first start on a machine compiles kernels for a minute or more
STOP_TIMEOUT_S = 60.0  # seconds; the service ends itself by force after 20
POLL_S = 0.05  # seconds between two looks for the ready line
_READY = re.compile(rb"nearfield is ready on (\S+) ")


class NotStarted(ServiceError):
    """The service ended before it was ready, or was not ready in time."""


class ServiceProcess:
    """`nearfield serve` on the loopback address; as a context manager it stops the service at the end.

    Attributes:
        child: the process.
    """

    def __init__(
        self,
        data: Path,
        port: int = 0,
        *,
        environment: Mapping[str, str] | None = None,
        cores: set[int] | None = None,
        log: IO[bytes] | None = None,
        own_session: bool = False,
    ) -> None:
        """Start the process.

        Args:
            data: folder of all state.
            port: TCP port; 0 takes a free one.
            environment: variables in addition to those of this process.
            cores: cores for the service and its children; default: those of this process.
            log: file for stderr; default: stderr of this process.
            own_session: keep signals of the terminal, such as Ctrl-C, from the service, so that this process decides
                when it stops.
        """
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (`address` and `stop` close it)
        self.child = subprocess.Popen(  # noqa: S603 (our own module, no shell)
            [sys.executable, "-m", "service.__main__", "serve", "--port", str(port), "--data", str(data)],
            env=os.environ | dict(environment or {}),
            stdout=self._output,  # not a pipe: nobody reads it after the ready line
            stderr=log,
            start_new_session=own_session,
        )
        if cores:
            os.sched_setaffinity(self.child.pid, cores)  # threads and children of the service, all later, inherit it

    def __enter__(self) -> ServiceProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def address(self, on_wait: Callable[[], None] = lambda: None, timeout_s: float = START_TIMEOUT_S) -> str:
        """Wait until the service is ready and return its address; call it once.

        Args:
            on_wait: called again and again during the wait.
            timeout_s: how long to wait.

        Raises:
            NotStarted: the service ended, or was not ready after `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        with self._output as output:
            while not (match := _READY.search(os.pread(output.fileno(), 4096, 0))):
                if self.child.poll() is not None:
                    raise NotStarted(f"the service ended with status {self.child.returncode} before it was ready")
                if time.monotonic() > deadline:
                    raise NotStarted(f"the service was not ready after {timeout_s:g} s")
                on_wait()
                time.sleep(POLL_S)
        return match[1].decode()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit status.

        Raises:
            TimeoutExpired: the service ran on for `STOP_TIMEOUT_S`; it has been killed then.
        """
        self.child.send_signal(number)
        try:
            return self.child.wait(STOP_TIMEOUT_S)
        finally:
            self.child.kill()
            self.child.wait()
            self._output.close()
