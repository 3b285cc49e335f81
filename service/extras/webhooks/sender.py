"""`Sender`: one request to the target of a webhook."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence

import httpx

from service.base.errors import InvalidRequest
from service.extras.webhooks import targets
from service.extras.webhooks.targets import Target

TIMEOUT_S = 5.0  # seconds for an attempt in all: to resolve the name, connect, send, and get the status
CONNECT_TIMEOUT_S = 2.0  # seconds for one of several addresses


class Sender:
    """Sends requests to targets that were checked. Belongs to one event loop."""

    def __init__(self, networks: Sequence[str]) -> None:
        """`networks` of ours may be reached, see the setting `webhook_networks`."""
        self._networks = networks
        self._tls: ssl.SSLContext | None = None  # made once, for the first target of https: it takes 20 ms

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> str | None:
        """Send a request; returns why it was not accepted, or None if the target has answered with 2xx."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                target = targets.parse(url)
                addresses = await asyncio.wrap_future(targets.resolving(target))
                targets.check(target, addresses, self._networks)
                for address in addresses:
                    try:
                        status = await self.status_at(address, target, headers, body)
                        break
                    except (httpx.ConnectError, httpx.ConnectTimeout):
                        if address == addresses[-1]:
                            raise
        except TimeoutError:
            return f"no answer within {TIMEOUT_S:g} s"
        except InvalidRequest as error:
            return str(error)
        except (httpx.HTTPError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return None if 200 <= status < 300 else f"expected a status of 2xx, got {status}"

    async def status_at(self, address: str, target: Target, headers: Mapping[str, str], body: bytes) -> int:
        """The status that the target answers at one address. No redirect is followed, and no body is read."""
        url = target.url.copy_with(host=address)
        headers = {**headers, "host": target.url.netloc.decode(), "connection": "close"}
        timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        verify: ssl.SSLContext | bool = False
        if target.url.scheme != "http":
            verify = self._tls = self._tls or httpx.create_ssl_context()
        # Without `trust_env`, no proxy of the environment resolves the name once more.
        async with httpx.AsyncClient(verify=verify, trust_env=False, timeout=timeout) as client:
            extensions = {"sni_hostname": target.host.removesuffix(".")}
            async with client.stream("POST", url, content=body, headers=headers, extensions=extensions) as response:
                return response.status_code
