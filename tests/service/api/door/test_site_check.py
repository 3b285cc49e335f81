"""Pages of other sites, which a browser on this machine would let in."""

import pytest

from service.api.door.site_check import MAX_CHECKED, SiteCheck
from service.api.errors import ForeignSite


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


VISIT = {b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"document"}
PICTURE = {b"sec-fetch-mode": b"no-cors", b"sec-fetch-dest": b"image"}
FRAME = {b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"iframe"}


def is_fetched(site: bytes, path: bytes, how: dict[bytes, bytes], **more: bytes) -> bool:
    headers = {b"host": b"localhost:8000", b"sec-fetch-site": site} | how | {n.encode(): v for n, v in more.items()}
    check = SiteCheck([b"http://shop.example"])
    check.check(b"/recommend/u", {b"host": b"localhost:8000"})  # now the host is known
    try:
        check.check(path, headers)
    except ForeignSite:
        return False
    return True


@pytest.mark.parametrize("site", [b"cross-site", b"same-site"])
@pytest.mark.parametrize("path", [b"/admin/export", b"/recommend/u", b"/admin/exports/j", b"/users", b"/metrics"])
@pytest.mark.parametrize("how", [VISIT, PICTURE, FRAME, {}])
def test_no_page_of_another_site_makes_the_browser_read(site: bytes, path: bytes, how: dict[bytes, bytes]) -> None:
    assert not is_fetched(site, path, how)
    assert is_fetched(b"same-origin", path, how)
    assert is_fetched(b"none", path, how)
    assert is_fetched(site, path, how, origin=b"http://shop.example")
    assert not is_fetched(site, path, how, origin=b"http://evil.example")


@pytest.mark.parametrize("path", [b"/", b"/docs", b"/console", b"/console/overview"])
def test_a_link_on_another_site_leads_to_a_page(path: bytes) -> None:
    assert is_fetched(b"cross-site", path, VISIT)
    assert not is_fetched(b"cross-site", path, PICTURE)
    assert not is_fetched(b"cross-site", path, FRAME)


def test_health_is_for_everybody() -> None:
    assert is_fetched(b"cross-site", b"/health/ready", PICTURE)
