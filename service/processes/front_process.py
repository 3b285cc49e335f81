"""`Front`: the HTTP application without an engine, and the process of one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from service.api.app import application
from service.api.door.rate_limit import Limits
from service.base import tuning
from service.processes import event_loop
from service.processes.acceptor import OpenConnections
from service.processes.certificate import Certificate
from service.processes.front_serving import FrontServing
from service.processes.http_server import Server
from service.processes.link import Connect, by_socket
from service.processes.parts import parts
from service.settings.settings import Settings
from service.telemetry.metrics import count_dropped_spans


class Shared(NamedTuple):
    """What all fronts share; made before they are forked.

    Attributes:
        limits: of each data set.
        connections: open ones of each front.
        certificate: of the service; None: it speaks plain HTTP.
    """

    limits: Sequence[Limits]
    connections: OpenConnections
    certificate: Certificate | None


class Place(NamedTuple):
    """A data set: its settings, and the socket of its engine's process."""

    settings: Settings
    path: Path


def name_of(number: int) -> str:
    """The name of front `number` in logs."""
    return f"front-{number + 1}"


class Front:
    """The HTTP application of all data sets, without an engine."""

    def __init__(
        self,
        places: Sequence[Place],
        listener: socket.socket,
        shared: Shared,
        number: int,
        connect: Connect | None = None,
    ) -> None:
        """Prepare; nothing connects yet.

        Args:
            places: all data sets, the default one first, with this front's share of the connections.
            listener: of all fronts.
            shared: memory of all fronts.
            number: of this front, from 0.
            connect: to the engine of the only data set, if the front is in its process.
        """
        is_alone, name, extras = connect is None, name_of(number), parts().routes
        servings = [FrontServing(one, connect or by_socket(path), name, is_alone=is_alone) for one, path in places]
        if is_alone:
            count_dropped_spans(servings[0].metrics)
        further = {
            place.settings.data_set: application(serving, limits, extras=extras)
            for place, serving, limits in zip(places[1:], servings[1:], shared.limits[1:], strict=True)
        }
        app = application(servings[0], shared.limits[0], further, extras)
        self._servings, self._listener = servings, listener
        self._server = Server(app, number, shared.connections, shared.certificate)

    async def serve(self) -> None:
        """Answer requests until `stop`, and until the clients have left."""
        for serving in self._servings:
            serving.start()
        try:
            await self._server.serve([self._listener])
        finally:
            await asyncio.gather(*(serving.stop() for serving in self._servings))

    def stop(self) -> None:
        """Begin to end."""
        self._server.should_exit = True


def run(places: Sequence[Place], listener: socket.socket, shared: Shared, number: int) -> int:
    """Answer requests until the parent stops it; the exit status is 0. See `Front` for the arguments."""
    return event_loop.run(_serve(Front(places, listener, shared, number)))


async def _serve(front: Front) -> int:
    event_loop.on_stop(front.stop, by_parent=True)
    serving = asyncio.create_task(front.serve())
    tuning.settle()
    await serving
    return 0
