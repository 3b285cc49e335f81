"""The OpenAPI document: the framework's own, with the answers (structs, not pydantic models), keys and examples."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.api.door import auth
from service.api.door.auth import ADMIN_PREFIX, Keys
from service.api.openapi.components import DOCUMENTED, with_references
from service.api.openapi.examples import add_examples
from service.settings import data_sets

PATH = "/openapi.json"
KEY_SCHEMES: list[dict[str, list[str]]] = [{"key": []}, {"bearer": []}]  # a key is sent in one of these ways


def document(app: FastAPI, keys: Keys) -> dict[str, Any]:
    """The document of `app` with these keys, made once and cached until routes close.

    If no key is set for a route, the document says that a key may be sent but is not needed.
    """
    if app.openapi_schema is None or app.state.documented_as_open != open_kinds(keys):
        app.state.documented_as_open = open_kinds(keys)
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        result: dict[str, Any] = with_references(made)
        components = result.setdefault("components", {})
        components.setdefault("schemas", {}).update(DOCUMENTED)
        components["securitySchemes"] = {
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "bearer": {"type": "http", "scheme": "bearer"},
        }
        for path, operations in result["paths"].items():
            for operation in operations.values():
                operation["responses"] |= app.state.refusals.get(operation["operationId"], {})
                # Alternatives that open the path; an empty one means no key.
                alternatives: list[dict[str, list[str]]] = [{}] * keys.is_open(path.encode()) + KEY_SCHEMES
                operation["security"] = [] if auth.is_open(path.encode()) else alternatives
        add_examples(result)
        if path := data_sets.path_of(app.state.serving.settings.data_set):
            result["servers"] = [{"url": path}]
        app.openapi_schema = result
    return app.openapi_schema


def open_kinds(keys: Keys) -> tuple[bool, bool]:
    """Whether /admin/*, and whether all other paths need no key: the document depends on both."""
    return keys.is_open(ADMIN_PREFIX), keys.is_open(b"/")


async def encoded(app: FastAPI, keys: Keys) -> bytes:
    """The document as bytes, made once in a thread: that takes 160 ms, in which other requests are answered."""
    kinds = open_kinds(keys)
    async with app.state.documenting:
        if kinds not in app.state.documents:
            app.state.documents[kinds] = await asyncio.to_thread(lambda: msgspec.json.encode(app.openapi()))
    content: bytes = app.state.documents[kinds]
    return content
