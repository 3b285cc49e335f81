"""`SiteCheck`: refuses requests of web pages of other sites while no key is set.

Without keys the service listens on this machine only, but a web page in a browser on this machine can reach it. A page
can send simple requests to any address (cross-site request forgery), and can have its own name resolved to this machine
(DNS rebinding). `Origin` shows the first attack, `Host` the second. A picture or a link sends no `Origin`, and may
start an export: `Sec-Fetch-Site` tells of it. Pages of the console are checked with keys too, as browsers keep its
sessions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from service.api.door.auth import CONSOLE_PREFIX
from service.api.errors import ForeignSite
from service.settings.addresses import is_loopback

MAX_CHECKED = 64  # host names that are cached as checked
HEALTH_PREFIX = b"/health/"  # harmless, and probes use any host name
OF_OTHER_SITES = frozenset((b"cross-site", b"same-site"))  # another port or host of the same domain is not ours
PAGES = frozenset((b"/", b"/docs", b"/console"))  # to which others may have links
_KEYS = "set NEARFIELD_API_KEY and NEARFIELD_ADMIN_KEY, or call it as localhost"


class SiteCheck:
    """Admits requests that use this machine's own name and do not come from a page of another site.

    Args:
        origins: sites that are not refused: their pages may use the service by the setting `cors_origins`.
    """

    def __init__(self, origins: Collection[bytes] = ()) -> None:
        self._origins = origins
        self._checked: set[bytes | None] = {None}

    def check(self, path: bytes, headers: Mapping[bytes, bytes]) -> None:
        """Check that `Host` and `Origin` are this machine's own; a request without `Host` does not come from a browser.

        Raises:
            ForeignSite: they are not.
        """
        host = headers.get(b"host")
        is_fetched = headers.get(b"sec-fetch-site") in OF_OTHER_SITES
        if (host in self._checked and b"origin" not in headers and not is_fetched) or path.startswith(HEALTH_PREFIX):
            return
        if host is not None and host not in self._checked:
            self._check_host(host)
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != host and origin not in self._origins:
            raise ForeignSite(
                f"Invalid Origin: expected the service's own while no key is set, got {_shown(origin)}; {_KEYS}"
            )
        if origin is None:
            check_fetch(path, headers)

    def _check_host(self, host: bytes) -> None:
        if not is_own(host):
            raise ForeignSite(
                f"Invalid Host: expected localhost or its address while no key is set, got {_shown(host)}; {_KEYS}"
            )
        if len(self._checked) < MAX_CHECKED:
            self._checked.add(host)


def check_fetch(path: bytes, headers: Mapping[bytes, bytes]) -> None:
    """Check that no page of another site makes the browser ask for `path`; it may lead a person to a page.

    Raises:
        ForeignSite: it does.
    """
    site = headers.get(b"sec-fetch-site")
    if site not in OF_OTHER_SITES:
        return
    is_visit = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest", b"") == b"document"
    if not (is_visit and (path in PAGES or path.startswith(CONSOLE_PREFIX))):
        raise ForeignSite(f"Invalid Sec-Fetch-Site: expected same-origin or none, got {_shown(site or b'')}; {_KEYS}")


def is_own(host: bytes) -> bool:
    """Whether a `Host` header has a name of this machine that no other person's DNS can resolve to it."""
    name = host.decode("latin-1").lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0].removesuffix(".")
    return is_loopback(name) or name.endswith(".localhost")


def _shown(value: bytes) -> str:
    return repr(value[:128].decode("latin-1"))
