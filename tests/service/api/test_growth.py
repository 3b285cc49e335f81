"""Every field of a body and every parameter of a query, grown: no request holds the event loop, however large it is.

The fields and the parameters are those of the OpenAPI document, so that new ones are tried as well.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.service.local import Local, serving

MAX_BYTES = (1 << 20) - (16 << 10)  # of a grown value: the whole body has at most a MiB
MAX_URL = 15_000  # bytes of a grown parameter; `ConnectionLimits.url_bytes` bounds the request line
GROWTH = 4
LINEAR = 2.0 * GROWTH  # times as long for `GROWTH` times as much; 16 would be quadratic
SMALL_S = 0.004  # seconds; shorter ones say nothing about growth
TRIES = 4  # the least of several times counts: the machine has other work
TRIED = {"get", "post", "put", "patch", "delete"}


class Steps:
    """The seconds of processor time that each step of an event loop takes, in the thread of the loop."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.thread: int | None = None

    def run(self, run: Callable[[asyncio.Handle], None]) -> Callable[[asyncio.Handle], None]:
        def timed(handle: asyncio.Handle) -> None:
            if threading.get_ident() != self.thread:
                run(handle)
                return
            started = time.thread_time()
            run(handle)
            self.longest_s = max(self.longest_s, time.thread_time() - started)

        return timed


class Grown(NamedTuple):
    """A request that grows: the bytes of its body, or the text of its query, for a size in bytes."""

    method: str
    path: str
    what: str
    body: Callable[[int], bytes] | None
    query: Callable[[int], str] | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.what}"


def filled(one: Callable[[int], str], join: str = ",", ends: str = "[]") -> Callable[[int], str]:
    """As many texts, which differ by their number, as there is room for."""

    def text(size: int) -> str:
        parts, length = [], 0
        while length < size:
            parts.append(one(len(parts)))
            length += len(parts[-1]) + len(join)
        return ends[:1] + join.join(parts) + ends[1:]

    return text


