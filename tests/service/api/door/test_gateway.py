"""The outermost layer: ids of requests, keys before bodies, limits, raw paths, hot lanes, counts."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response
from structlog.testing import capture_logs

from service.api.door.gateway import Gateway
from service.api.door.rate_limit import Limits
from service.api.door.route import Call, Route, RouteTable
from service.base.errors import NotReady, Overloaded
from service.settings.settings import Settings
from service.telemetry.logs import BURST_LINES
from service.telemetry.metrics import Metrics

JSON = {"content-type": "application/json"}

KEY = "key-of-every-client"
SLOW = 0.01  # requests per second: no second one in time, however slow the machine is


def inner() -> APIRouter:
    app = APIRouter(route_class=Route)

    @app.get("/echo/{name}")
    async def echo(name: str) -> Response:
        return PlainTextResponse(name)

    @app.post("/length", status_code=201)
    async def length(request: Call) -> bytes:
        return str(len(request.content)).encode()

    @app.get("/health/ready")
    @app.get("/busy")
    async def ready() -> bytes:
        raise NotReady("the log is being read")

    @app.get("/crash")
    async def crash() -> bytes:
        raise RuntimeError("boom")

    @app.get("/break-off")
    async def break_off() -> Response:
        return BreaksOff("half of it")

    return app


class BreaksOff(PlainTextResponse):
    """Fails when it has begun."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("boom")


class Caller:
    """Sends requests to a door in this process."""

    def __init__(self, **settings):
        self.metrics = Metrics()
        known = Settings(**settings)
        self.door = Gateway(RouteTable(inner().routes), known, self.metrics, Limits.of(known))

    def __call__(self, method, path, **options):
        async def send():
            transport = httpx.ASGITransport(self.door, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, **options | {"headers": JSON | options.get("headers", {})})

        return asyncio.run(send())

    def counted(self, method, route, status):
        labels = {"method": method, "route": route, "status": str(status)}
        return self.metrics.registry.get_sample_value("nearfield_requests_total", labels)


def test_every_answer_has_a_request_id_of_its_own():
    call = Caller()
    first, second = call("GET", "/echo/a"), call("GET", "/echo/a")
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


def test_request_id_of_the_client_is_echoed():
    call = Caller()
    assert call("GET", "/echo/a", headers={"X-Request-ID": "abc-1"}).headers["x-request-id"] == "abc-1"


@pytest.mark.parametrize("bad", ["x" * 129, "a b", "tab\there"])
def test_a_strange_request_id_is_replaced(bad):
    assert Caller()("GET", "/echo/a", headers={"X-Request-ID": bad}).headers["x-request-id"] != bad


