"""Types, encodings and lengths of bodies, and what routes make of them."""

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.api.door.test_gateway import Caller
from tests.service.local import Local, serving

PACKED = {"content-encoding": "gzip"}
RATING = {"user": "u", "item": "a", "rating": 4}
BODIES: dict[str, list[Any]] = {
    "/ratings": [RATING, RATING | {"rating": "x"}, RATING | {"item": "b", "timestamp": "2023-11-14T22:13:20Z"}],
    "/events": [{"user": "u", "item": "a", "type": "view"}, {"user": "u"}, {"user": "v", "item": "a", "type": "cart"}],
    "/items": [{"item": "a"}, {"item": ""}, {"item": "b", "tags": {"genre": ["x"]}}],
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with serving(tmp_path_factory.mktemp("bodies") / "data", max_body_bytes=4096) as local:
        yield local


def as_lines(elements: list[Any]) -> bytes:
    return b"".join(json.dumps(element).encode() + b"\n" for element in elements)


def post(app: Local, path: str, content: bytes, **headers: str) -> Any:
    kind = {"content-type": headers.pop("kind", "application/json")}
    return app.request(
        "POST", path, content=content, headers=kind | {n.replace("_", "-"): v for n, v in headers.items()}
    )


@pytest.mark.parametrize("path", BODIES)
def test_an_array_and_lines_packed_or_not_are_one_body(app: Local, path: str) -> None:
    elements = BODIES[path]
    array, lines = json.dumps(elements).encode(), as_lines(elements)
    answers = [
        post(app, path, array),
        post(app, path, gzip.compress(array), content_encoding="gzip"),
        post(app, path, gzip.compress(array), content_encoding="X-GZIP", kind="application/json; charset=utf-8"),
        post(app, path, array, content_encoding="identity"),
        post(app, path, lines, kind="application/x-ndjson"),
        post(app, path, gzip.compress(lines), content_encoding="gzip", kind="application/x-ndjson; charset=utf-8"),
    ]
    documents = [answer.json() for answer in answers]
    assert [answer.status_code for answer in answers] == [202] * 6, documents
    assert [document["accepted"] for document in documents] == [2] * 6
    faults = [document["rejected"] for document in documents]
    assert [len(one) for one in faults] == [1] * 6
    assert [one[0].pop("line", None) for one in faults] == [None] * 4 + [2] * 2
    assert all(one == faults[0] for one in faults)


def test_a_time_is_stored_as_seconds(app: Local) -> None:
    answer = post(
        app,
        "/ratings",
        as_lines([RATING | {"user": "t", "timestamp": "2023-11-14T22:13:20Z"}]),
        kind="application/x-ndjson",
    )
    stored = app.get("/users/t/ratings", wait_for=answer.json()["stream_id"]).json()["ratings"]
    assert [rating["timestamp"] for rating in stored] == [1.7e9]


def test_every_body_may_be_packed(app: Local) -> None:
    body = gzip.compress(b'{"users": ["u", "v"], "n": 1}')
    assert len(post(app, "/recommend", body, content_encoding="gzip").json()) == 2
    assert post(app, "/recommend", body[:-9], content_encoding="gzip").status_code == 400


@pytest.mark.parametrize(
    ("path", "kind", "encoding", "reason"),
    [
        ("/ratings", "text/plain", "gzip", "Type: expected application/json or application/x-ndjson, got text/plain"),
        ("/items", "multipart/form-data", "", "Type: expected application/json or application/x-ndjson, got"),
        ("/recommend", "application/x-ndjson", "", "Type: expected application/json, got application/x-ndjson"),
        ("/ratings", "application/x-ndjson", "br", "Encoding: expected gzip or none, got br"),
        ("/ratings", "application/json", "gzip, gzip", "Encoding: expected gzip or none, got gzip, gzip"),
    ],
)  # fmt: skip
def test_other_types_and_encodings_are_refused_with_what_is_accepted(
    app: Local, path: str, kind: str, encoding: str, reason: str
) -> None:
    headers = {"content_encoding": encoding} if encoding else {}
    answer = post(app, path, b"{}", kind=kind, **headers)
    assert (answer.status_code, answer.json()["type"]) == (415, "urn:nearfield:problem:unsupported-media-type")
    assert answer.json()["detail"].startswith(f"Invalid Content-{reason}")


def test_lines_of_another_site_are_refused(app: Local) -> None:
    answer = post(app, "/ratings", as_lines([RATING]), kind="application/x-ndjson", origin="http://evil.example")
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:nearfield:problem:foreign-site")


WHOLE = gzip.compress(json.dumps(RATING).encode(), mtime=0)  # the same bytes in each process of a test run


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (json.dumps(RATING).encode(), "expected gzip, got something else"),
        (zlib.compress(b"{}"), "expected gzip, got something else"),
        (WHOLE[:-1], "expected one member of gzip, got its beginning only"),
        (WHOLE + WHOLE, "expected one member of gzip, got more after it"),
        (WHOLE[:-8] + b"\0" * 8, "incorrect data check"),
    ],
)
def test_a_damaged_packed_body_is_malformed(app: Local, content: bytes, reason: str) -> None:
    answer = post(app, "/ratings", content, content_encoding="gzip")
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:nearfield:problem:malformed-body")
    assert reason in answer.json()["detail"]


