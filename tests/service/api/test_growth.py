"""Every field of a body and every parameter of a query, grown: no request holds the event loop, however large it is.

The fields and the parameters are those of the OpenAPI document, so that new ones are tried as well.
"""

import asyncio
import functools
import gc
import html
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from service.api.parsers import body_turns
from service.settings.settings import Settings
from tests.faults import results
from tests.service.local import Local, serving, unconnected

MAX_BYTES = (1 << 20) - (16 << 10)  # of a grown value: the whole body has at most a MiB
MAX_URL = 15_000  # bytes of a grown parameter; `ConnectionLimits.url_bytes` bounds the request line
MAX_HEADER = 30_000  # bytes of a grown header, see `ConnectionLimits.head_bytes`
HELD_S = 0.025  # seconds for which one request may hold the event loop
GROWTH = 4
LINEAR = 2.0 * GROWTH  # times as long for `GROWTH` times as much; 16 would be quadratic
SMALL_S = 0.004  # seconds; shorter ones say nothing about growth
TRIES = 6  # the least of several times counts: the machine has other work


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
    """A request that grows.

    Attributes:
        what: grows.
        most: bytes to which it grows.
        make: what to give to the client, for a size in bytes.
    """

    method: str
    path: str
    what: str
    most: int
    make: Callable[[int], dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.what}"


def filled(one: Callable[[int], str], join: str = ",", ends: str = "[]", most: int = MAX_BYTES) -> Callable[[int], str]:
    """As many texts as there is room for, at most `most`; they differ by their number."""

    def text(size: int) -> str:
        parts, length = list[str](), 0
        while length < size and len(parts) < most:
            parts.append(one(len(parts)))
            length += len(parts[-1]) + len(join)
        return ends[:1] + join.join(parts) + ends[1:]

    return functools.cache(text)


TYPES = {"[": "array", "{": "object", '"': "string"}  # by the first character of a value; others are numbers
LETTERS = {"text": "x", "digits": "1", "escapes": "%C3%A9"}  # of which a parameter consists
# What any value is tried to be, as JSON.
SHAPES: dict[str, Callable[[int], str]] = {
    "text": lambda size: '"' + "x" * size + '"',
    "digits": lambda size: '"' + "1" * size + '"',
    "escapes": lambda size: '"' + "\\u00e9" * (size // 6) + '"',
    "number": lambda size: "1" * size,
    "texts": filled(lambda n: f'"i{n}"'),
    "empty texts": filled(lambda n: '""'),
    "nulls": filled(lambda n: "null"),
    "nested lists": filled(lambda n: "[[[]]]"),
    "objects": filled(lambda n: "{}"),
    "deep": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "names": filled(lambda n: f'"n{n}":1', ends="{}"),
    "any of": lambda size: '{"any":' + filled(lambda n: f'{{"tag":"t","in":["{n}"]}}')(size) + "}",
    "all of nots": lambda size: '{"all":' + filled(lambda n: '{"not":{"not":{"tag":"t","in":["a"]}}}')(size) + "}",
    "in": lambda size: '{"tag":"t","in":' + filled(lambda n: f'"{n}"')(size) + "}",
}


class Document:
    """The OpenAPI document: requests that grow, by their parts."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._grown: set[tuple[str, str, str]] = set()

    def by_operation(self) -> dict[str, list[Grown]]:
        """The requests of each operation; in the short run without fields that an earlier one has with this shape."""
        paths = self._document["paths"]
        operations = [(method.upper(), path) for path, of_path in paths.items() for method in of_path]
        return {f"{method} {path}": list(self._of(method, path)) for method, path in operations}

    def _of(self, method: str, path: str) -> Iterator[Grown]:
        """The requests of one operation."""
        operation = self._document["paths"][path][method.lower()]
        place = re.sub(r"{(\w+)}", r"\1", path)
        yield from self._of_body(method, place, operation)
        yield from self._of_query(method, place, operation)

    def _of_query(self, method: str, path: str, operation: Any) -> Iterator[Grown]:
        names = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
        for name in [*names, "unknown"]:
            for one in ["tag.t", "min.n", "max.n"] if name == "filter" else [name]:
                shapes = {shape: _repeated(f"{one}=", text) for shape, text in LETTERS.items()}
                shapes["again"] = filled(_numbered(f"{one}=i#"), "&", "")
                for shape, grow in shapes.items():
                    yield Grown(method, path, f"?{one}: {shape}", MAX_URL, _in_query(path, grow))
        for shape, grow in {"names": filled(lambda n: f"n{n}=1", "&", ""), "tags": filled(_tag, "&", "")}.items():
            yield Grown(method, path, f"?{shape}", MAX_URL, _in_query(path, grow))

    def _of_body(self, method: str, path: str, operation: Any) -> Iterator[Grown]:
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" not in content:
            return
        for kind in content:
            for shape, grow in SHAPES.items():
                yield Grown(method, path, f"body: {shape} as {kind}", MAX_BYTES, _in_body(grow, kind))
        for schema in self._objects(content["application/json"]["schema"]):
            whole = {name: self.example(schema["properties"][name]) for name in schema.get("required", [])}
            tried = set[frozenset[str]]()
            for name, of_name in schema["properties"].items():
                types = frozenset(kind for one in self._each(of_name) for kind in _types(one))
                for shape, grow in (self._shapes(types, tried) | dict(self._typed(of_name))).items():
                    if self._is_new(name, types, shape):
                        yield Grown(method, path, f"{name}: {shape}", MAX_BYTES, _in_body(_with(whole, name, grow)))
                tried.add(types)

    def _is_new(self, name: str, types: frozenset[str], shape: str) -> bool:
        """Whether a field is to be tried: bodies that share one read it alike."""
        key = name, " ".join(sorted(types)), shape
        is_new = results.IS_LONG or key not in self._grown
        self._grown.add(key)
        return is_new

    def _shapes(self, types: frozenset[str], tried: set[frozenset[str]]) -> dict[str, Callable[[int], str]]:
        """What a field of these types is tried to be.

        Values of another type are refused where they begin: in the short run one field of each kind gets them.
        """
        if results.IS_LONG or types not in tried or "any" in types:
            return SHAPES
        return {shape: grow for shape, grow in SHAPES.items() if TYPES.get(grow(2)[0], "number") in types}

    def _typed(self, schema: Any) -> Iterator[tuple[str, Callable[[int], str]]]:
        """Lists of elements of the kind that a list has, distinct and equal; and lists of the most elements."""
        for one in self._each(schema):
            if one.get("type") == "array" and "items" in one:
                yield "good elements", filled(self._examples(one["items"]))
                yield "equal elements", filled(_numbered(json.dumps(self.example(one["items"]))))
                if most := one.get("maxItems"):
                    for shape in ('""', "null", "[]", "{}", '"a"', f'"{"x" * 257}"', "1"):
                        yield f"full of {shape[:4]}", filled(_numbered(shape), most=most)
                    good = filled(self._examples(one["items"]), most=most)
                    yield "full of good ones", good

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

    def _examples(self, schema: Any) -> Callable[[int], str]:
        return lambda n: json.dumps(self.example(schema, n))

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


with tempfile.TemporaryDirectory() as _folder:
    DOCUMENT = Document(unconnected(Settings(data=Path(_folder))).openapi())


def _types(schema: Any) -> list[str]:
    """The types of JSON that a schema without alternatives allows; an integer is a number."""
    given = schema.get("type", "any")
    return ["number" if one == "integer" else str(one) for one in (given if isinstance(given, list) else [given])]


def _numbered(text: str) -> Callable[[int], str]:
    return lambda n: text.replace("#", str(n))


def _tag(n: int) -> str:
    return f"tag.n{n}=1"


def _repeated(start: str, text: str) -> Callable[[int], str]:
    return lambda size: start + text * (size // len(text))


def _in_query(path: str, grow: Callable[[int], str]) -> Callable[[int], dict[str, Any]]:
    return lambda size: {"url": f"{path}?{grow(size)}"}


def _in_body(grow: Callable[[int], str], kind: str = "application/json") -> Callable[[int], dict[str, Any]]:
    return lambda size: {"content": grow(size).encode(), "headers": {"content-type": kind}}


def _in_header(name: str, grow: Callable[[int], str]) -> Callable[[int], dict[str, Any]]:
    return lambda size: {"headers": {name: grow(size)}}


def _with(whole: dict[str, Any], name: str, grow: Callable[[int], str]) -> Callable[[int], str]:
    return lambda size: json.dumps(whole | {name: "@@"}).replace('"@@"', grow(size))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A service that lets large bodies in at once: here each would wait for nobody but the body before it."""
    data, proxies = tmp_path_factory.mktemp("growth") / "data", ["127.0.0.0/8", "::1"]
    with (
        pytest.MonkeyPatch.context() as patch,
        serving(data, worker=False, trusted_proxies=proxies, cors_origins=["http://shop.example"]) as running,
    ):
        patch.setattr(body_turns, "BYTES_PER_S", 1e12)
        yield running


@pytest.fixture(scope="module")
def steps(local: Local) -> Iterator[Steps]:
    """Those of the service, whose start is frozen as that of a process is: once, as it takes a third of a second."""
    made = Steps()
    made.thread = local._thread.ident
    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", made.run(asyncio.Handle._run))
        yield made
    gc.unfreeze()


def held_s(local: Local, steps: Steps, grown: Grown, size: int) -> float:
    """Seconds for which the request holds the event loop."""
    given = {"url": grown.path} | grown.make(size)
    steps.longest_s = 0.0
    local.request(grown.method, given.pop("url"), **given)
    return steps.longest_s


def slow(local: Local, steps: Steps, grown: Grown) -> str | None:
    """What is wrong with the time that a request takes; None if it is short, and grows no faster than the request."""
    times = small = 0.0
    for _ in range(TRIES):
        times = held_s(local, steps, grown, grown.most)
        if times <= SMALL_S:
            return None
        small = max(held_s(local, steps, grown, grown.most // GROWTH), SMALL_S / GROWTH)
        if times <= HELD_S and times <= LINEAR * small:
            return None
    return f"{grown}: {times * 1000:.0f} ms, {small * 1000:.0f} ms for a quarter"


OPERATIONS = DOCUMENT.by_operation()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_field_or_parameter_holds_the_loop(local: Local, steps: Steps, operation: str) -> None:
    tried = OPERATIONS[operation]
    assert tried
    assert [fault for grown in tried if (fault := slow(local, steps, grown)) is not None] == []


HEADERS = {
    *("accept", "accept-encoding", "authorization", "content-type", "cookie", "if-none-match", "if-range", "origin"),
    *("range", "traceparent", "user-agent", "x-api-key", "x-forwarded-for", "x-forwarded-proto", "x-request-id"),
    *("x-source", "x-offset", "hx-request", "access-control-request-headers"),
}
VALUES = {
    **{text: _repeated("", text) for text in ("1", "a,", "::1,", "127.0.0.1,", ";", "a=b;", "a=b; ", "q=.1,", "%41")},
    "ranges": lambda size: "bytes=" + ",".join(f"{n}-{n}" for n in range(size // 10)),
    "many parts": lambda size: "application/json" + ";a=b" * (size // 4),
}


@pytest.mark.parametrize(
    "route", ["GET /recommend/u", "POST /ratings", "GET /metrics", "GET /docs/favicon.png", "GET /console/overview"]
)
def test_no_header_holds_the_loop(local: Local, steps: Steps, route: str) -> None:
    method, path = route.split(" ")
    tried = [
        Grown(method, path, f"{name}: {value}", MAX_HEADER, _in_header(name, grow))
        for name in sorted(HEADERS)
        for value, grow in VALUES.items()
    ]
    assert [fault for grown in tried if (fault := slow(local, steps, grown)) is not None] == []


@pytest.mark.parametrize("page", ["login", "retrain", "activate", "cancel", "logout"])
def test_no_field_of_a_form_holds_the_loop(local: Local, steps: Steps, page: str) -> None:
    with_token = re.search(r'name="token" value="([^"]+)"', (shown := local.get("/console/models")).text)
    assert with_token is not None
    cookie = {"cookie": "; ".join(f"{name}={value}" for name, value in shown.cookies.items())}
    kind = {"content-type": "application/x-www-form-urlencoded"}
    fields = ("token", "key", "algorithm", "name", "param.n_factors", "version", "job", "unknown")
    shapes = {f"{name}: {shape}": _repeated(f"&{name}=", text) for name in fields for shape, text in LETTERS.items()}
    shapes |= {"names": filled(lambda n: f"&n{n}=1", "", ""), "params": filled(lambda n: f"&param.{n}=1", "", "")}
    token = f"token={quote(html.unescape(with_token[1]))}"
    headers = kind | cookie

    def in_form(grow: Callable[[int], str]) -> Callable[[int], dict[str, Any]]:
        return lambda size: {"content": (token + grow(size)).encode(), "headers": headers}

    tried = [Grown("POST", f"/console/{page}", what, MAX_BYTES, in_form(grow)) for what, grow in shapes.items()]
    assert [fault for grown in tried if (fault := slow(local, steps, grown)) is not None] == []
