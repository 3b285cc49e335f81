"""What HTTP answers, with everything behind it running."""

import json
import re
import threading
import time
from importlib import metadata

import pytest
from prometheus_client.openmetrics import parser as openmetrics

from service.api.openapi import document as openapi
from service.storage import key_file
from service.storage.errors import DataInUse
from service.storage.streams.redis_server import RedisServer
from service.telemetry.metrics import CACHED_S
from tests.service.local import Local, serving
from tests.service.waiting import eventually

KEYS = {"api_key": "key-of-every-client", "admin_key": "key-of-the-admins"}


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("app") / "data") as local:
        local.get("/popular", wait_for=local.rate(("u", "x", 5.0), ("u", "y", 3.0), ("v", "x", 4.0)))
        yield local


def problem(answer):
    """The last part of the type of a problem document, which must be complete."""
    document = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert document["status"] == answer.status_code
    assert document["request_id"] == answer.headers["x-request-id"]
    assert document["title"]
    assert document["detail"]
    return document["type"].rsplit(":", 1)[-1]


@pytest.mark.parametrize(
    ("method", "path", "status", "name"),
    [
        ("GET", "/nowhere", 404, "not-found"),
        ("GET", "/recommend/", 404, "not-found"),
        ("GET", "/recommend/u/", 404, "not-found"),
        ("GET", "/ratings", 405, "method-not-allowed"),
        ("PUT", "/recommend/u", 405, "method-not-allowed"),
        ("GET", "/recommend/u?m=5", 422, "invalid-request"),
        ("GET", "/recommend/u?n=", 422, "invalid-request"),
        ("GET", "/recommend/u?n=0", 422, "invalid-request"),
        ("GET", "/recommend/u?n=1001", 422, "invalid-request"),
        ("GET", "/recommend/u?offset=-1", 422, "invalid-request"),
        ("GET", "/recommend/u?include_seen=perhaps", 422, "invalid-request"),
        ("GET", "/recommend/u?fallback=oldest", 422, "invalid-request"),
        ("GET", "/recommend/u?exclude=", 422, "invalid-request"),
        ("GET", "/recommend/%FF", 422, "invalid-request"),
        ("GET", f"/recommend/{'x' * 257}", 422, "invalid-request"),
        ("GET", "/recommend/u?model=nothing", 404, "unknown-model"),
        ("GET", "/recommend/nobody?fallback=none", 404, "unknown-user"),
        ("GET", "/recommend/u?wait_for=5", 422, "invalid-request"),
        ("GET", "/recommend/u?wait_for=99999999999999999999-0", 422, "invalid-request"),
        ("GET", "/popular?n=5&surprise=1", 422, "invalid-request"),
        ("GET", "/popular?min_ratings=-1", 422, "invalid-request"),
        ("GET", "/recommend/u?min_ratings=few", 422, "invalid-request"),
        ("GET", "/users/nobody/ratings", 404, "unknown-user"),
        ("GET", "/users/u/ratings?page=1", 422, "invalid-request"),
        ("GET", "/items/x/neighbors", 404, "unknown-model"),
        ("GET", "/estimate/u/x", 404, "unknown-model"),
        ("GET", "/health/live?verbose=1", 422, "invalid-request"),
        ("GET", "/metrics?verbose=1", 422, "invalid-request"),
        ("GET", "/admin/jobs?state=running", 422, "invalid-request"),
        ("GET", "/admin/jobs/nothing", 404, "unknown-job"),
        ("DELETE", "/admin/jobs/nothing", 404, "unknown-job"),
        ("POST", "/admin/models/culsh-20200101T000000-abcd/activate", 404, "unknown-version"),
        ("POST", "/admin/models/..%2F..%2Fratings/activate", 404, "unknown-version"),
        ("POST", "/ratings?async=1", 422, "invalid-request"),
        ("POST", "/recommend/u?n=5", 422, "invalid-request"),
    ],
)
def test_errors_are_problem_documents(app, method, path, status, name):
    answer = app.request(method, path)
    assert (answer.status_code, problem(answer)) == (status, name)


