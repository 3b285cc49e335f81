"""Targets of webhooks: URLs of http or https at global unicast addresses, or in networks that a setting names.

A webhook makes the service send requests to where a client says. Without a check, a client could reach what only
machines of our networks can, such as the metadata address of a cloud. Names are resolved once for each attempt, and
the connection goes to an address that was checked, so that a name cannot change in between.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import httpx

from service.base import threads
from service.base.errors import InvalidRequest

MAX_URL_LENGTH = 2048  # characters
RESOLVE_TIMEOUT_S = 4.0  # seconds; shorter than an attempt may take
_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_][a-z0-9_-]{0,62})*\.?", re.IGNORECASE)
FIRST_FREE_PORT = 1024  # below it, only those of the web: others are those of mail, shells and files
# Networks of IPv6 whose addresses have one of IPv4 in the last 32 bits, which a gateway may contact for us. Those of
# `_OUTSIDE_IF_IPV4` are judged by it alone.
_WITH_IPV4 = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
_OUTSIDE_IF_IPV4 = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))
_ISATAP = (0x00005EFE, 0x02005EFE)  # before the last 32 bits, which are an address of IPv4 (RFC 5214)
# Global unicast addresses are those of IPv4 and of 2000::/3 that are not here: IANA's registries of special-purpose
# addresses, of which each version of Python knows others. The last one of IPv4 is where Azure has metadata.
_GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = tuple(map(ipaddress.ip_network, (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/3", "168.63.129.16/32",
    "2001:1::/32", "2001:2::/31", "2001:4::/30", "2001:8::/29", "2001:10::/28", "2001:20::/27", "2001:40::/26",
    "2001:80::/25", "2001:100::/24", "2001:db8::/32", "3fff::/20",
)))  # fmt: skip

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Target(NamedTuple):
    """A URL that was checked: the name of the host as it is resolved, and the port."""

    url: httpx.URL
    host: str
    port: int


def parse(text: str) -> Target:
    """The target of a URL.

    Raises:
        InvalidRequest: it is no URL of http or https, has a user or a password, or a port that is not of the web.
    """
    expected = "Invalid body.url: expected a URL such as https://example.com/jobs"
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise InvalidRequest(f"{expected}, got {text[:80]!r}: {error}") from None
    host = url.raw_host.decode()
    is_port, is_host = url.port is None or 1 <= url.port <= 65535, _NAME.fullmatch(host) is not None
    with contextlib.suppress(ValueError):
        is_host = is_host or (ipaddress.ip_address(host) is not None and "%" not in host)
    if url.scheme not in _PORTS or not is_port or not is_host:
        raise InvalidRequest(f"{expected}, got {text[:80]!r}")
    if url.userinfo:
        raise InvalidRequest(f"{expected}, without a user or a password, got both or one of them")
    port = url.port or _PORTS[url.scheme]
    if port < FIRST_FREE_PORT and port not in _PORTS.values():
        raise InvalidRequest(f"Invalid body.url: expected port 80, 443, or one from {FIRST_FREE_PORT} on, got {port}")
    return Target(url, host, port)


def resolving(target: Target) -> Future[list[str]]:
    """A future of the addresses of the host. A thread of its own waits for them, which nobody has to wait for.

    The future raises `InvalidRequest` if there are none.
    """
    future: Future[list[str]] = Future()

    def resolve() -> None:
        try:
            entries = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
            future.set_result(list(dict.fromkeys(str(entry[4][0]) for entry in entries)))
        except OSError as error:
            future.set_exception(InvalidRequest(f"Invalid body.url: {target.host} has no address now ({error})"))
        except Exception as error:
            future.set_exception(error)

    threads.helper("resolve", resolve)
    return future


def check(target: Target, addresses: Sequence[str], networks: Sequence[str]) -> None:
    """Check that all addresses of a target are outside, or in one of `networks`.

    Raises:
        InvalidRequest: one is not.
    """
    for address in addresses:
        parts = list(addresses_in(ipaddress.ip_address(address.partition("%")[0])))
        is_ours = any(part in ipaddress.ip_network(network) for part in parts for network in networks)
        if not is_ours and not all(map(is_outside, parts)):
            of_name = f"{target.host} ({address})" if target.host != address else address
            raise InvalidRequest(
                "Invalid body.url: expected a host outside, or in a network of NEARFIELD_WEBHOOK_NETWORKS, got"
                f" {of_name}, which is inside"
            )


def check_now(text: str, networks: Sequence[str]) -> None:
    """`parse`, resolve and `check` in the thread of the caller.

    Raises:
        InvalidRequest: see there; or its name is not resolved within `RESOLVE_TIMEOUT_S`.
    """
    target = parse(text)
    try:
        addresses = resolving(target).result(RESOLVE_TIMEOUT_S)
    except TimeoutError:
        raise InvalidRequest(
            f"Invalid body.url: {target.host} was not resolved within {RESOLVE_TIMEOUT_S:g} s"
        ) from None
    check(target, addresses, networks)


def addresses_in(address: Address) -> Iterator[Address]:
    """The address, and those of IPv4 in it."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        is_isatap = (int(address) >> 32) & 0xFFFFFFFF in _ISATAP
        if is_isatap or any(address in network for network in _WITH_IPV4):
            yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address.sixtofour is not None:
            yield address.sixtofour
        yield from address.teredo or ()


def is_outside(address: Address) -> bool:
    """Whether an address is one of global unicast; one of IPv4 within it is judged apart (`_all_in`)."""
    if any(address in network for network in _SPECIAL):
        return False
    is_of_ipv4 = isinstance(address, ipaddress.IPv4Address)
    return is_of_ipv4 or address in _GLOBAL_IPV6 or any(address in network for network in _OUTSIDE_IF_IPV4)
