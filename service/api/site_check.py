"""Without keys only this machine can reach the service, but so can every web page that a browser on it shows.

A page can send simple requests to any address (cross-site request forgery), and can have its own name resolved to this
machine (DNS rebinding). `Origin` shows the first, `Host` the second.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.errors import ForeignSite
from service.settings import is_loopback

MAX_KNOWN = 64  # names that are kept as checked
HEALTH_PREFIX = b"/health/"  # harmless, and asked under any name
_KEYS = "set NEARFIELD_API_KEY and NEARFIELD_ADMIN_KEY, or call it as localhost"


class SiteCheck:
    """Lets requests through that were sent to this machine by its own name, and not by a page of another site."""

    def __init__(self) -> None:
        self._known: set[bytes | None] = {None}

    def check(self, path: bytes, headers: Mapping[bytes, bytes]) -> None:
        """Return if `Host` and `Origin` are this machine's own; without a `Host` it is no browser.

        Raises:
            ForeignSite: they are not.
        """
        host = headers.get(b"host")
        if (host in self._known and b"origin" not in headers) or path.startswith(HEALTH_PREFIX):
            return
        if host is not None and host not in self._known:
            self._check_host(host)
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != host:
            raise ForeignSite(
                f"Invalid Origin: expected the service's own while no key is set, got {_shown(origin)}; {_KEYS}"
            )

    def _check_host(self, host: bytes) -> None:
        if not is_own(host):
            raise ForeignSite(
                f"Invalid Host: expected localhost or its address while no key is set, got {_shown(host)}; {_KEYS}"
            )
        if len(self._known) < MAX_KNOWN:
            self._known.add(host)


def is_own(host: bytes) -> bool:
    """Whether a `Host` header names this machine by a name that no one else can point to it."""
    name = host.decode("latin-1").lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0].removesuffix(".")
    return is_loopback(name) or name.endswith(".localhost")


def _shown(value: bytes) -> str:
    return repr(value[:128].decode("latin-1"))