def test_a_refused_method_is_answered_by_all_that_are_allowed(app):
    allowed = {path: app.request("PUT", path).headers["allow"] for path in ("/items", "/items/a", "/ratings")}
    assert allowed == {"/items": "GET, HEAD, PATCH, POST", "/items/a": "DELETE, GET, HEAD, PATCH", "/ratings": "POST"}


@pytest.mark.parametrize(
    ("path", "body", "status", "name"),
    [
        ("/ratings", b"", 400, "malformed-body"),
        ("/ratings", b'{"user": "u"', 400, "malformed-body"),
        ("/ratings", b'"text"', 400, "malformed-body"),
        ("/ratings", b"\xff", 400, "malformed-body"),
        ("/ratings", b'{"user": "u", "item": "x"}', 422, "invalid-request"),
        ("/ratings", b'{"user": "u", "item": "x", "rating": NaN}', 422, "invalid-request"),
        ("/ratings", b'{"user": "u", "item": "x", "rating": 1e400}', 422, "invalid-request"),
        ("/ratings", json.dumps({"user": "x" * 1_000_000, "item": "x", "rating": 1}).encode(), 422, "invalid-request"),
        ("/ratings", json.dumps([{}] * 1001).encode(), 422, "invalid-request"),
        ("/ratings", b" " * 10_000_000, 413, "body-too-large"),
        ("/recommend/u", b"{", 400, "malformed-body"),
        ("/recommend/u", b'{"filter": ' + b'{"not":' * 20_000, 400, "malformed-body"),
        ("/recommend/u", b"\xff", 400, "malformed-body"),
        ("/admin/lists", b'{"filter": {"tag": "nothing", "in": ["x"]}}', 422, "invalid-request"),
        ("/recommend/u", b" " * 10_000_000, 413, "body-too-large"),
        ("/recommend/u", b'{"surprise": 1}', 422, "invalid-request"),
        ("/recommend", b"{}", 422, "invalid-request"),
        ("/recommend", b'{"users": []}', 422, "invalid-request"),
        ("/recommend", b'{"users": ["u"], "ratings": [{"item": "x", "rating": 5}]}', 422, "invalid-request"),
        ("/admin/retrain", b'{"algorithm": "magic"}', 422, "invalid-request"),
        ("/admin/retrain", b'{"algorithm": "sgd", "params": {"n_factors": 0}}', 422, "invalid-request"),
        ("/admin/retrain", b'{"algorithm": "sgd", "params": {"n_neurons": 5}}', 422, "invalid-request"),
    ],
)
def test_bad_bodies_are_named(app, path, body, status, name):
    answer = app.request("POST", path, content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, problem(answer)) == (status, name)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "/recommend/u?fallback=old",
            "Invalid query.fallback: expected 'auto', 'popular', 'trending', 'latest' or 'none', got 'old'",
        ),
        ("/recommend/u?offset=-1", "Invalid query.offset: expected 0 or more, got '-1'"),
        ("/recommend/u?exclude=", "Invalid query.exclude.0: Invalid id: expected 1 to 256 bytes, got 0"),
        ("/recommend/u?m=5", "Invalid query.m: expected no such name"),
    ],
)
def test_messages_have_the_invalid_value(app, path, message):
    assert app.get(path).json()["detail"] == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "Invalid body: expected an object with either users, or ratings and events"),
        ({"user": ["u"]}, "Invalid body: expected an object with either users, or ratings and events"),
        ([], "Invalid body: expected an object with either users, or ratings and events"),
        ("u", "Invalid body: expected an object with either users, or ratings and events, got 'u'"),
        ({"users": ["u"], "ratings": []}, "Invalid body: expected an object with either users, or ratings and events"),
        ({"users": ["u"], "n": 0}, "Invalid body.n: expected 1 or more, got 0"),
        ({"users": ["u"], "order_half_life": 5}, "Invalid body.order_half_life: expected no such name"),
        ({"users": []}, "Invalid body.users: expected a list of 1 or more, got 0"),
        (
            {"ratings": [{"item": "x"}], "surprise": 1},
            "Invalid body.ratings.0.rating: expected a value, got none; Invalid body.surprise: expected no such name",
        ),
    ],
)
def test_messages_name_the_faults_of_the_body_that_was_sent(app, body, message):
    assert app.post("/recommend", body).json()["detail"] == message


