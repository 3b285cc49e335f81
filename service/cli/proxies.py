"""`proxy_of`: the proxy that the environment names for a service; none for a service on this machine."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import NamedTuple
from urllib.request import getproxies, proxy_bypass

import httpx

from service.settings.addresses import is_loopback


class Proxy(NamedTuple):
    """A proxy: the variable that names it, and its URL, which may have a password."""

    variable: str
    url: str

    def __str__(self) -> str:
        """In words, without a password."""
        scheme, _, rest = self.url.partition("://")
        return f"the proxy {scheme}://{rest.rpartition('@')[2]} of {self.variable}"


def proxy_of(address: httpx.URL) -> Proxy | None:
    """The proxy for requests to `address`, from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY in either case.

    None for this machine, whose loopback addresses no proxy can reach, and where no variable names one.
    """
    if not address.host or is_this_machine(address.host) or proxy_bypass(address.host):
        return None
    proxies = getproxies()
    for scheme in (address.scheme, "all"):
        if url := proxies.get(scheme):
            return Proxy(f"{scheme.upper()}_PROXY", url if "://" in url else f"http://{url}")
    return None


def is_this_machine(host: str) -> bool:
    """Whether `host` is a name or an address of loopback, also 127.1, ::ffff:127.0.0.1, 0.0.0.0 and a.localhost."""
    try:
        address = ip_address(host)
    except ValueError:
        try:
            address = ip_address(socket.inet_aton(host))
        except OSError:
            name = host.rstrip(".")
            return is_loopback(name) or name.endswith(".localhost")
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified
