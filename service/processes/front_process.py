"""A front process: the HTTP application without an engine."""

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
from service.processes.front_serving import FrontServing
from service.processes.http_server import Server
from service.processes.parts import parts
from service.settings.settings import Settings
from service.telemetry.metrics import count_dropped_spans


class Shared(NamedTuple):
    """Memory that all fronts share; made before they are forked.

    Attributes:
        limits: of each data set.
        connections: open ones of each front.
    """

    limits: Sequence[Limits]
    connections: OpenConnections


class Place(NamedTuple):
    """A data set: its settings, and the socket of its engine's process."""

    settings: Settings
    path: Path


def name_of(number: int) -> str:
    """The name of front `number` in logs."""
    return f"front-{number + 1}"


def run(places: Sequence[Place], listener: socket.socket, shared: Shared, number: int) -> int:
    """Answer requests until the parent stops it; the exit status is 0.

    Args:
        places: all data sets, the default one first, with this front's share of the connections.
        listener: of all fronts.
        shared: memory of all fronts.
        number: of this front, from 0.
    """
    servings = [FrontServing(place.settings, place.path, name_of(number)) for place in places]
    count_dropped_spans(servings[0].metrics)
    apps = [
        application(serving, limits, extras=parts().routes)
        for serving, limits in zip(servings[1:], shared.limits[1:], strict=True)
    ]
    further = {place.settings.data_set: app for place, app in zip(places[1:], apps, strict=True)}
    app = application(servings[0], shared.limits[0], further, parts().routes)
    return event_loop.run(_serve(servings, Server(app, number, shared.connections), listener))


async def _serve(servings: Sequence[FrontServing], server: Server, listener: socket.socket) -> int:
    def stop() -> None:
        server.should_exit = True

    event_loop.on_stop(stop, [event_loop.CHILD_STOP])
    for serving in servings:
        serving.start()
    tuning.settle()
    try:
        await server.serve([listener])
    finally:
        await asyncio.gather(*(serving.stop() for serving in servings))
    return 0
