"""Bodies, headers, query strings and stream entries that are nearly right: documented answers, and no other.

`tests/service/api/openapi/test_openapi.py` asks what the OpenAPI document allows (schemathesis); here a
corpus of good requests is bent, byte by byte and value by value.
"""

import contextlib
import copy
import http.client
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from service.storage.errors import BadEntry, NewerEntry
from service.storage.events import Entry, StreamId, parse_entry
from service.storage.streams.redis_server import RedisServer
from tests.faults import results
from tests.service.keys import RATINGS
from tests.service.process import Service
from tests.service.waiting import eventually

OLD = Path(__file__).parents[1] / "service" / "data-57eaa35" / "data"
FUZZ = settings(
    max_examples=max(300, 20 * results.TRIALS),
    derandomize=not results.IS_LONG,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
DOCUMENTED = {200, 202, 400, 403, 404, 405, 409, 413, 414, 415, 422, 431, 503}
BODIES: list[tuple[str, Any]] = [
    ("/ratings", {"user": "u1", "item": "i1", "rating": 4.5, "timestamp": 1.7e9}),
    ("/ratings", [{"user": "u1", "item": "i1", "rating": 4.5}, {"user": "ü", "item": "x", "rating": -1}]),
    ("/recommend", {"users": ["u1", "u2"], "n": 3, "offset": 1, "min_ratings": 2, "model": "als"}),
    ("/recommend", {"ratings": [{"item": "i1", "rating": 5}], "candidates": ["i1", "i2"], "explain": True}),
    ("/recommend/u1", {"n": 3, "exclude": ["i1"], "include_seen": True, "wait_for": "1-0", "fallback": "none"}),
    ("/admin/retrain", {"algorithm": "als", "params": {"n_factors": 8, "n_epochs": 1}, "activate": False}),
]
QUERIES = [
    "/recommend/u1?n=3&offset=1&exclude=i1&include_seen=true&explain=true&model=als&min_ratings=1",
    "/popular?n=3&offset=1&min_ratings=1&wait_for=1-0",
    "/items/i1/neighbors?n=3&model=culsh",
    "/users/u1/neighbors?n=3",
    "/users/u1/ratings?n=2",
    "/estimate/u1/i1?model=als",
    "/admin/jobs",
    "/admin/models?wait_for=1-0",
]
HEADERS = [
    ("Content-Type", "application/json"),
    ("Content-Length", "2"),
    ("Transfer-Encoding", "chunked"),
    ("X-API-Key", "k"),
    ("Host", "localhost"),
    ("Origin", "http://localhost"),
    ("X-Request-ID", "abc"),
    ("X-Forwarded-For", "1.2.3.4"),
    ("Accept", "application/openmetrics-text"),
    ("Expect", "100-continue"),
    ("Connection", "close"),
]
ABSURD = st.sampled_from(
    [
        *("1e400", "-1e400", "NaN", "Infinity", "9" * 400, "9" * 5000, "1e-400", "-0.0", "9223372036854775808"),
        *('"1e400"', '""', '"\\ud800"', '"\\u0000"', '"' + "x" * 300 + '"'),
        *("null", "true", "[]", "{}", "[[[[[[]]]]]]", '{"a":{"b":[1]}}'),
    ]
)
Headers = tuple[tuple[str, str], ...]
EDITS = st.lists(st.tuples(st.floats(0, 1), st.sampled_from("fdir"), st.binary(min_size=1, max_size=4)), max_size=4)


def bent(intact: bytes, edits: list[tuple[float, str, bytes]]) -> bytes:
    """`intact` with bytes flipped, deleted, inserted, or everything behind a place repeated."""
    for where, kind, new in edits:
        place = int(where * len(intact))
        middle = {"f": new + intact[place + len(new) :], "d": intact[place + len(new) :], "i": new + intact[place:]}
        intact = intact[:place] + (middle.get(kind) or 2 * intact[place:])
    return intact


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a document with each of its keys."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        yield document, key
        if isinstance(value, dict | list):
            yield from places(value)


def with_absurd(document: Any, which: float, absurd: str) -> bytes:
    """The document as JSON, one of its values replaced by the text `absurd`."""
    document = copy.deepcopy(document)
    found = list(places(document))
    container, key = found[int(which * len(found))]
    container[key] = "@@"
    return json.dumps(document).replace('"@@"', absurd).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With the models of an older version, all of which answer."""
    data = tmp_path_factory.mktemp("fuzz") / "data"
    shutil.copytree(OLD, data)
    running = Service(data, backend="host", worker=False, log_level="error")
    yield running
    assert running.get("/health/ready").status_code == 200
    running.kill()


def send(
    service: Service, method: str, path: str, body: bytes = b"", headers: Headers = (), timeout_s: float = 20
) -> None:
    """Send it as it is, and check the answer."""
    named = {name.lower() for name, _ in headers}
    url = service.client.base_url
    connection = http.client.HTTPConnection(url.host, url.port or 80, timeout=timeout_s)
    try:
        connection.putrequest(method, path, skip_host="host" in named, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        if body and not named & {"content-length", "transfer-encoding"}:
            connection.putheader("Content-Length", str(len(body)))
        if body and "content-type" not in named:
            connection.putheader("Content-Type", "application/json")
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
    except (http.client.HTTPException, ConnectionError, ValueError):
        return  # not a request, or one whose end the service did not wait for
    finally:
        connection.close()
    check(answer.status, answer.headers.get("content-type", ""), content)


def check(status: int, kind: str, content: bytes) -> None:
    assert status in DOCUMENTED, (status, content)
    if status >= 400 and content:
        assert kind.startswith("application/problem+json"), content
        problem = json.loads(content)
        assert problem["status"] == status
        assert status != 503 or problem["type"].endswith("not-seen-yet"), content


@FUZZ
@given(st.sampled_from(BODIES), EDITS)
@example(BODIES[0], [(0.0, "i", b"\xff")])
def test_bodies_that_are_bent(service: Service, seed: tuple[str, Any], edits: list[tuple[float, str, bytes]]) -> None:
    send(service, "POST", seed[0], bent(json.dumps(seed[1]).encode(), edits))


@FUZZ
@given(st.sampled_from(BODIES), st.floats(0, 1, exclude_max=True), ABSURD)
def test_bodies_with_an_absurd_value(service: Service, seed: tuple[str, Any], which: float, absurd: str) -> None:
    send(service, "POST", seed[0], with_absurd(seed[1], which, absurd))


@FUZZ
@given(st.sampled_from(QUERIES), EDITS, st.sampled_from(["GET", "DELETE", "PUT", "POST", "HEAD"]))
@example("/popular?min_ratings=" + "9" * 400, [], "GET")
@example("/recommend/u1?model=als&min_ratings=" + "9" * 30, [], "GET")
def test_queries_that_are_bent(
    service: Service, query: str, edits: list[tuple[float, str, bytes]], method: str
) -> None:
    path = bent(query.encode(), edits).decode("latin-1")
    if method == "GET" or "/admin/" not in path:
        send(service, method, "".join(char if "!" <= char <= "~" else f"%{ord(char):02X}" for char in path))


@FUZZ
@given(
    st.lists(st.tuples(st.sampled_from(HEADERS), EDITS), max_size=6),
    st.sampled_from(["/popular", "/ratings", "/metrics", "/recommend/u1"]),
)
def test_headers_that_are_bent(
    service: Service, headers: list[tuple[tuple[str, str], list[tuple[float, str, bytes]]]], path: str
) -> None:
    chosen = tuple((name, bent(value.encode(), edits).decode("latin-1")) for (name, value), edits in headers)
    method, body = ("POST", b"{}") if path == "/ratings" else ("GET", b"")
    with contextlib.suppress(TimeoutError):  # a length that is longer than what follows
        send(service, method, path, body, tuple(one for one in chosen if one[0] != "Content-Length" or body), 0.5)


FIELDS = st.dictionaries(
    st.sampled_from([b"v", b"ratings", b"forget", b"hide", b"show", b"other"]), st.binary(max_size=20), max_size=3
)
RATED = json.dumps([{"user": "u1", "item": "i1", "rating": 3, "timestamp": 1.0}]).encode()


@FUZZ
@given(st.one_of(FIELDS, EDITS.map(lambda edits: {b"v": b"1", b"ratings": bent(RATED, edits)})))
def test_entries_that_are_bent_are_read_or_refused(fields: dict[bytes, bytes]) -> None:
    with contextlib.suppress(BadEntry, NewerEntry):
        assert isinstance(parse_entry(StreamId(1, 0), fields), Entry)


def test_a_stream_with_bent_entries_is_read_to_its_end(service: Service) -> None:
    with redis.Redis.from_url(RedisServer(service.data).url) as client:
        for place in range(0, len(RATED), 2):
            client.xadd(RATINGS, {"v": "1", "ratings": bent(RATED, [(place / len(RATED), "f", b"\xff")])})
            client.xadd(RATINGS, {"v": "1", "ratings": with_absurd(json.loads(RATED), 0.6, "1e400")})
    last = service.rate(("after", "i1", 4.0))
    assert len(service.get("/users/after/ratings", wait_for=last).json()["ratings"]) == 1
    eventually(lambda: service.get("/health/ready").status_code == 200, 60)