@pytest.mark.parametrize(("n_bytes", "status"), [(4096, 202), (4097, 413)])
def test_the_limit_holds_for_what_is_unpacked(app: Local, n_bytes: int, status: int) -> None:
    content = json.dumps([RATING]).encode().ljust(n_bytes)
    answer = post(app, "/ratings", gzip.compress(content), content_encoding="gzip")
    assert answer.status_code == status, answer.text
    assert (
        status == 202 or answer.json()["detail"] == "Invalid body: expected at most 4,096 bytes when unpacked, got more"
    )


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with serving(tmp_path_factory.mktemp("roomy") / "data") as local:
        yield local


@pytest.mark.parametrize("depth", [50, 40_000, 150_000])
@pytest.mark.parametrize("nested", [("[", "]"), ('{"a":', "}")])
def test_a_body_that_nests_deep_is_refused_on_every_python(roomy: Local, nested: tuple[str, str], depth: int) -> None:
    """Python 3.14 reads up to 65,000 levels, earlier versions 1,000; no answer quotes their errors."""
    content = (nested[0] * depth + "1" + nested[1] * depth).encode()
    single = [post(roomy, path, content) for path in ("/recommend/u01", "/ratings", "/items")]
    lines = [post(roomy, path, content, kind="application/x-ndjson") for path in ("/ratings", "/items")]
    assert {one.status_code for one in single} <= {202, 400, 413, 422}
    assert not any(one.json()["accepted"] for one in [*single, *lines] if one.status_code == 202)
    assert [len(one.json()["rejected"]) for one in lines] == [1, 1]
    told = " ".join(one.text for one in [*single, *lines]).lower()
    assert not {"recursion", "overflow"} & set(told.split())
    assert roomy.request("GET", "/popular").status_code == 200


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(bytes(64 << 20), compresslevel=9)
    call = Caller(max_body_bytes=1 << 20)
    tracemalloc.start()
    answer = call("POST", "/length", content=bomb, headers=PACKED)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert peak < 16 << 20


def test_a_packed_body_without_a_length_is_bounded_too() -> None:
    async def pieces(content: bytes):
        for start in range(0, len(content), 100):
            yield content[start : start + 100]

    call = Caller(max_body_bytes=10_000)
    assert call("POST", "/length", content=pieces(gzip.compress(bytes(10_000))), headers=PACKED).text == "10000"
    assert call("POST", "/length", content=pieces(gzip.compress(bytes(10_001))), headers=PACKED).status_code == 413
    assert (
        call(
            "POST", "/length", content=pieces(gzip.compress(Path(__file__).read_bytes() * 2)), headers=PACKED
        ).status_code
        == 413
    )


@pytest.mark.parametrize(("path", "element"), [("/ratings", {"rating": 1}), ("/events", {"type": "purchase"})])
def test_a_batch_that_is_delivered_again_is_skipped(app: Local, path: str, element: dict[str, Any]) -> None:
    user = f"reader-of{path[1:]}"
    lines, source = as_lines([{"user": user, "item": "a"} | element]), {"x_source": f"kafka:{user}/0", "x_offset": "9"}
    assert post(app, path, lines, kind="application/x-ndjson", **source).status_code == 202
    post(app, "/ratings", json.dumps({"user": user, "item": "a", "rating": 5}).encode())
    again = post(app, path, lines, kind="application/x-ndjson", **source)
    assert (again.status_code, again.json()["accepted"], again.json()["skipped"]) == (202, 1, 1)
    stored = app.get(f"/users/{user}/ratings", wait_for=again.json()["stream_id"]).json()["ratings"]
    assert [rating["rating"] for rating in stored] == [5.0]


@pytest.mark.parametrize(
    "source",
    [("kafka:t/0", None), (None, "1"), ("t", "-1"), ("", "1"), ("t", "many"), ("t", str(2**63)), ("t" * 257, "1")],
)
def test_half_a_source_is_refused(app: Local, source: tuple[str | None, str | None]) -> None:
    named = zip(("x_source", "x_offset"), source, strict=True)
    headers = {name: value for name, value in named if value is not None}
    assert post(app, "/ratings", json.dumps([RATING]).encode(), **headers).status_code == 422