def test_unknown_ids_of_filters_give_warnings(app):
    body = {"exclude": ["x", "no", "no"], "candidates": ["y", "a", "b", "c", "d"]}
    warnings = ["unknown items in exclude: 'no'", "unknown items in candidates: 'a', 'b', 'c' and 1 more"]
    for answer in (
        app.post("/recommend/u", body).json(),
        app.post("/recommend", {"users": ["u", "stranger"], **body}).json()[1],
        app.post("/recommend", {"ratings": [{"item": "x", "rating": 5}], **body}).json(),
    ):
        assert answer["warnings"][-2:] == warnings
    assert app.get("/recommend/u", exclude="no").json()["warnings"][-1:] == warnings[:1]
    assert not any("unknown" in one for one in app.get("/recommend/u", exclude="x").json()["warnings"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/recommend/u", {}),
        ("/recommend", {"users": ["u"]}),
        ("/recommend", {"ratings": [{"item": "x", "rating": 5}]}),
    ],
)
def test_a_body_can_wait(app, path, body):
    seen = app.rate(("u", "later", 5.0))
    answer = app.post(path, {**body, "wait_for": seen}).json()
    assert (answer[0] if isinstance(answer, list) else answer)["as_of"] >= seen
    refused = app.request("POST", path, json={**body, "wait_for": "99999999999999-0"})
    assert (refused.status_code, problem(refused)) == (503, "not-seen-yet")
    assert app.post(path, {**body, "wait_for": "soon"}).status_code == 422


def test_only_items_with_min_ratings_are_shown(app):
    seen = app.rate(("m1", "often", 5), ("m2", "often", 4), ("m3", "often", 1), ("m1", "seldom", 5))
    popular = app.get("/popular", min_ratings=3, n=1000, wait_for=seen).json()["items"]
    assert "often" in [one["item"] for one in popular]
    assert min(int(one["score"]) for one in popular) == 3
    body = {"n": 1000, "min_ratings": 3}
    answers = (
        app.get("/recommend/stranger", **body).json(),
        app.post("/recommend/stranger", body).json(),
        app.post("/recommend", {"users": ["stranger"], **body}).json()[0],
        app.post("/recommend", {"ratings": [{"item": "unheard-of", "rating": 5}], **body}).json(),
    )
    for answer in answers:
        assert answer["items"] == popular
    assert app.post("/recommend/u", {"min_ratings": -1}).status_code == 422


def test_a_missing_body_is_named(app):
    assert (
        app.request("POST", "/recommend/u", content=b"").json()["detail"] == "Invalid body: expected a value, got none"
    )


@pytest.mark.parametrize("path", ["/recommend/u", "/admin/jobs"])
def test_a_position_in_the_future_is_not_seen_yet(app, path):
    answer = app.request("GET", path, params={"wait_for": "9000000000000-0"})
    assert (answer.status_code, problem(answer)) == (503, "not-seen-yet")
    assert int(answer.headers["retry-after"]) >= 1


def test_the_hot_lane_and_the_route_behind_it_answer_alike(app):
    """A long query leaves the lane; what it says must not change."""
    short = app.get("/recommend/u", n=2, include_seen=True, exclude="nothing").json()
    padding = {"exclude": ["nothing"] * 60}
    long = app.get("/recommend/u", n=2, include_seen=True, **padding).json()
    for answer in (short, long):
        assert answer.pop("took_ms") >= 0
        assert answer.pop("request_id")
    assert short == long


def test_the_home_page_links_to_pages_that_exist(app):
    page = app.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert f"Version {metadata.version('nearfield')}" in page.text
    assert ">ready<" in page.text
    links = re.findall(r'href="([^"]+)"', page.text)
    assert len(links) >= 3
    statuses = {link: app.get(f"/{link}").status_code for link in links}
    assert statuses == dict.fromkeys(links, 200) | {"console": 303}
    assert app.request("HEAD", "/").content == b""


def test_without_keys_the_console_needs_no_login_but_tokens(app):
    page = app.get("/console/overview")
    assert (page.status_code, "Sign out" in page.text) == (200, False)
    assert app.get("/console/login").headers["location"] == "overview"
    for form in ({}, {"token": "another"}):
        assert app.request("POST", "/console/activate", data=form).status_code == 403
    for headers in ({"host": "shop.example"}, {"origin": "https://shop.example"}):
        refused = app.request("GET", "/console/models", headers=headers)
        assert (refused.status_code, problem(refused)) == (403, "foreign-site")
    (token,) = set(re.findall(r'name="token" value="([^"]+)"', app.get("/console/models").text))
    version = "als-20200101T000000-aaaa"
    unknown = app.request("POST", "/console/activate", data={"token": token, "version": version})
    assert (unknown.status_code, version in unknown.text) == (404, True)


def test_the_home_page_can_load_nothing_from_elsewhere(app):
    page = app.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "//" not in page.text.replace("<!doctype html>", "")


def test_documentation_is_served(app):
    docs = app.get("/docs")
    assert "swagger" in docs.text
    assert docs.headers["x-frame-options"] == "DENY", "no other site leads anybody to try requests"
    assert app.get("/openapi.json").json() == app.app.openapi()
    assert app.request("HEAD", "/openapi.json").status_code == 200


def test_the_description_is_not_encoded_for_each_request(app, monkeypatch):
    """It is open to everybody, and encoding it takes longer than answering a hundred other requests."""
    expected = app.get("/openapi.json").content
    monkeypatch.setattr(openapi, "document", None)
    assert app.get("/openapi.json", any="thing").content == expected


def test_metrics_are_not_rendered_for_each_request(app, monkeypatch):
    monkeypatch.setattr("service.telemetry.metrics.CACHED_S", 60.0)  # a second, on a machine that stands still
    app.get("/metrics")
    monkeypatch.setattr(app.runtime.metrics, "text", None)
    assert app.get("/metrics").status_code == 200


def test_counts_are_shown(app):
    text = app.get("/metrics").text
    assert 'nearfield_requests_total{method="POST",route="/ratings",status="202"}' in text
    assert "nearfield_freshness_seconds_bucket" in text
    assert "nearfield_ready 1.0" in text


def test_an_openmetrics_parser_reads_the_metrics(tmp_path):
    with serving(tmp_path / "data", backend="host") as app:
        app.rate(("u", "x", 5.0), ("u", "y", 3.0), ("v", "x", 4.0), ("w", "z", 1.0))
        app.request("PUT", "/admin/items/y/hidden")
        seen = app.request("DELETE", "/admin/users/w").json()["stream_id"]
        app.get("/popular", wait_for=seen)
        assert app.retrain("als", params={"n_factors": 4, "n_epochs": 1})["state"] == "succeeded"
        time.sleep(CACHED_S)
        answer = app.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
        assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        families = openmetrics.text_string_to_metric_families(answer.text)
        values = {sample.name: sample.value for family in families for sample in family.samples}
    held = ("users", "users_forgotten", "items", "items_hidden", "ratings")
    assert [values[f"nearfield_{name}"] for name in held] == [2, 1, 3, 1, 3]
    assert 0 <= values["nearfield_model_age_seconds"] < 300
    assert values["process_resident_memory_bytes"] > 0


def test_keys_guard_what_they_should(tmp_path):
    with serving(tmp_path / "data", **KEYS) as app:

        def status(method, path, key):
            return app.request(method, path, headers={"X-API-Key": key} if key else {}).status_code

        assert status("GET", "/popular", None) == 401
        assert status("GET", "/popular", KEYS["api_key"]) == 200
        assert status("GET", "/popular", KEYS["admin_key"]) == 200
        assert status("GET", "/admin/jobs", KEYS["api_key"]) == 403
        assert status("GET", "/admin/jobs", KEYS["admin_key"]) == 200
        open_paths = "/", "/health/live", "/metrics", "/docs", "/openapi.json"
        assert [app.get(path).status_code for path in open_paths] == [200] * 5
        assert problem(app.request("POST", "/ratings", content=b" " * 2_000_000)) == "not-authorized"


def test_without_a_key_of_the_settings_none_is_made(app):
    answer = app.post("/admin/keys", {"name": "x", "scope": "admin"})
    assert (answer.status_code, problem(answer)) == (409, "no-admin-key")
    assert not (app.runtime.settings.data / key_file.KEYS_FILE).exists()
    assert app.get("/admin/keys").json() == {"keys": []}
    assert app.get("/popular").status_code == 200


