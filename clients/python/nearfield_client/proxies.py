"""Which proxy of the environment a client goes through: none to a service on this machine."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.request import getproxies, proxy_bypass

import httpx

from nearfield_client.problems import NearfieldError

CHOSEN = frozenset(("proxy", "mounts", "transport", "trust_env"))  # arguments of httpx by which callers choose


class Proxy(NamedTuple):
    """A proxy: the variable that names it, and its URL, which may have a password."""

    variable: str
    url: str

    def __str__(self) -> str:
        """In words, without a password."""
        scheme, _, rest = self.url.partition("://")
        return f"the proxy {scheme}://{rest.rpartition('@')[2]} of {self.variable}"


def routed(arguments: dict[str, Any]) -> tuple[dict[str, Any], Proxy | None]:
    """The arguments of an httpx client with the proxy for its `base_url`, and this proxy.

    Raises:
        ValueError: this installation cannot use the proxy.
    """
    if not CHOSEN.isdisjoint(arguments):
        return arguments, None
    address = httpx.URL(arguments["base_url"])
    proxy = _proxy_of(address)
    if proxy is None:
        is_default = arguments.get("verify", True) is True
        verify = httpx.create_ssl_context() if is_default else arguments["verify"]  # still by SSL_CERT_FILE
        return arguments | {"trust_env": False, "verify": verify}, None
    try:
        httpx.HTTPTransport(proxy=proxy.url).close()
    except ImportError:
        raise ValueError(
            f"Invalid {proxy.variable}: expected a proxy that this installation can use, got {proxy}, which needs"
            f" the package socksio: pip install 'httpx[socks]', or name {address.host} in NO_PROXY"
        ) from None
    except (ValueError, httpx.InvalidURL):
        raise ValueError(f"Invalid {proxy.variable}: expected the URL of a proxy, got {proxy}") from None
    return arguments | {"proxy": proxy.url}, proxy


def no_answer(error: httpx.TransportError, proxy: Proxy | None) -> NearfieldError:
    """The error of a request without an answer, with the name of the proxy through which the request went."""
    said = str(error) or type(error).__name__
    return NearfieldError(None, "No answer", said if proxy is None else f"{said} (through {proxy})")


def check(response: httpx.Response, proxy: Proxy | None) -> None:
    """Check that an error through a proxy is one of the service, which answers all of them in JSON.

    Raises:
        NearfieldError: the proxy has answered.
    """
    if proxy is not None and response.is_error and "json" not in response.headers.get("Content-Type", ""):
        status = f"{response.status_code} {response.reason_phrase}"
        detail = f"{response.url} was answered {status} (through {proxy})"
        raise NearfieldError(response.status_code, "No answer of the service", detail)


def _proxy_of(address: httpx.URL) -> Proxy | None:
    """By HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY in either case; none for this machine."""
    if not address.host or _is_this_machine(address.host) or proxy_bypass(address.host):
        return None
    proxies = getproxies()
    for scheme in (address.scheme, "all"):
        if url := proxies.get(scheme):
            return Proxy(f"{scheme.upper()}_PROXY", url if "://" in url else f"http://{url}")
    return None


def _is_this_machine(host: str) -> bool:
    """Whether `host` is a name or an address of loopback, also 127.1, ::ffff:127.0.0.1, 0.0.0.0 and a.localhost."""
    try:
        address = ip_address(host)
    except ValueError:
        try:
            address = ip_address(socket.inet_aton(host))
        except OSError:
            return f".{host.rstrip('.')}".endswith(".localhost")
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified
