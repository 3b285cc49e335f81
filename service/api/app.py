"""`application`: the HTTP application in front of a service."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from types import MappingProxyType
from typing import Any, cast

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from gpu.errors import InvalidInput
from service.api import problems
from service.api.dependencies import COMMON_ERRORS
from service.api.door.audit import Audit
from service.api.door.client_address import ClientAddresses
from service.api.door.connection_guard import ConnectionGuard
from service.api.door.connection_table import ConnectionLimits, ConnectionTable
from service.api.door.fast_reads import FastReads, PlainReads, ReadsByDataSet
from service.api.door.gateway import FastRoute, Gateway
from service.api.door.guarded_transport import note_answer
from service.api.door.http_protocol import HttpProtocol
from service.api.door.rate_limit import Limits
from service.api.openapi import document as openapi
from service.api.routes import (
    admin,
    audit,
    docs,
    experiments,
    health,
    home,
    items,
    keys,
    listings,
    lookups,
    ratings,
    recommend,
    scenarios,
    sources,
)
from service.api.routes import data_sets as other_data_sets
from service.api.scenarios import Scenarios
from service.api.serving import Serving
from service.base.errors import ServiceError
from service.settings import data_sets

ROUTES = (
    ratings,
    items,
    recommend,
    lookups,
    listings,
    admin,
    scenarios,
    experiments,
    sources,
    audit,
    health,
    docs,
    home,
)
OF_DATA_SETS = data_sets.ROUTES.encode()
DESCRIPTION = """Recommendations that follow a rating at once.

Ids are strings of 1 to 256 bytes; in paths they are percent-encoded, so `/` is legal in them. Every write answers with
a `stream_id`; a read with `wait_for` that id has seen it. Errors are `application/problem+json`."""


class Application(FastAPI):
    """FastAPI behind our `Gateway`: the routes of a data set, and in that of the default one the way to the others."""

    def __init__(self, serving: Serving, limits: Limits, further: Mapping[str, Application], **options: Any) -> None:
        super().__init__(**options)
        self.state.serving = self._serving = serving
        self.state.scenarios = Scenarios(serving)
        self._routes = [route for module in (*ROUTES, keys) for route in module.router.routes]
        self.audit = Audit(serving.settings, lambda: self.gateway.keys, self._routes)
        self.state.is_stopping = False
        self.state.further = {name: app.state.serving for name, app in further.items()}
        self._further = {name.encode(): app for name, app in further.items()}
        self._limits = limits
        settings = serving.settings
        most = ConnectionLimits(settings.max_connections)
        self._connections = ConnectionTable(most, ClientAddresses(settings.trusted_proxies).group)
        serving.metrics.connections.set_function(lambda: self.n_connections)

    def add(self, router: APIRouter) -> None:
        """Add routes of an extra; the audit log names them as it does the others."""
        self.include_router(router)
        self._routes += router.routes

    def build_middleware_stack(self) -> ASGIApp:
        """The layers of the framework, inside our `Gateway`."""
        fast_routes = {
            ("POST", b"/ratings"): FastRoute("/ratings", 202, ratings.WriteRoute(self._serving, ratings.take_ratings)),
            ("POST", b"/events"): FastRoute("/events", 202, ratings.WriteRoute(self._serving, ratings.take_events)),
            ("GET", openapi.PATH.encode()): openapi.fast_route(self, lambda: self.gateway.keys),
        }
        inner, settings, metrics = super().build_middleware_stack(), self._serving.settings, self._serving.metrics
        return Gateway(inner, settings, metrics, fast_routes, self._limits)

    @property
    def gateway(self) -> Gateway:
        """The outermost layer."""
        if self.middleware_stack is None:
            self.middleware_stack = self.build_middleware_stack()
        return cast("Gateway", self.middleware_stack)

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
        return ConnectionGuard(HttpProtocol(refusal, **options), self._connections, refusal, self.reads)

    @functools.cached_property
    def reads(self) -> PlainReads:
        """What answers plain reads without the framework."""
        path = data_sets.path_of(self._serving.settings.data_set).encode()
        own = FastReads(self.gateway, recommend.fast_get(self._serving), path)
        return ReadsByDataSet(own, {name: app.reads for name, app in self._further.items()}) if self._further else own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the gateway directly: FastAPI's own steps would cost as much as a fast route."""
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
            note_answer()

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
        docs_url=None,  # `service.api.routes.docs` has a page that needs no internet
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        responses=COMMON_ERRORS,
    )
    for module in ROUTES:
        app.include_router(module.router)
    for add in extras:
        add(app)
    if not serving.settings.data_set:
        app.include_router(keys.router)
        app.include_router(other_data_sets.router)
    _handle_errors(app)
    return app


def _handle_errors(app: FastAPI) -> None:
    app.add_exception_handler(ServiceError, problems.on_service_error)
    app.add_exception_handler(HTTPException, problems.on_http_error)
    app.add_exception_handler(RequestValidationError, problems.on_invalid_request)
    app.add_exception_handler(InvalidInput, problems.on_invalid_input)
    app.add_exception_handler(Exception, problems.on_crash)
