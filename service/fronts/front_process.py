"""A front process: the HTTP application without an engine."""

from __future__ import annotations

import socket
from pathlib import Path

from service import event_loop, http_server, tuning
from service.api.app import application
from service.api.rate_limit import RateLimit
from service.fronts.remote_serving import RemoteServing
from service.http_server import Server
from service.settings import Settings
from service.storage.redis_server import RedisServer


def run(settings: Settings, path: Path, listener: socket.socket, rate: RateLimit, name: str) -> int:
    """Answer requests until SIGTERM; the exit status is 0.

    Args:
        settings: of the service, with this front's share of the connections.
        path: socket of the engine's process.
        listener: of all fronts.
        rate: of all fronts.
        name: of this front.
    """
    redis_url = settings.redis or RedisServer(settings.data, settings.appendfsync).url
    serving = RemoteServing(settings, redis_url, path, name)
    return event_loop.run(_serve(serving, http_server.server(application(serving, rate)), listener))


async def _serve(serving: RemoteServing, server: Server, listener: socket.socket) -> int:
    def stop() -> None:
        server.should_exit = True

    event_loop.on_stop(stop, event_loop.CHILD_SIGNALS)
    serving.start()
    tuning.settle()
    try:
        await server.serve([listener])
    finally:
        await serving.stop()
    return 0
