"""Whose request is being answered: the limits and the queue of the engine count by client."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple


class Client(NamedTuple):
    """Who asks: requests that agree in both are of one client.

    Attributes:
        address: as `service.api.client_address` names it; empty for what the service asks itself.
        key: `X-API-Key` as given, checked before; None where no key is needed.
    """

    address: str = ""
    key: bytes | None = None


NOBODY = Client()
current: ContextVar[Client] = ContextVar("client", default=NOBODY)
