"""A front process: the HTTP application without an engine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from service import event_loop, tuning
from service.api.app import application
from service.api.rate_limit import RateLimit
from service.fronts.acceptor import Acceptor, OpenConnections
from service.fronts.remote_serving import RemoteServing
from service.http_server import Server
from service.settings import Settings
from service.storage.redis_server import RedisServer


class Shared(NamedTuple):
    """Memory that all fronts share; made before they are forked."""

    rate: RateLimit
    connections: OpenConnections


def name_of(number: int) -> str:
    """The name of front `number` in logs."""
    return f"front-{number + 1}"


def run(settings: Settings, path: Path, listener: socket.socket, shared: Shared, number: int) -> int:
    """Answer requests until the parent stops it; the exit status is 0.

    Args:
        settings: of the service, with this front's share of the connections.
        path: socket of the engine's process.
        listener: of all fronts.
        shared: memory of all fronts.
        number: of this front, from 0.
    """
    redis_url = settings.redis or RedisServer(settings.data, settings.appendfsync).url
    serving = RemoteServing(settings, redis_url, path, name_of(number))
    app = application(serving, shared.rate)

    def accept(listener: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> Acceptor:
        return Acceptor(listener, protocol, number, shared.connections, lambda: app.n_connections)

    return event_loop.run(_serve(serving, Server(app, accept), listener))


async def _serve(serving: RemoteServing, server: Server, listener: socket.socket) -> int:
    def stop() -> None:
        server.should_exit = True

    event_loop.on_stop(stop, [event_loop.CHILD_STOP])
    serving.start()
    tuning.settle()
    try:
        await server.serve([listener])
    finally:
        await serving.stop()
    return 0
