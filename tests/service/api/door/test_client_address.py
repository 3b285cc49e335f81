"""The address that limits count: never one that an untrusted peer names."""

import pytest

from service.api.door.client_address import ClientAddresses, network

PROXY, CLIENT = ("10.0.0.1", 5), "203.0.113.7"


def of(trusted: list[str], peer: tuple[str, int] | None, *forwarded: str) -> str:
    headers = [(b"host", b"x"), *((b"x-forwarded-for", value.encode()) for value in forwarded)]
    return ClientAddresses(trusted).of(peer, headers)


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.0.1"])
def test_without_trusted_proxies_headers_are_ignored(peer: str) -> None:
    assert of([], (peer, 5), CLIENT) == peer


@pytest.mark.parametrize(
    ("forwarded", "expected"),
    [
        ([CLIENT], CLIENT),
        (["1.1.1.1, " + CLIENT], CLIENT),
        (["1.1.1.1", CLIENT], CLIENT),
        ([CLIENT + ", 10.0.0.2"], CLIENT),
        ([CLIENT, "10.0.0.2"], CLIENT),
        ([f"{CLIENT}:4711"], CLIENT),
        (["[2001:db8:1:2:3::4]:80"], "2001:db8:1:2::/64"),
        (["::ffff:" + CLIENT], CLIENT),
        ([CLIENT + ", unknown"], "10.0.0.1"),
        ([""], "10.0.0.1"),
        ([], "10.0.0.1"),
        (["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
    ],
)
def test_behind_a_trusted_proxy_the_last_one_that_is_none_counts(forwarded: list[str], expected: str) -> None:
    assert of(["10.0.0.0/8"], PROXY, *forwarded) == expected


def test_a_stranger_names_nobody() -> None:
    assert of(["10.0.0.0/8"], (CLIENT, 5), "1.1.1.1") == CLIENT


def test_a_peer_without_an_address_is_one_client() -> None:
    assert of(["10.0.0.0/8"], None, CLIENT) == ""


def test_one_customer_is_one_client_however_many_addresses_it_has() -> None:
    assert network("2001:db8:1:2::1") == network("2001:db8:1:2:ffff::9") != network("2001:db8:1:3::1")
    assert network("::ffff:10.0.0.1") == "::ffff:10.0.0.1"
    assert network("10.0.0.1") != network("10.0.0.2")


def test_proxies_are_not_counted() -> None:
    addresses = ClientAddresses(["10.0.0.0/8", "fd00::/8"])
    assert addresses.group("10.1.2.3") is None
    assert addresses.group("fd00::1") is None
    assert addresses.group(CLIENT) == CLIENT
    assert addresses.group("") == ""
