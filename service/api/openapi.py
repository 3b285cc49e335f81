"""The OpenAPI document: what the framework collects, with the answers (structs, not pydantic models), the keys
and the examples.
"""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.api.auth import Keys, is_open
from service.api.dependencies import DOCUMENTED
from service.api.examples import add_examples
from service.api.gateway import FastRequest, FastRoute

PATH = "/openapi.json"


def document(app: FastAPI, keys: Keys) -> dict[str, Any]:
    """The document of `app` as it is with these keys, made once and kept.

    Where no key is set that a route would ask for, its document says that one may be sent, and that none is needed.
    """
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = made.setdefault("components", {})
        components.setdefault("schemas", {}).update(DOCUMENTED)
        components["securitySchemes"] = {"key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}}
        for path, operations in made["paths"].items():
            for operation in operations.values():
                operation["security"] = _security(path.encode(), keys)
        add_examples(made)
        app.openapi_schema = made
    return app.openapi_schema


def _security(path: bytes, keys: Keys) -> list[dict[str, list[str]]]:
    """Any of these opens the path; the empty one is no key."""
    if is_open(path):
        return []
    return [{}, {"key": []}] if keys.is_open(path) else [{"key": []}]


def lane(app: FastAPI) -> FastRoute:
    """The document as bytes, made once: everybody may ask for it, and encoding 65 kB takes 3 ms."""
    content: list[bytes] = []

    async def answer(hot: FastRequest) -> bytes | None:
        if hot.tail != PATH[1:].encode():
            return None
        if not content:
            content.append(msgspec.json.encode(app.openapi()))
        return content[0]

    return FastRoute(PATH, 200, answer)
