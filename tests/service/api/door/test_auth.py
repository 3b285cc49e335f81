"""Keys and the rate limit."""

import contextlib
from typing import Any

import pytest

from service.api.door.auth import Keys, key_in
from service.api.errors import Forbidden, NotAuthorized
from service.settings.settings import Settings

KEYS: dict[str, Any] = {
    "api_key": "key-of-every-client",
    "admin_key": "key-of-the-admins",
    "read_key": "key-of-those-who-read",
    "write_key": "key-of-those-who-write",
}
READ, LIST, POST, DELETE, JOBS = (
    ("GET", b"/recommend/u"),
    ("POST", b"/recommend/u"),
    ("POST", b"/ratings"),
    ("DELETE", b"/ratings/u/x"),
    ("GET", b"/admin/jobs"),
)
READS, WRITES = [READ, LIST, ("GET", b"/users/u/ratings"), ("HEAD", b"/ratings"), ("GET", b"/items/x")], [POST, DELETE]
WRITES += [("POST", b"/items"), ("PATCH", b"/items/x"), ("DELETE", b"/items/x")]
OPEN = [b"/health/live", b"/health/ready", b"/metrics", b"/docs", b"/openapi.json"]


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({b"x-api-key": b"a"}, b"a"),
        ({b"authorization": b"Bearer a"}, b"a"),
        ({b"authorization": b"bearer  a "}, b"a"),
        ({b"authorization": b"Bearer a", b"x-api-key": b"b"}, b"b"),
        ({b"authorization": b"Bearer a", b"x-api-key": b""}, b""),
        ({b"authorization": b"Basic YTpi"}, None),
        ({b"authorization": b"a"}, None),
        ({b"authorization": b"Bearer"}, b""),
        ({}, None),
    ],
)
def test_a_key_is_in_one_of_two_headers(headers, key):
    assert key_in(headers) == key


def outcome(settings, request, key):
    try:
        method, path = request
        Keys(settings).check(method, path, None if key is None else key.encode())
    except (NotAuthorized, Forbidden) as error:
        return error.status
    return 200


@pytest.mark.parametrize("request_", [*READS, *WRITES, JOBS])
@pytest.mark.parametrize("key", [None, "", "wrong", "ключ", "key-of-every-clien", "key-of-every-client "])
def test_no_key_and_a_wrong_one_are_401(request_, key):
    assert outcome(Settings(**KEYS), request_, key) == 401


@pytest.mark.parametrize(
    ("name", "reads", "writes", "admin"),
    [
        ("api_key", 200, 200, 403),
        ("admin_key", 200, 200, 200),
        ("read_key", 200, 403, 403),
        ("write_key", 403, 200, 403),
    ],
)
def test_a_key_opens_what_it_is_for_and_else_it_is_403(name, reads, writes, admin):
    settings = Settings(**KEYS)
    assert {outcome(settings, request, KEYS[name]) for request in READS} == {reads}
    assert {outcome(settings, request, KEYS[name]) for request in WRITES} == {writes}
    assert outcome(settings, JOBS, KEYS[name]) == admin


def test_of_two_keys_both_open_the_same():
    both: dict[str, Any] = {name: f"{key}, {key}-of-tomorrow" for name, key in KEYS.items()}
    settings = Settings(**both)
    for suffix in ("", "-of-tomorrow"):
        assert outcome(settings, READ, KEYS["read_key"] + suffix) == 200
        assert outcome(settings, POST, KEYS["read_key"] + suffix) == 403
        assert outcome(settings, JOBS, KEYS["admin_key"] + suffix) == 200


def test_a_refusal_says_what_is_missing_and_no_key():
    with pytest.raises(Forbidden) as caught:
        Keys(Settings(**KEYS)).check(*POST, KEYS["read_key"].encode())
    assert str(caught.value) == "Invalid key: expected a key that may write, got one that may read"


def test_every_key_is_compared_each_time(monkeypatch):
    keys, compared = Keys(Settings(**KEYS)), []

    def compare(one, other):
        compared.append(len(one) == len(other))
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)
    for given in (*KEYS.values(), "x"):
        compared.clear()
        with contextlib.suppress(NotAuthorized, Forbidden):
            keys.check(*READ, given.encode())
        assert compared == [True] * len(KEYS)


def test_a_path_that_only_decodes_to_an_admin_route_is_none():
    assert outcome(Settings(**KEYS), ("GET", b"/%61dmin/jobs"), KEYS["api_key"]) == 200  # routing finds nothing there


@pytest.mark.parametrize("path", OPEN)
def test_open_paths_need_no_key(path):
    assert outcome(Settings(**KEYS), ("GET", path), None) == 200


@pytest.mark.parametrize(
    ("names", "open_requests"),
    [
        ([], [READ, POST, JOBS]),
        (["admin_key"], [READ, POST]),
        (["api_key"], []),
        (["read_key"], []),
        (["write_key"], []),
        (["api_key", "admin_key"], []),
    ],
)
def test_requests_without_a_key_are_open(names, open_requests):
    settings = Settings(**{name: KEYS[name] for name in names})
    keys = Keys(settings)
    assert [request for request in (READ, POST, JOBS) if outcome(settings, request, None) == 200] == open_requests
    assert [request for request in (READ, POST, JOBS) if keys.is_open(request[1])] == open_requests
    assert keys.need_none(READ[1]) == (not set(names) - {"admin_key"})


def test_without_an_admin_key_the_api_key_opens_admin_routes_and_no_other_does():
    settings = Settings(api_key=KEYS["api_key"], read_key=KEYS["read_key"])
    assert outcome(settings, JOBS, None) == 401
    assert outcome(settings, JOBS, KEYS["api_key"]) == 200
    assert outcome(settings, JOBS, KEYS["read_key"]) == 403
