"""Keys and webhooks as clients meet them: over HTTP, through two front processes."""

import json
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.extras.webhooks.webhook_file import MAX_WEBHOOKS
from service.storage import key_file, sealed_file
from tests.service.process import Service
from tests.service.waiting import eventually

ADMIN_KEY = "key-of-the-admins"
ADMIN = {"X-API-Key": ADMIN_KEY}
BOUND_S = 1.0  # documented: how long a revoked key may still be taken by another process
N_CONNECTIONS = 8  # enough to reach both fronts
WEBHOOKS = "/admin/webhooks", "/d/films/admin/webhooks"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("admin") / "data", fronts=2, admin_key=ADMIN_KEY, data_sets="films")
    yield service
    service.kill()


@pytest.fixture(scope="module")
def clients(service: Service) -> Iterator[list[httpx.Client]]:
    """Clients on a connection each."""
    clients = [httpx.Client(base_url=service.client.base_url, timeout=60) for _ in range(N_CONNECTIONS)]
    yield clients
    for client in clients:
        client.close()


@pytest.fixture(autouse=True)
def admins_are_admitted(clients: list[httpx.Client]) -> None:
    """Wait until both fronts have taken the admin key: after wrong keys an address may try one a second."""
    paths = "/popular", "/d/films/popular"
    eventually(lambda: all(statuses(clients, ADMIN_KEY, path) == {200} for path in paths))


@pytest.fixture
def no_webhooks(service: Service) -> None:
    """Remove the webhooks of earlier tests."""
    for path in WEBHOOKS:
        for webhook in service.client.get(path, headers=ADMIN).json()["webhooks"]:
            assert service.client.delete(f"{path}/{webhook['id']}", headers=ADMIN).status_code == 200


def statuses(clients: list[httpx.Client], key: str | None, path: str = "/popular") -> set[int]:
    headers = {} if key is None else {"X-API-Key": key}
    return {client.get(path, headers=headers).status_code for client in clients}


def made(service: Service, **body: Any) -> dict[str, Any]:
    answer = service.client.post("/admin/keys", json={"name": "shop", **body}, headers=ADMIN)
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


def revoke(service: Service, made: dict[str, Any]) -> httpx.Response:
    return service.client.delete(f"/admin/keys/{made['id']}", headers=ADMIN)


def test_the_first_key_closes_the_service_and_says_so(service, clients):
    assert statuses(clients, None) == {200}
    first, second = made(service, scope="read"), made(service, scope="read")
    assert "every path needs a key" in first["note"]
    assert second["note"] is None
    eventually(lambda: statuses(clients, None) == {401})
    assert statuses(clients, first["key"]) == statuses(clients, ADMIN_KEY) == {200}
    for one in (first, second):
        assert revoke(service, one).status_code == 200
    eventually(lambda: statuses(clients, first["key"]) <= {401, 429})  # as many wrong keys slow the address
    assert statuses(clients, None) == {401}
    assert statuses(clients, None, "/health/ready") == {200}


def test_a_revoked_key_is_refused_by_all_fronts(service, clients):
    one = made(service, scope="read-write")
    eventually(lambda: statuses(clients, one["key"]) == {200})
    assert revoke(service, one).json() == {name: one[name] for name in one if name not in ("key", "note")}
    revoked_s = asked_s = time.monotonic()
    while 200 in (taken := statuses(clients, one["key"])):
        assert asked_s - revoked_s < BOUND_S
        asked_s = time.monotonic()
    assert taken <= {401, 429}
    again = revoke(service, one)
    assert (again.status_code, again.json()["type"]) == (404, "urn:nearfield:problem:unknown-key")


def test_no_answer_and_no_file_has_a_key_again(service):
    one = made(service, scope="write", data_sets=["films", "default", "films"])
    listed = service.client.get("/admin/keys", headers=ADMIN).json()["keys"]
    assert {name: one[name] for name in one if name not in ("key", "note")} in listed
    assert one["data_sets"] == ["default", "films"]
    file = service.data / key_file.KEYS_FILE
    stored = next(key for key in json.loads(file.read_text())["content"] if key["id"] == one["id"])
    for text in (json.dumps(listed), service.errors.read_text()):
        assert one["key"] not in text
        assert stored["sha256"] not in text
    assert one["key"] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    revoke(service, one)


def test_keys_are_managed_by_those_who_may(service, clients):
    one, of_films = made(service, scope="read-write"), made(service, scope="admin", data_sets=["films"])
    admin = made(service, scope="admin")
    body = {"name": "more", "scope": "admin"}

    def asked(key: str) -> list[int]:
        headers = {"X-API-Key": key}
        post = service.client.post("/admin/keys", json=body, headers=headers)
        if post.is_success:
            revoke(service, post.json())
        return [post.status_code, service.client.get("/admin/keys", headers=headers).status_code]

    eventually(lambda: statuses(clients, one["key"]) == statuses(clients, admin["key"]) == {200})
    eventually(lambda: {403} <= statuses(clients, of_films["key"]) <= {403, 429})  # what it may not do is slowed too
    eventually(lambda: statuses(clients, of_films["key"], "/d/films/popular") == {200})
    assert asked(one["key"]) == [403, 403]
    assert set(asked(of_films["key"])) <= {403, 429}
    assert asked(admin["key"]) == [201, 200]
    for key in (one, of_films, admin):
        revoke(service, key)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"scope": "read"}, "body.name"),
        ({"name": "", "scope": "read"}, "body.name"),
        ({"name": "x"}, "body.scope"),
        ({"name": "x", "scope": "root"}, "body.scope"),
        ({"name": "x", "scope": "read", "key": "mine-is-long-enough"}, "body.key"),
        ({"name": "x", "scope": "read", "data_sets": []}, "body.data_sets"),
        ({"name": "x", "scope": "read", "data_sets": ["music"]}, "body.data_sets"),
        ({"name": "x", "scope": "read", "data_sets": ["Films"]}, "body.data_sets"),
    ],
)
def test_bad_keys_are_refused(service, body, place):
    answer = service.client.post("/admin/keys", json=body, headers=ADMIN)
    assert (answer.status_code, place in answer.json()["detail"]) == (422, True), answer.text


def test_an_altered_file_is_told_and_opens_nothing(service, clients):
    one = made(service, scope="read")
    eventually(lambda: statuses(clients, one["key"]) == {200})
    file: Path = service.data / key_file.KEYS_FILE
    intact = file.read_bytes()
    file.write_bytes(intact.replace(b'"read"', b'"admin"'))
    eventually(lambda: statuses(clients, one["key"]) == {503})
    answer = service.client.get("/admin/keys", headers=ADMIN)
    assert (answer.status_code, str(file) in answer.json()["detail"]) == (503, True)
    assert statuses(clients, ADMIN_KEY) == {200}
    file.write_bytes(intact)
    eventually(lambda: statuses(clients, one["key"]) == {200})
    revoke(service, one)


# --- webhooks; nothing is sent, because no job ends here


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "body.url"),
        ({"url": ""}, "body.url"),
        ({"url": 7}, "body.url"),
        ({"url": "https://8.8.8.8/" + "x" * 2048}, "body.url"),
        ({"url": "ftp://8.8.8.8/"}, "expected a URL such as"),
        ({"url": "https://user:word@8.8.8.8/"}, "without a user or a password"),
        ({"url": "http://127.0.0.1:8000/admin/keys"}, "NEARFIELD_WEBHOOK_NETWORKS, got 127.0.0.1, which is inside"),
        ({"url": "http://169.254.169.254/latest"}, "169.254.169.254, which is inside"),
        ({"url": "http://localhost/"}, "localhost ("),
        ({"url": "https://nowhere.invalid/"}, "nowhere.invalid has no address now"),
        ({"url": "https://8.8.8.8/", "events": []}, "body.events"),
        ({"url": "https://8.8.8.8/", "events": ["train"]}, "body.events"),
        ({"url": "https://8.8.8.8/", "secret": "mine"}, "body.secret"),
    ],
)
def test_bad_webhooks_are_refused(service, body, reason):
    answer = service.client.post("/admin/webhooks", json=body, headers=ADMIN)
    assert (answer.status_code, reason in answer.json()["detail"]) == (422, True), answer.text


def test_each_data_set_has_webhooks_of_its_own(service, no_webhooks):
    made = []
    for n, path in enumerate(WEBHOOKS):
        answer = service.client.post(path, json={"url": f"https://8.8.8.8/{n}"}, headers=ADMIN)
        assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store"), answer.text
        made.append(answer.json())
    for path, one in zip(WEBHOOKS, made, strict=True):
        answer = service.client.get(path, headers=ADMIN)
        assert [webhook["id"] for webhook in answer.json()["webhooks"]] == [one["id"]]
        assert one["secret"] not in answer.text
    answer = service.client.delete(f"{WEBHOOKS[0]}/{made[1]['id']}", headers=ADMIN)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:nearfield:problem:unknown-webhook")
    for path, one in zip(WEBHOOKS, made, strict=True):
        assert service.client.delete(f"{path}/{one['id']}", headers=ADMIN).status_code == 200
        assert service.client.get(path, headers=ADMIN).json() == {"webhooks": []}


def test_so_many_webhooks_and_no_more(service, no_webhooks):
    body = {"url": "https://8.8.8.8/"}
    answers = [service.client.post("/admin/webhooks", json=body, headers=ADMIN) for _ in range(MAX_WEBHOOKS + 1)]
    assert {answer.status_code for answer in answers[:-1]} == {201}
    assert (answers[-1].status_code, answers[-1].json()["type"]) == (409, "urn:nearfield:problem:too-many-webhooks")


def test_an_altered_file_of_webhooks_is_told(service, no_webhooks):
    answer = service.client.post("/admin/webhooks", json={"url": "https://8.8.8.8/"}, headers=ADMIN)
    file: Path = service.data / sealed_file.WEBHOOKS_FILE
    intact = file.read_bytes()
    file.write_bytes(intact.replace(b"8.8.8.8", b"9.9.9.9"))
    told = service.client.get("/admin/webhooks", headers=ADMIN)
    file.write_bytes(intact)
    assert (told.status_code, str(file) in told.json()["detail"]) == (503, True)
    assert service.client.delete(f"/admin/webhooks/{answer.json()['id']}", headers=ADMIN).status_code == 200