HOLES = {"": "", "nest": "[[[]]]"}
# What any value is tried to be, as JSON.
SHAPES: dict[str, Callable[[int], str]] = {
    "text": lambda size: '"' + "x" * size + '"',
    "digits": lambda size: '"' + "1" * size + '"',
    "date": lambda size: '"2023-11-14T22:13:20' + ".1" * (size // 2) + '"',
    "escapes": lambda size: '"' + "\\u00e9" * (size // 6) + '"',
    "number": lambda size: "1" * size,
    "fraction": lambda size: "1." + "1" * size + "e-5",
    "texts": filled(lambda n: f'"i{n}"'),
    "long texts": filled(lambda n: f'"{n:0300}"'),
    "equal texts": filled(lambda n: '"i"'),
    "empty texts": filled(lambda n: '""'),
    "numbers": filled(lambda n: "1"),
    "nulls": filled(lambda n: "null"),
    "lists": filled(lambda n: "[]"),
    "nested lists": filled(lambda n: "[[[]]]"),
    "objects": filled(lambda n: "{}"),
    "deep": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "names": filled(lambda n: f'"n{n}":1', ends="{}"),
    "names of texts": filled(lambda n: f'"n{n}":["a"]', ends="{}"),
    "any of": lambda size: '{"any":' + filled(lambda n: f'{{"tag":"t","in":["{n}"]}}')(size) + "}",
    "all of nots": lambda size: '{"all":' + filled(lambda n: '{"not":{"not":{"tag":"t","in":["a"]}}}')(size) + "}",
    "in": lambda size: '{"tag":"t","in":' + filled(lambda n: f'"{n}"')(size) + "}",
    "in one": lambda size: '{"tag":"t","in":' + filled(lambda n: '"a"')(size) + "}",
    "tag": lambda size: '{"tag":"' + "t" * size + '","in":["a"]}',
}


class Document:
    """The OpenAPI document: requests that grow, by their parts."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def grown(self) -> Iterator[Grown]:
        for path, operations in self._document["paths"].items():
            for method, operation in operations.items():
                if method in TRIED:
                    place = path.replace("{job}", "j").replace("{", "").replace("}", "")
                    yield from self._of_body(method.upper(), place, operation)
                    yield from self._of_query(method.upper(), place, operation)

    def _of_query(self, method: str, path: str, operation: Any) -> Iterator[Grown]:
        names = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
        for name in [*names, "unknown"]:
            tried = ["tag.t", "min.n", "max.n"] if name == "filter" else [name]
            for one in tried:
                for shape, value in {"text": "x", "digits": "1", "escapes": "%C3%A9", "plus": "+"}.items():
                    grow = lambda size, one=one, value=value: f"{one}=" + value * (size // len(value))  # noqa: E731
                    yield Grown(method, path, f"?{one}: {shape}", None, grow)
                again = filled(lambda n, one=one: f"{one}=i{n}", "&", "")
                yield Grown(method, path, f"?{one}: again", None, again)
        yield Grown(method, path, "?names", None, filled(lambda n: f"n{n}=1", "&", ""))
        yield Grown(method, path, "?tags", None, filled(lambda n: f"tag.n{n}=1", "&", ""))

    def _of_body(self, method: str, path: str, operation: Any) -> Iterator[Grown]:
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" not in content:
            return
        schemas = list(self._objects(content["application/json"]["schema"]))
        for shape, grow in SHAPES.items():
            yield Grown(method, path, f"body: {shape}", _encoded(grow))
        for schema in schemas:
            whole = {name: self.example(schema["properties"][name]) for name in schema.get("required", [])}
            for name, of_name in schema["properties"].items():
                for shape, grow in (SHAPES | dict(self._typed(of_name))).items():
                    yield Grown(method, path, f"{name}: {shape}", _encoded(_with(whole, name, grow)))

    def _typed(self, schema: Any) -> Iterator[tuple[str, Callable[[int], str]]]:
        """Lists of elements of the kind that a list has, distinct and equal."""
        for one in self._each(schema):
            if one.get("type") == "array" and "items" in one:
                yield "good elements", filled(lambda n, one=one: json.dumps(self.example(one["items"], n)))
                yield "equal elements", filled(lambda n, one=one: json.dumps(self.example(one["items"])))

    def _objects(self, schema: Any) -> Iterator[Any]:
        for one in self._each(schema):
            if "properties" in one:
                yield one
            if one.get("type") == "array":
                yield from self._objects(one["items"])

    def _each(self, schema: Any) -> Iterator[Any]:
        """The alternatives of a schema."""
        if "$ref" in schema:
            schema = self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        parts = [part for kind in ("anyOf", "oneOf", "allOf") for part in schema.get(kind, [])]
        if parts:
            for part in parts:
                yield from self._each(part)
        else:
            yield schema

    def example(self, schema: Any, n: int = 0) -> Any:
        """A value of a schema; values with other numbers differ as far as they can."""
        one = next(self._each(schema))
        if "enum" in one or "const" in one:
            return one.get("const", one.get("enum", [None])[0])
        match one.get("type"):
            case "array":
                return [self.example(one["items"], n)]
            case "integer":
                return max(one.get("minimum", 0), 1) + n % one.get("maximum", 10**9)
            case "number":
                return 1.5
            case "boolean":
                return True
            case "object":
                named = one.get("properties", {})
                if "tag" in named and "in" in named:
                    return {"tag": "t", "in": [f"v{n}"]}
                return {name: self.example(named[name], n) for name in one.get("required", [])}
        return f"i{n}"


def _encoded(grow: Callable[[int], str]) -> Callable[[int], bytes]:
    return lambda size: grow(size).encode()


def _with(whole: dict[str, Any], name: str, grow: Callable[[int], str]) -> Callable[[int], str]:
    return lambda size: json.dumps(whole | {name: "@@"}).replace('"@@"', grow(size))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with serving(tmp_path_factory.mktemp("growth") / "data", worker=False) as running:
        yield running


@pytest.fixture
def steps(local: Local, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    made = Steps()
    made.thread = local._thread.ident
    monkeypatch.setattr(asyncio.Handle, "_run", made.run(asyncio.Handle._run))
    gc.collect()
    gc.freeze()  # as the service does
    yield made
    gc.unfreeze()


def held_s(local: Local, steps: Steps, request: Grown, size: int) -> float:
    """Seconds for which the request holds the event loop."""
    text = "" if request.query is None else request.query(min(size, MAX_URL) if size > MAX_URL else size)
    body = None if request.body is None else request.body(size)
    steps.longest_s = 0.0
    headers = {"content-type": "application/json"}
    url = f"{request.path}?{text}" if text else request.path
    local.request(request.method, url, content=body, headers=headers if body else None)
    return steps.longest_s