def test_rating_scale_is_checked_where_set(tmp_path):
    with serving(tmp_path / "data", rating_scale="1,5") as app:
        answer = app.post("/ratings", [{"user": "u", "item": "x", "rating": r} for r in (0.5, 1, 5, 5.5)])
        assert [rejection["index"] for rejection in answer.json()["rejected"]] == [0, 3]


def test_a_folder_in_use_is_refused(app):
    second = Local(app.runtime.settings.data)
    with pytest.raises(DataInUse), second:
        pass
    second.close()


def test_readiness_has_a_reason_until_the_service_is_ready(tmp_path):
    """Without Redis the service is alive and not ready, and refuses requests with a time to retry; then it recovers."""
    server = RedisServer(tmp_path / "elsewhere")
    with Local(tmp_path / "data", redis=server.url) as app:
        assert app.get("/health/live").status_code == 200
        answer = app.get("/health/ready")
        assert (answer.status_code, problem(answer)) == (503, "not-ready")
        assert answer.json()["reason"]
        assert 0 <= answer.json()["fraction"] <= 1
        assert "not ready yet" in app.get("/").text
        assert problem(app.get("/popular")) == "not-ready"
        assert problem(app.post("/ratings", {"user": "u", "item": "x", "rating": 1})) == "not-ready"
        server.start()
        try:
            eventually(lambda: app.get("/health/ready").status_code == 200)
            app.rate(("u", "x", 1.0))
        finally:
            server.stop()


def test_reads_go_on_while_redis_is_gone(tmp_path):
    server = RedisServer(tmp_path / "elsewhere")
    server.start()
    with serving(tmp_path / "data", redis=server.url) as app:
        position = app.rate(("u", "x", 5.0))
        app.get("/popular", wait_for=position)
        server.stop()
        answer = app.post("/ratings", {"user": "u", "item": "y", "rating": 1})
        assert (answer.status_code, problem(answer)) == (503, "stream-unavailable")
        assert app.get("/popular").json()["items"][0]["item"] == "x"
        again = RedisServer(tmp_path / "elsewhere")
        again.start()
        try:
            eventually(lambda: app.post("/ratings", {"user": "u", "item": "y", "rating": 1}).status_code == 202)
            eventually(lambda: len(app.get("/users/u/ratings").json()["ratings"]) == 2)
        finally:
            again.stop()


def test_when_the_log_cannot_be_written_nothing_is_acknowledged(tmp_path, monkeypatch):
    """Stands for a broken disk: the folder of the log is gone for a while. The learner, which looks there, goes on."""
    monkeypatch.setattr("service.storage.streams.stream.DROP_EVERY_S", 0.0)
    with serving(tmp_path / "data") as app:
        first = app.rate(("u", "x", 5.0))
        folder, away = tmp_path / "data" / "ratings", tmp_path / "away"
        folder.rename(away)
        app.post("/admin/retrain", {"algorithm": "sgd"})  # requests a commit

        def refusal():
            answer = app.post("/ratings", {"user": "u", "item": "y", "rating": 1})
            return answer if answer.status_code == 503 else None

        assert problem(eventually(refusal)) == "log-unavailable"
        away.rename(folder)
        eventually(lambda: app.post("/ratings", {"user": "u", "item": "z", "rating": 1}).status_code == 202)
        found = app.get("/users/u/ratings", wait_for=first).json()["ratings"]
        assert "x" in {rating["item"] for rating in found}


def test_a_part_that_fails_for_good_is_reported_and_ends_the_service(tmp_path):
    ended = threading.Event()
    with serving(tmp_path / "data") as app:
        app.runtime.on_failure = ended.set
        app.runtime._engine.fail(RuntimeError("the learner has died"))
        assert ended.wait(60)
        answer = app.get("/health/ready")
        assert (answer.status_code, problem(answer)) == (503, "not-ready")
        assert "the learner has died" in answer.json()["reason"]
        assert app.get("/popular").status_code == 503
        assert app.get("/health/live").status_code == 200
