"""`operation`: makes the functions of a route from a declaration of its parameters and its answer."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from nearfield_client.model import Entries, evaluated, plain, reader_of
from nearfield_client.problems import refusal
from nearfield_client.session import Session

if sys.version_info >= (3, 10):
    from typing import ParamSpec
else:
    from typing_extensions import ParamSpec

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Response(Generic[T]):
    """An answer with what HTTP says about it; `parsed` is None if it is no JSON."""

    status_code: HTTPStatus
    content: bytes
    headers: MutableMapping[str, str]
    parsed: T


class Operation(Generic[P, T]):
    """A route of the API.

    Attributes:
        method, path, parameters: what it sends; a name in braces in the path is a parameter.
        sync: asks, and returns the answer.
        sync_detailed: the same with status, headers and bytes.
        asyncio, asyncio_detailed: the same as coroutines.

    Raises, each of them:
        NearfieldError: the service refused the request, or did not answer.
    """

    sync: Callable[P, T]
    sync_detailed: Callable[P, Response[T]]
    asyncio: Callable[P, Coroutine[Any, Any, T]]
    asyncio_detailed: Callable[P, Coroutine[Any, Any, Response[T]]]

    def __init__(self, declared: Callable[P, T], method: str, path: str, headers: Mapping[str, str]) -> None:
        self.__doc__ = declared.__doc__
        self._declared, self._signature, self._headers = declared, inspect.signature(declared), headers
        self.method, self.path, self.parameters = method, path, tuple(self._signature.parameters)

        @functools.wraps(declared)
        def sync_detailed(*args: P.args, **kwargs: P.kwargs) -> Response[T]:
            client, request = self._request(*args, **kwargs)
            return self._response(client.get_httpx_client().request(**request))

        @functools.wraps(declared)
        async def asyncio_detailed(*args: P.args, **kwargs: P.kwargs) -> Response[T]:
            client, request = self._request(*args, **kwargs)
            return self._response(await client.get_async_httpx_client().request(**request))

        @functools.wraps(declared)
        def sync(*args: P.args, **kwargs: P.kwargs) -> T:
            return sync_detailed(*args, **kwargs).parsed

        @functools.wraps(declared)
        async def asyncio(*args: P.args, **kwargs: P.kwargs) -> T:
            return (await asyncio_detailed(*args, **kwargs)).parsed

        self.sync, self.sync_detailed = sync, sync_detailed
        self.asyncio, self.asyncio_detailed = asyncio, asyncio_detailed

    def _request(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Session, dict[str, Any]]:
        given = self._signature.bind(*args, **kwargs).arguments
        client: Session = given.pop("client")
        request: dict[str, Any] = {"method": self.method, "params": {}, "headers": {}}
        in_path = {}
        for name, value in given.items():
            if f"{{{name}}}" in self.path:
                in_path[name] = quote(str(value), safe="")
            elif name == "body":
                request["json"] = plain(value)
            elif value is None:
                continue
            elif name in self._headers:
                request["headers"][self._headers[name]] = str(value)
            else:
                request["params"] |= value if isinstance(value, Entries) else {name.removesuffix("_"): plain(value)}
        return client, {**request, "url": self.path.format(**in_path)}

    def _response(self, response: httpx.Response) -> Response[T]:
        if not response.is_success:
            raise refusal(response)
        parsed: Any = None
        if self._answer is not Any:
            read = reader_of(self._answer)
            parsed = response.json() if read is None else read(response.json())
        return Response(HTTPStatus(response.status_code), response.content, response.headers, parsed)

    @functools.cached_property
    def _answer(self) -> Any:
        """The type of the answer; `Any` if it is no JSON."""
        return evaluated(self._declared.__annotations__["return"], self._declared.__module__)


def operation(
    method: str, path: str, headers: Mapping[str, str] | None = None
) -> Callable[[Callable[P, T]], Operation[P, T]]:
    """Make a function an operation. Its parameters are in the path, in headers, the body, or else in the query.

    Args:
        method: of HTTP.
        path: with names of parameters in braces.
        headers: parameter -> header.
    """
    return lambda declared: Operation(declared, method, path, headers or {})
