"""The HTTP server of a process: its socket, its limit of open files, and uvicorn as we use it."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import Iterator
from typing import cast

import structlog
import uvicorn

from service.api.app import Application
from service.api.problems import CLOSE
from service.processes.acceptor import Acceptor, OpenConnections
from service.processes.certificate import Certificate
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings

BACKLOG = 2048  # connections that the kernel may queue
DRAIN_S = 3.0  # most seconds for which a service that stops goes on to take requests
QUIET_S = 0.25  # seconds without a new, or a leaving, client after which it takes no more
DRAIN_POLL_S = 0.02  # seconds
TICK_S = 1.0  # seconds between two looks at whether to stop; the header `Date` is as old at most
GRACE_S = 5  # seconds for requests in flight at a stop: none waits longer for Redis
NEVER_S = 10**9  # seconds: the guard of a connection closes it when it is idle
SPARE_FILES = 640  # open files beyond `max_connections`: 320 health or refused connections, logs, kernels, Redis
MIN_CONNECTIONS = 64  # connections for which the file limit must suffice, unless `max_connections` is lower

_log = structlog.get_logger(__name__)


class Server(uvicorn.Server):
    """uvicorn's server without its signal handlers, which would raise the signal again and end the process.

    Args:
        app: the application.
        front: number of this front, from 0.
        connections: how many each front has.
        certificate: of the service; None: it speaks plain HTTP.
    """

    def __init__(
        self, app: Application, front: int, connections: OpenConnections, certificate: Certificate | None
    ) -> None:
        config = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", app.connection),  # uvicorn calls it like a protocol class
            ws="none",
            proxy_headers=False,  # `ClientAddresses` does this
            lifespan="off",  # the caller starts the service, so that its errors are reported
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=NEVER_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        super().__init__(config)
        self._app, self._front, self._connections = app, front, connections
        self._certificate = certificate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn, whose own would accept all connections that wait."""
        await super().startup([])

        def protocol() -> asyncio.Protocol:
            return self._app.connection(config=self.config, server_state=self.server_state, app_state={})

        for listener in sockets or ():
            of_front = self._front, self._connections, lambda: self._app.n_connections, self._certificate
            self.servers.append(cast("asyncio.Server", Acceptor(listener, protocol, *of_front)))

    async def main_loop(self) -> None:
        """Called by uvicorn, whose own would wake the process ten times a second."""
        while not await self.on_tick(0):
            if self._certificate is not None:
                self._certificate.renew()
            await asyncio.sleep(TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn at the stop, which would close connections on which a request may be under way.

        Answers with `Connection: close` until all clients that send requests have left.
        """
        self.server_state.default_headers = [*self.server_state.default_headers, CLOSE]
        self._app.drain()
        end_s = time.monotonic() + DRAIN_S
        while time.monotonic() < min(end_s, self._app.busy_s + QUIET_S):
            await asyncio.sleep(DRAIN_POLL_S)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield


@contextlib.contextmanager
def listening(settings: Settings) -> Iterator[socket.socket]:
    """The socket of the service.

    Raises:
        OSError: the process cannot listen on the address.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG) as listener:
        listener.setblocking(False)
        yield listener


def url_of(listener: socket.socket, certificate: Certificate | None) -> str:
    """The address of the service."""
    host, port = listener.getsockname()[:2]
    return f"{'http' if certificate is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"


def within_files(settings: Settings) -> Settings:
    """Settings with `max_connections` lowered to the limit of open files; raises the soft limit if needed.

    Raises:
        InvalidSetting: the hard limit leaves fewer than `MIN_CONNECTIONS` and fewer than `max_connections`.
    """
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + SPARE_FILES
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        least = min(settings.max_connections, MIN_CONNECTIONS) + SPARE_FILES
        if allowed < least:
            raise InvalidSetting(
                f"Invalid limit of open files: expected {least} or more, got {allowed}; raise it (ulimit -n 65536,"
                " LimitNOFILE= of systemd, --ulimit nofile=65536 of docker)"
            )
        _log.warning(
            "fewer connections than max_connections: the limit of open files is too low",
            open_files=allowed,
            connections=allowed - SPARE_FILES,
            max_connections=settings.max_connections,
        )
        wanted = allowed
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, allowed))
    return settings.model_copy(update={"max_connections": wanted - SPARE_FILES})
