"""Pages of other sites, which a browser on this machine would let in."""

from __future__ import annotations

import pytest

from service.api.site_check import MAX_CHECKED, SiteCheck
from service.errors import ForeignSite


def is_let_in(host: str | None, origin: str | None = None, path: bytes = b"/ratings") -> bool:
    headers = {name: value.encode() for name, value in ((b"host", host), (b"origin", origin)) if value is not None}
    try:
        SiteCheck().check(path, headers)
    except ForeignSite:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:8000",
        "localhost.:8000",
        "127.0.0.1:8000",
        "127.9.9.9",
        "[::1]:8000",
        "a.localhost",
        None,
    ],
)
def test_this_machine_by_its_own_names(host: str | None) -> None:
    assert is_let_in(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "10.0.0.1",
        "0.0.0.0",
        "",
        "127.0.0.1.nip.io",
        "[::2]",
    ],
)
def test_a_name_that_another_can_point_here_is_refused(host: str) -> None:
    assert not is_let_in(host)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000", "http://localhost", ""])
def test_a_page_of_another_site_is_refused(origin: str) -> None:
    assert not is_let_in("localhost:8000", origin)


@pytest.mark.parametrize("origin", ["http://localhost:8000", "https://localhost:8000"])
def test_the_pages_of_the_service_itself_are_let_in(origin: str) -> None:
    assert is_let_in("localhost:8000", origin)


def test_health_is_answered_to_everybody() -> None:
    assert is_let_in("probe.example", path=b"/health/live")


def test_only_some_names_are_kept() -> None:
    sites = SiteCheck()
    for number in range(1000):
        sites.check(b"/ratings", {b"host": b"localhost:%d" % number})
    assert len(sites._checked) <= MAX_CHECKED