@pytest.mark.parametrize("raw", ["a%2Fb", "%C3%BC", "%252F", "..", "a+b"])
def test_routing_is_on_the_raw_path(raw):
    """A percent-encoded slash does not split an id, and nothing is decoded twice."""
    scope_path = f"/echo/{raw}".encode()
    sent = []

    async def ask():
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": "/echo/whatever",
            "raw_path": scope_path,
            "query_string": b"",
            "headers": [],
            "client": None,
            "http_version": "1.1",
            "scheme": "http",
            "server": ("test", 80),
        }

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        await Caller().door(scope, receive, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 200
    assert sent[1]["body"] == raw.encode()


def test_key_is_checked_before_the_body():
    call = Caller(api_key=KEY, max_body_bytes=10)
    answer = call("POST", "/length", content=b"x" * 11)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert call("POST", "/length", content=b"x" * 10, headers={"X-API-Key": KEY}).text == "10"


@pytest.mark.parametrize(
    ("headers", "status", "challenges"),
    [
        ({}, 401, ["X-API-Key", "Bearer"]),
        ({"Authorization": "Bearer"}, 401, ["X-API-Key", "Bearer"]),
        ({"X-API-Key": "guess"}, 401, ["X-API-Key", "Bearer"]),
        ({"X-API-Key": "guess", "Authorization": f"Bearer {KEY}"}, 401, ["X-API-Key", "Bearer"]),
        ({"Authorization": "Bearer guess"}, 401, ["X-API-Key", 'Bearer error="invalid_token"']),
        ({"X-API-Key": KEY}, 403, []),
        ({"Authorization": f"Bearer {KEY}"}, 403, ['Bearer error="insufficient_scope"']),
    ],
)
def test_a_refusal_challenges_for_the_key_and_the_way_it_came(headers, status, challenges):
    answer = Caller(write_key=KEY)("GET", "/echo/a", headers=headers)
    assert answer.status_code == status
    assert answer.headers.get_list("www-authenticate") == challenges
    assert answer.json()["detail"].startswith("Invalid key: expected a key ")


def test_a_long_body_is_refused_by_its_announced_length():
    answer = Caller(max_body_bytes=10)("POST", "/length", content=b"x" * 11)
    assert answer.status_code == 413
    assert answer.json()["detail"] == "Invalid body: expected at most 10 bytes, got 11"


def test_a_long_body_without_a_length_is_refused_when_it_gets_too_long():
    async def chunks():
        for _ in range(3):
            yield b"xxxx"

    assert Caller(max_body_bytes=10)("POST", "/length", content=chunks()).status_code == 413


def test_rate_limit_answers_with_retry_after():
    call = Caller(rate_limit_per_s=SLOW)
    assert call("GET", "/echo/a").status_code == 200
    answer = call("GET", "/echo/a")
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1


def test_keys_cannot_be_guessed_faster_than_the_rate():
    call = Caller(rate_limit_per_s=SLOW, api_key=KEY)
    guesses = [call("GET", "/echo/a", headers={"X-API-Key": f"guess-{number}"}).status_code for number in range(5)]
    assert guesses == [401, 429, 429, 429, 429]


def statuses_under_other_names(call):
    """Of requests that each claim to come from another address."""
    names = [{"X-Forwarded-For": f"203.0.113.{number}"} for number in range(5)]
    return [call("GET", "/echo/a", headers=name).status_code for name in names]


def test_a_client_cannot_escape_the_rate_by_naming_another():
    assert statuses_under_other_names(Caller(rate_limit_per_s=SLOW)) == [200, 429, 429, 429, 429]


def test_clients_of_a_trusted_proxy_have_a_rate_each():
    call = Caller(rate_limit_per_s=SLOW, trusted_proxies="127.0.0.0/8")
    assert statuses_under_other_names(call) == [200] * 5
    assert statuses_under_other_names(call) == [429] * 5


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}])
def test_without_keys_another_sites_page_is_refused(headers):
    call = Caller()
    for method, path in (("GET", "/echo/a"), ("POST", "/length"), ("GET", "/nowhere")):
        answer = call(method, path, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:nearfield:problem:foreign-site")
        assert "NEARFIELD_API_KEY" in answer.json()["detail"]
        assert answer.headers["connection"] == "close"


def test_with_keys_any_name_will_do():
    call = Caller(api_key=KEY)
    headers = {"Host": "nearfield.example", "Origin": "http://app.example", "X-API-Key": KEY}
    assert call("GET", "/echo/a", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "application/json", 201),
        (b"{}", "application/json; charset=utf-8", 201),
        (b"{}", "text/plain", 415),
        (b"{}", "text/plain; application/json", 415),
        (b"", "text/plain", 201),
    ],
)
def test_bodies_are_json(content, kind, status):
    answer = Caller()("POST", "/length", content=content, headers={"content-type": kind})
    assert answer.status_code == status


def test_a_body_without_a_length_is_json_too():
    async def chunks():
        yield b"{}"

    assert Caller()("POST", "/length", content=chunks(), headers={"content-type": "text/plain"}).status_code == 415


def test_refusals_are_logged_at_a_bounded_rate(capsys):
    call = Caller(api_key=KEY)
    for _ in range(2 * BURST_LINES):
        call("GET", "/echo/a")
    assert BURST_LINES <= capsys.readouterr().out.count("status=401") < 1.5 * BURST_LINES
    assert call.counted("GET", "refused", 401) == 2 * BURST_LINES


