"""Keys and the rate limit."""

import pytest

from service.errors import NotAuthorized, TooManyRequests
from service.routes.access import MAX_BUCKETS, Keys, RateLimit
from service.settings import Settings

API, ADMIN = b"api-key", b"admin-key"
USER_PATH, ADMIN_PATH = b"/recommend/u", b"/admin/jobs"
OPEN = [b"/health/live", b"/health/ready", b"/metrics", b"/docs", b"/openapi.json"]


def allowed(settings, path, key):
    try:
        Keys(settings).check(path, key)
    except NotAuthorized:
        return False
    return True


def both():
    return Settings(api_key="api-key", admin_key="admin-key")


@pytest.mark.parametrize(
    ("path", "key", "expected"),
    [
        (USER_PATH, None, False),
        (USER_PATH, b"", False),
        (USER_PATH, b"wrong", False),
        (USER_PATH, "ключ".encode(), False),
        (USER_PATH, API, True),
        (USER_PATH, ADMIN, True),
        (ADMIN_PATH, None, False),
        (ADMIN_PATH, API, False),
        (ADMIN_PATH, ADMIN, True),
        (b"/%61dmin/jobs", API, True),  # not the admin route: routing is on the raw path, this is a 404
    ],
)
def test_who_may_call_what(path, key, expected):
    assert allowed(both(), path, key) == expected


@pytest.mark.parametrize("path", OPEN)
def test_open_paths_need_no_key(path):
    assert allowed(both(), path, None)


@pytest.mark.parametrize("path", [USER_PATH, ADMIN_PATH])
def test_without_keys_everything_is_open(path):
    assert allowed(Settings(), path, None)


@pytest.mark.parametrize(
    ("settings", "open_paths"),
    [
        ({}, {USER_PATH, ADMIN_PATH}),
        ({"admin_key": "admin-key"}, {USER_PATH}),
        ({"api_key": "api-key"}, set()),
        ({"api_key": "api-key", "admin_key": "admin-key"}, set()),
    ],
)
def test_what_no_key_guards(settings, open_paths):
    keys = Keys(Settings(**settings))
    assert {path for path in (USER_PATH, ADMIN_PATH) if keys.is_open(path)} == open_paths
    assert keys.is_none_set == (not settings)


def test_without_an_admin_key_the_other_one_guards_admin_routes():
    settings = Settings(api_key="api-key")
    assert not allowed(settings, ADMIN_PATH, None)
    assert allowed(settings, ADMIN_PATH, API)


def test_without_an_api_key_only_admin_routes_are_guarded():
    settings = Settings(admin_key="admin-key")
    assert allowed(settings, USER_PATH, None)
    assert not allowed(settings, ADMIN_PATH, None)


def test_rate_limit_counts_each_address_alone():
    limit = RateLimit(5)
    for _ in range(5):
        limit.check(USER_PATH, "a")
    with pytest.raises(TooManyRequests) as caught:
        limit.check(USER_PATH, "a")
    assert caught.value.retry_after_s == 1
    limit.check(USER_PATH, "b")
    limit.check(OPEN[0], "a")


def test_only_so_many_addresses_are_remembered():
    limit = RateLimit(1)
    for number in range(MAX_BUCKETS + 100):
        limit.check(USER_PATH, str(number))
    assert len(limit._buckets) == MAX_BUCKETS
    with pytest.raises(TooManyRequests):
        limit.check(USER_PATH, str(MAX_BUCKETS + 99))


def test_rate_limit_tells_how_long_to_wait():
    limit = RateLimit(0.01)
    limit.check(USER_PATH, "a")
    with pytest.raises(TooManyRequests) as caught:
        limit.check(USER_PATH, "a")
    assert 99 <= caught.value.retry_after_s <= 100


def test_rate_limit_is_off_by_default():
    limit = RateLimit(Settings().rate_limit_per_s)
    for _ in range(1000):
        limit.check(USER_PATH, "a")
