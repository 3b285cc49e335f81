"""The OpenAPI document: the framework's own, with the answers (structs, not pydantic models), keys and examples."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service import data_sets
from service.api.auth import Keys, is_open
from service.api.dependencies import DOCUMENTED
from service.api.examples import add_examples
from service.api.gateway import FastRequest, FastRoute

PATH = "/openapi.json"


def document(app: FastAPI, keys: Keys) -> dict[str, Any]:
    """The document of `app` with these keys, made once and cached.

    If no key is set for a route, the document says that a key may be sent but is not needed.
    """
    if app.openapi_schema is None:
        result = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = result.setdefault("components", {})
        components.setdefault("schemas", {}).update(DOCUMENTED)
        components["securitySchemes"] = {"key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}}
        for path, operations in result["paths"].items():
            for operation in operations.values():
                operation["security"] = _security(path.encode(), keys)
        add_examples(result)
        if path := data_sets.path_of(app.state.serving.settings.data_set):
            result["servers"] = [{"url": path}]
        app.openapi_schema = result
    return app.openapi_schema


def _security(path: bytes, keys: Keys) -> list[dict[str, list[str]]]:
    """Alternatives that open the path; an empty one means no key."""
    if is_open(path):
        return []
    return [{}, {"key": []}] if keys.is_open(path) else [{"key": []}]


def fast_route(app: FastAPI) -> FastRoute:
    """The document as bytes, encoded once: any client may ask for it, and encoding 65 kB takes 3 ms."""
    content: list[bytes] = []

    async def answer(fast_request: FastRequest) -> bytes | None:
        if fast_request.tail != PATH[1:].encode():
            return None
        if not content:
            content.append(msgspec.json.encode(app.openapi()))
        return content[0]

    return FastRoute(PATH, 200, answer)
