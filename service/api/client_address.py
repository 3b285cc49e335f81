"""Whose request it is: the limits count by address, and behind a trusted proxy the address is the one that it names."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable, Sequence

FORWARDED = b"x-forwarded-for"
MAX_CACHED = 4096  # addresses
IPV6_PREFIX = 64  # bits: what a provider gives to one customer, who may use any address in it
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ClientAddresses:
    """Which peers are proxies, and under which name an address is counted.

    Args:
        trusted: networks of proxies, as CIDRs.
    """

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        self._trusted = tuple(map(ipaddress.ip_network, trusted))
        self.is_proxy = functools.lru_cache(MAX_CACHED)(self._is_proxy)

    def group(self, address: str) -> str | None:
        """The name under which connections are counted; None for those of proxies, which carry many clients."""
        return None if self.is_proxy(address) else network(address)

    def of(self, peer: tuple[str, int] | None, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The name under which a request is counted.

        Each proxy appends the address that called it. Read from the end, the first one that is not a trusted proxy is
        the client; the client itself may have invented all before it.
        """
        address = peer[0] if peer else ""
        if not self._trusted or not self.is_proxy(address):
            return network(address)
        named = b",".join(value for name, value in headers if name == FORWARDED).decode("latin-1")
        for entry in reversed(named.split(",")):
            known = _parsed(_without_port(entry.strip()))
            if known is None:
                break
            address = str(known)
            if not self.is_proxy(address):
                break
        return network(address)

    def _is_proxy(self, address: str) -> bool:
        known = _parsed(address)
        return known is not None and any(known in network for network in self._trusted)


@functools.lru_cache(MAX_CACHED)
def network(address: str) -> str:
    """The address, or of IPv6 the network that one client is likely to own."""
    known = _parsed(address)
    if isinstance(known, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((known, IPV6_PREFIX), strict=False))
    return address


def _parsed(text: str) -> Address | None:
    """An address; of an IPv4 address inside IPv6 the former."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _without_port(entry: str) -> str:
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry
