"""One count of keys that failed, in headers and in the form of the console."""

from collections.abc import Iterator
from typing import Any

import pytest

from service.api.door.auth import Keys
from service.api.door.credentials import Credentials
from service.api.door.rate_limit import N_FAILURES, Limits
from service.api.errors import Forbidden, NotAuthorized
from service.base.errors import TooManyRequests
from service.settings.settings import Settings
from tests.service.extras.console.visitor import ADMIN_KEY, Visitor
from tests.service.process import Service
from tests.service.waiting import eventually

KEYS: dict[str, Any] = {"api_key": "key-of-every-client", "admin_key": ADMIN_KEY}
READ, ADMIN = ("GET", b"/recommend/u"), ("GET", b"/admin/jobs")
CLIENT, GUESSER, OTHER = b"key-of-every-client", "192.0.2.7", "192.0.2.8"


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> Credentials:
    monkeypatch.setattr("service.api.door.rate_limit.time.monotonic", lambda: 1000.0)
    settings = Settings(**KEYS)
    return Credentials(Keys(settings), Limits.of(settings).failures)


def guess(credentials: Credentials, n: int = N_FAILURES, address: str = GUESSER) -> None:
    for number in range(n):
        with pytest.raises(NotAuthorized):
            credentials.check(*READ, b"a-wrong-key-%d" % number, address)


def test_who_guesses_has_to_wait_even_with_a_right_key(credentials: Credentials) -> None:
    guess(credentials)
    for request, key in ((READ, b"wrong"), (READ, CLIENT), (ADMIN, CLIENT), (ADMIN, ADMIN_KEY.encode())):
        with pytest.raises(TooManyRequests) as refused:  # the same, so that it tells nothing about the key
            credentials.check(*request, key, GUESSER)
        assert refused.value.retry_after_s == 1
    with pytest.raises(NotAuthorized):
        credentials.check(*READ, None, GUESSER)


def test_nobody_else_has_to_wait(credentials: Credentials) -> None:
    guess(credentials)
    credentials.check(*READ, CLIENT, OTHER)
    credentials.check("GET", b"/health/live", CLIENT, GUESSER)  # needs no key, and so proves none
    with pytest.raises(TooManyRequests):
        credentials.check(*READ, CLIENT, GUESSER)


def test_who_was_right_before_goes_on_behind_the_same_address(credentials: Credentials) -> None:
    credentials.check(*READ, CLIENT, GUESSER)
    guess(credentials)
    for _ in range(100):
        credentials.check(*READ, CLIENT, GUESSER)


def test_a_second_later_one_more_key_may_be_tried(credentials: Credentials, monkeypatch: pytest.MonkeyPatch) -> None:
    guess(credentials)
    monkeypatch.setattr("service.api.door.rate_limit.time.monotonic", lambda: 1001.01)
    credentials.check(*READ, CLIENT, GUESSER)
    guess(credentials, 1)


def test_what_a_key_does_not_permit_counts_for_the_key_and_not_for_the_address(credentials: Credentials) -> None:
    for _ in range(N_FAILURES):
        with pytest.raises(Forbidden):
            credentials.check(*ADMIN, CLIENT, GUESSER)
    with pytest.raises(TooManyRequests):
        credentials.check(*ADMIN, CLIENT, OTHER)
    credentials.check(*READ, CLIENT, GUESSER)
    credentials.check(*ADMIN, ADMIN_KEY.encode(), GUESSER)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("credentials") / "data"
    running = Service(data, worker=False, trusted_proxies="127.0.0.1", **KEYS)
    yield running
    running.stop()


@pytest.mark.parametrize("by", ["header", "form", "both"])
def test_guesses_in_headers_and_in_forms_are_one_count(service: Service, by: str) -> None:
    with Visitor(str(service.client.base_url)) as visitor:
        visitor.headers["x-forwarded-for"] = f"192.0.2.{sum(by.encode()) % 90}"

        def by_header(key: str, path: str = "/popular") -> int:
            return visitor.get(path, headers={"x-api-key": key}).status_code

        for number in range(N_FAILURES):
            in_header = by == "header" or (by == "both" and number % 2)
            sent = by_header(f"wrong-{number}") if in_header else visitor.sign_in(f"wrong-{number}").status_code
            assert sent == 401
        eventually(lambda: visitor.sign_in("wrong").status_code == 429)  # a slow machine has let time pass for more
        eventually(lambda: by_header("wrong") == 429)
        eventually(lambda: by_header("wrong", "/recommend/u") == 429)
        visitor.headers["x-forwarded-for"] = "192.0.2.99"
        assert visitor.sign_in().status_code == 303
        assert by_header(ADMIN_KEY) == 200
