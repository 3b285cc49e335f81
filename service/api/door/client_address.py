"""Finds the client address by which limits count; behind a trusted proxy it comes from X-Forwarded-For."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable, Sequence

FORWARDED = b"x-forwarded-for"
MAX_CACHED = 4096  # addresses
MAX_PROXIES = 32  # between a client and the service; the entries before theirs are not looked at
IPV6_PREFIX = 64  # bits of the network that a provider assigns to one customer, who may use any address in it
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ClientAddresses:
    """Decides which peers are trusted proxies, and under which name an address is counted.

    Args:
        trusted: networks of proxies, as CIDRs.
    """

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        self._trusted = tuple(map(ipaddress.ip_network, trusted))
        self.is_proxy = functools.lru_cache(MAX_CACHED)(self._is_proxy)

    def group(self, address: str) -> str | None:
        """The name under which connections count; None for connections of proxies, which many clients share."""
        return None if self.is_proxy(address) else network(address)

    def of(self, peer: tuple[str, int] | None, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The name under which a request counts.

        Each proxy appends the address of its caller. From the end, the first address that is not a trusted proxy is the
        client; the client may have invented all earlier ones.
        """
        address = peer[0] if peer else ""
        if not self._trusted or not self.is_proxy(address):
            return network(address)
        forwarded = b",".join(value for name, value in headers if name == FORWARDED).decode("latin-1")
        for entry in reversed(forwarded.rsplit(",", MAX_PROXIES)[-MAX_PROXIES:]):
            host = entry.strip()
            if host.startswith("["):
                host = host[1:].partition("]")[0]
            elif host.count(":") == 1:
                host = host.partition(":")[0]  # without the port
            parsed = _parsed(host)
            if parsed is None:
                break
            address = str(parsed)
            if not self.is_proxy(address):
                break
        return network(address)

    def _is_proxy(self, address: str) -> bool:
        parsed = _parsed(address)
        return parsed is not None and any(parsed in network for network in self._trusted)


@functools.lru_cache(MAX_CACHED)
def network(address: str) -> str:
    """The address; for IPv6 the network that one client probably owns."""
    parsed = _parsed(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False))
    return address


def _parsed(text: str) -> Address | None:
    """Parse an address; an IPv4 address inside an IPv6 address becomes IPv4."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
