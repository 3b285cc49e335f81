"""`application`: the HTTP application in front of a service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from types import MappingProxyType
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api.dependencies import COMMON_ERRORS, PathName
from service.api.door.audit import Audit
from service.api.door.client_address import ClientAddresses
from service.api.door.connection_guard import ConnectionGuard, current
from service.api.door.connection_table import ConnectionLimits, ConnectionTable
from service.api.door.gateway import Gateway
from service.api.door.http_protocol import HttpProtocol
from service.api.door.plain_lists import PlainLists
from service.api.door.rate_limit import Limits
from service.api.door.route import Call, Route, RouteTable
from service.api.openapi import document as openapi
from service.api.routes import (
    admin,
    audit,
    health,
    items,
    keys,
    listings,
    lookups,
    pages,
    ratings,
    recommend,
    scenarios,
    sources,
    users,
)
from service.api.scenarios import Scenarios
from service.api.serving import Serving
from service.settings import data_sets
from service.settings.data_sets import UnknownDataSet

ROUTES = (
    ratings,
    items,
    recommend,
    lookups,
    listings,
    admin,
    users,
    scenarios,
    sources,
    audit,
    health,
    pages,
)
OF_DATA_SETS = data_sets.ROUTES.encode()
DESCRIPTION = """Recommendations that follow a rating at once.

Ids are strings of 1 to 256 bytes; in paths they are percent-encoded, so `/` is legal in them. Every write answers with
a `stream_id`; a read with `wait_for` that id has seen it. Errors are `application/problem+json`."""


# What is behind `/d/` and belongs to no data set; `Application` finds the others before it comes to routes.
unknown = APIRouter(route_class=Route, prefix="/d", include_in_schema=False)
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@unknown.api_route("/{name}", methods=METHODS)
@unknown.api_route("/{name}/{rest:path}", methods=METHODS)
async def refuse(name: PathName, request: Call) -> Response:
    """404 that names the data set."""
    names = ", ".join(request.app.state.further) or "none"
    raise UnknownDataSet(f"Invalid path: expected /d/NAME/ with the name of a data set ({names}), got {name[:64]!r}")


class Application(FastAPI):
    """The routes of a data set, which FastAPI describes and `Gateway` answers; and the way to other data sets.

    Attributes:
        gateway: what answers the requests.
        audit: the audit log.
    """

    def __init__(self, serving: Serving, limits: Limits, further: Mapping[str, Application], **options: Any) -> None:
        super().__init__(**options)
        self.state.serving = self._serving = serving
        self.state.scenarios = Scenarios(serving)
        self._table = RouteTable()
        self.gateway = Gateway(self._table, serving.settings, serving.metrics, limits)
        self.audit = Audit(serving.settings, self.gateway.keys, self._table)
        self.state.is_stopping = False
        self.state.refusals = dict[str, dict[str, Any]]()  # of operations by status, which extras add to the document
        self.state.documenting, self.state.documents = asyncio.Lock(), dict[Any, bytes]()
        self.state.further = {name: app.state.serving for name, app in further.items()}
        self._further = {name.encode(): app for name, app in further.items()}
        settings = serving.settings
        most = ConnectionLimits(settings.max_connections)
        self._connections = ConnectionTable(most, ClientAddresses(settings.trusted_proxies).group)
        serving.metrics.connections.set_function(lambda: self.n_connections)
        lists = PlainLists(self.gateway, recommend.plain_page(serving), serving)
        self._begin = None if self.gateway.tracer is not None or self.gateway.cors.is_on else lists.begin

    def add(self, router: APIRouter) -> None:
        """Add routes."""
        self.include_router(router)
        self._table.add(router.routes)

    @property
    def n_connections(self) -> int:
        """Open connections."""
        return self._connections.n_open

    @property
    def busy_s(self) -> float:
        """See `ConnectionTable.busy_s`."""
        return self._connections.busy_s

    def drain(self) -> None:
        """Be ready no more, so that balancers look elsewhere, and close each connection after one more answer."""
        for app in (self, *self._further.values()):
            app.state.is_stopping = True
        self._connections.drain()

    def connection(self, **options: Any) -> ConnectionGuard:
        """The protocol of one connection; uvicorn calls this with its options."""
        refusal = self.gateway.raw_refusal
        return ConnectionGuard(HttpProtocol(refusal, **options), self._connections, refusal, self._begin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the gateway: the layers of the framework would cost ten times as much as an answer."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        if scope["raw_path"].startswith(OF_DATA_SETS):
            name, slash, _ = scope["raw_path"].removeprefix(OF_DATA_SETS).partition(b"/")
            app = self._further.get(name)
            if slash and app is not None:
                await app({**scope, "raw_path": scope["raw_path"][len(OF_DATA_SETS) + len(name) :]}, receive, send)
                return
        scope["app"] = self
        try:
            if self.audit.concerns(scope["raw_path"]):
                await self.audit.watch(self.gateway, scope, receive, send)
            else:
                await self.gateway(scope, receive, send)
        finally:
            if (connection := current.get()) is not None:
                connection.note_answer()

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return openapi.document(self, self.gateway.keys)


def application(
    serving: Serving,
    limits: Limits | None = None,
    further: Mapping[str, Application] = MappingProxyType({}),
    extras: Sequence[Callable[[Application], None]] = (),
) -> Application:
    """The application that answers for `serving`.

    Args:
        serving: of one data set.
        limits: of this data set, which processes of one service share.
        further: the applications of further data sets by name, if `serving` is that of the default one.
        extras: each adds routes of its own.
    """
    app = Application(
        serving,
        limits or Limits.of(serving.settings),
        further,
        title="Nearfield",
        version=metadata.version("nearfield"),
        description=DESCRIPTION,
        docs_url=None,  # `service.api.routes.pages` has a page that needs no internet
        redoc_url=None,
        openapi_url=None,  # `service.api.routes.pages` answers it
        generate_unique_id_function=lambda route: route.name,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        responses=COMMON_ERRORS,
    )
    for module in ROUTES:
        app.add(module.router)
    for add in extras:
        add(app)
    if not serving.settings.data_set:
        app.add(keys.router)
        app.add(unknown)
    return app
