"""`Route`: a route of FastAPI that reads, judges, calls and answers itself; `RouteTable` finds it by method and path.

FastAPI reads the signature of an endpoint, and documents it. Its solver would then read the same values again for each
request, at ten times the cost of an answer. The values of a signature are few kinds: parts of the path, parameters,
headers, one JSON body, the request itself, and `Depends` on a function of the request, such as the service.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from typing import Any, get_origin
from urllib.parse import parse_qsl

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope

from service.api.errors import MalformedBody
from service.api.parsers.bodies import RequestHeaders

MAX_KEPT, MAX_KEPT_BYTES = 128, 256  # query strings of a route that are judged once: clients repeat theirs
UNREADABLE = "Invalid body: expected JSON in UTF-8, not nested too deep, got something else"
Values = dict[str, Any]
Faults = list[Any]  # as `ValidationError.errors()` has them


class Call(Request):
    """A request that was let in, with its whole body.

    Attributes:
        known: the headers that `Gateway` reads.
        content: the body; empty if there is none.
        request_id: its id.
        started: `time.perf_counter()` at arrival.
    """

    def __init__(
        self, scope: Scope, receive: Receive, known: RequestHeaders, content: bytes, request_id: str, started: float
    ) -> None:
        super().__init__(scope, receive)
        self.known, self.content, self.request_id, self.started = known, content, request_id, started

    async def body(self) -> bytes:
        """`content`, as the framework calls it."""
        return self.content


class Route(APIRoute):
    """One route. Its endpoint returns JSON as bytes, sent with the status of the route, or a whole response."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **{**options, "response_model": None})
        known = self.dependant
        self.segments, self.taken = self.path.split("/"), frozenset(self.methods or ())
        self._ids = [(field, "path", field.alias) for field in known.path_params]
        self._headers = [(field, field.alias.lower().encode()) for field in known.header_params]
        self._body = known.body_params[0] if known.body_params else None
        self._needed = [(one.name or "", one.call) for one in known.dependencies]
        self._call = known.request_param_name
        self._queries = known.query_params
        models = [field.field_info.annotation for field in self._queries]
        self._model = models[0] if models and isinstance(models[0], type) and issubclass(models[0], BaseModel) else None
        self._kept = functools.lru_cache(MAX_KEPT)(self._judge)
        fields = {} if self._model is None else self._model.model_fields
        self._names = {field.alias or name: get_origin(field.annotation) is list for name, field in fields.items()}

    async def answer(self, call: Call) -> bytes | Response:
        """What the endpoint makes of the request.

        Raises:
            RequestValidationError: values of the request were refused; all of them are told.
            MalformedBody: the body cannot be read.
            Exception: what the endpoint raises.
        """
        body = self._parsed(call.content)
        values: Values = {}
        faults: Faults = []
        for field, place, alias in self._ids:
            values[field.name] = _judged(field, call.path_params[alias], (place, alias), faults)
        if self._queries:
            text: bytes = call.scope["query_string"]
            parameters, wrong = self._kept(text) if len(text) <= MAX_KEPT_BYTES else self._judge(text)
            values.update(parameters)
            faults += wrong
        for field, header in self._headers:
            given = call.known.get(header)
            text_ = _Missing if given is None else given.decode("latin-1")
            values[field.name] = _judged(field, text_, ("header", field.alias), faults)
        if self._body is not None:
            values[self._body.name] = _judged(self._body, body, ("body",), faults)
        if faults:
            raise RequestValidationError(faults)
        for name, needed in self._needed:
            values[name] = needed(call)  # type: ignore[misc]
        if self._call is not None:
            values[self._call] = call
        answer: bytes | Response = await self.endpoint(**values)
        return answer

    def _judge(self, text: bytes) -> tuple[Values, Faults]:
        """The judged values of a query string, and what is wrong with them."""
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True) if text else ()
        faults: Faults = []
        if self._model is not None:
            given = self._gathered(pairs)
            return {self._queries[0].name: _judged(self._queries[0], given, ("query",), faults)}, faults
        last = dict(pairs)
        values = {
            field.name: _judged(field, last.get(field.alias, _Missing), ("query", field.alias), faults)
            for field in self._queries
        }
        return values, faults

    def _gathered(self, pairs: Iterable[tuple[str, str]]) -> Values:
        """Values by name: of a list all, of a single value the last one, of an unknown name all if there are more."""
        given: Values = {}
        for name, value in pairs:
            takes_list = self._names.get(name)
            if takes_list:
                given.setdefault(name, []).append(value)
            elif takes_list is None and name in given:
                given[name] = [*(given[name] if isinstance(given[name], list) else [given[name]]), value]
            else:
                given[name] = value
        return given

    def _parsed(self, content: bytes) -> Any:
        if self._body is None or not content:
            return _Missing
        try:
            return json.loads(content)
        except json.JSONDecodeError as error:
            wrong = {"type": "json_invalid", "loc": ("body", error.pos), "input": {}, "ctx": {"error": error.msg}}
            raise RequestValidationError([{"msg": "JSON decode error", **wrong}]) from None
        except (ValueError, RecursionError):
            raise MalformedBody(UNREADABLE) from None


class RouteTable:
    """The routes of an application. Ids are decoded after routing, so that a percent-encoded `/` is legal in them."""

    def __init__(self, routes: Iterable[BaseRoute] = ()) -> None:
        self._by_shape: dict[tuple[int, str], list[Route]] = {}
        self._long: list[Route] = []  # whose last parameter takes all that follows
        self.add(routes)

    def add(self, routes: Iterable[BaseRoute]) -> None:
        """Add routes behind the others: the first that matches answers."""
        for route in routes:
            if not isinstance(route, Route):
                raise TypeError(f"Invalid route: expected a Route, got {route!r}")
            if ":" in route.path:
                self._long.append(route)
            else:
                self._by_shape.setdefault((len(route.segments), route.segments[1]), []).append(route)

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route of a raw path, and the values in the path.

        Raises:
            HTTPException: 404, or 405 with the methods that the path takes.
        """
        segments = path.split("/")
        allowed: set[str] = set()
        for route in self._by_shape.get((len(segments), segments[1] if len(segments) > 1 else ""), ()):
            values = _matched(route.segments, segments)
            if values is not None:
                if method in route.taken:
                    return route, values
                allowed |= route.taken
        for route in self._long:
            match = route.path_regex.match(path)
            if match is not None:
                if method in route.taken:
                    return route, match.groupdict()
                allowed |= route.taken
        if not allowed:
            raise HTTPException(404)
        names = ", ".join(sorted(allowed | {"HEAD"} if "GET" in allowed else allowed))
        raise HTTPException(405, headers={"Allow": names})


class _Missing:
    """Stands for a value that was not given."""


def _matched(template: list[str], segments: list[str]) -> dict[str, str] | None:
    """The values of the parameters of a template of the same length; None if the path is another."""
    values: dict[str, str] = {}
    for expected, segment in zip(template, segments, strict=True):
        if expected != segment:
            if not segment or not expected.startswith("{"):
                return None
            values[expected[1:-1]] = segment
    return values


def _judged(field: Any, value: Any, place: tuple[str, ...], faults: Faults) -> Any:
    """The value as the endpoint gets it; adds to `faults` if it is refused."""
    if value is _Missing:
        if field.field_info.is_required():
            faults.append({"type": "missing", "loc": place, "msg": "Field required", "input": None})
            return None
        return field.get_default()
    judged, wrong = field.validate(value, {}, loc=place)
    if wrong:
        faults += wrong
    return judged