def test_a_raw_refusal_is_a_whole_response():
    call = Caller()
    head, body = call.door.raw_refusal(Overloaded("too many")).split(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 503 Service Unavailable"
    headers = dict(line.split(": ") for line in lines[1:])
    assert headers["connection"] == "close"
    assert headers["retry-after"] == "1"
    assert int(headers["content-length"]) == len(body)
    assert json.loads(body)["request_id"] == headers["x-request-id"]
    assert call.counted("other", "refused", 503) == 1


def test_a_crash_is_a_problem_document_without_details():
    answer = Caller()("GET", "/crash")
    assert answer.status_code == 500
    assert "boom" not in answer.text
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_json_has_the_status_of_its_route_and_the_id_of_its_request():
    answer = Caller()("POST", "/length", content=b"{}")
    assert (answer.status_code, answer.text) == (201, "2")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]


def test_a_response_that_breaks_off_is_counted_and_logged_and_not_completed():
    call = Caller()
    with capture_logs() as lines, pytest.raises(Exception):  # noqa: B017 (the client's transport, of half an answer)
        call("GET", "/break-off")
    assert call.counted("GET", "/break-off", 200) == 1
    assert [line["event"] for line in lines] == ["request failed"]


def test_requests_are_counted_by_route_and_not_by_id():
    call = Caller()
    for name in "abc":
        call("GET", f"/echo/{name}")
    call("GET", "/nowhere/1")
    assert call.counted("GET", "/echo/{name}", 200) == 3
    assert call.counted("GET", "unknown", 404) == 1


SHOP = {"Origin": "https://shop.example"}
PREFLIGHT = {"Access-Control-Request-Method": "GET"}


def test_without_the_setting_no_answer_knows_origins():
    call = Caller(api_key=KEY)
    for method in ("GET", "OPTIONS"):
        answer = call(method, "/echo/a", headers=SHOP | PREFLIGHT)
        assert answer.status_code == 401
        assert not [name for name in answer.headers if name.startswith("access-control-") or name == "vary"]


def test_preflights_are_counted_and_limited_and_a_page_can_read_that():
    call = Caller(api_key=KEY, cors_origins="https://shop.example", rate_limit_per_s=SLOW)
    assert call("OPTIONS", "/echo/a", headers=SHOP | PREFLIGHT).status_code == 204
    assert call.counted("OPTIONS", "preflight", 204) == 1
    for method in ("GET", "OPTIONS"):
        answer = call(method, "/echo/a", headers=SHOP | PREFLIGHT)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (429, SHOP["Origin"])


def test_any_page_is_allowed_with_a_key_alone():
    with_key, without = Caller(api_key=KEY, cors_origins="*"), Caller(cors_origins="*")
    answer = with_key("GET", "/echo/a", headers=SHOP | {"X-API-Key": KEY})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")
    assert without("GET", "/echo/a", headers=SHOP).status_code == 403
    assert without("GET", "/echo/a").status_code == 200


def test_pages_that_are_named_are_allowed_without_keys_too():
    call = Caller(cors_origins="https://shop.example")
    assert call("GET", "/echo/a", headers=SHOP).status_code == 200
    assert call("GET", "/echo/a", headers={"Origin": "https://evil.example"}).status_code == 403
    assert call("GET", "/echo/a", headers=SHOP | {"Host": "rebound.example"}).status_code == 403


def test_a_question_that_is_no_preflight_takes_the_usual_path():
    call = Caller(api_key=KEY, cors_origins="https://shop.example")
    assert call("OPTIONS", "/echo/a", headers=SHOP).status_code == 401
    assert call("OPTIONS", "/echo/a", headers=PREFLIGHT).status_code == 401


def test_a_probe_that_is_told_to_wait_is_no_warning():
    call = Caller()
    with capture_logs() as lines:
        for path, status in (("/health/ready", 503), ("/health/nothing", 404), ("/busy", 503)):
            assert call("GET", path).status_code == status
    of_requests = [(line["path"], line["log_level"]) for line in lines if line["event"] == "request"]
    assert of_requests == [("/health/ready", "debug"), ("/health/nothing", "info"), ("/busy", "warning")]
