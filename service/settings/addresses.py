"""Settings that are addresses: hosts, origins of pages, networks of proxies, the URL of Redis."""

from __future__ import annotations

import ipaddress
import re

from pydantic import ValidationInfo

from service.settings.environment import is_redis_url

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s*]+")
_DEFAULT_PORT = re.compile(r"http://.*:80|https://.*:443")  # which no browser sends


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; a name other than localhost counts as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_networks(value: list[str], info: ValidationInfo) -> list[str]:
    """The networks of a setting; `ValueError` if one is none."""
    for text in value:
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            raise ValueError(
                f"Invalid {info.field_name}: expected networks such as 10.0.0.0/8 or 127.0.0.1, got {text!r}: {error}"
            ) from None
    return value


def check_redis(value: str | None) -> str | None:
    """The URL of `redis`, or None; `ValueError` if it is no URL."""
    if value is not None and not is_redis_url(value):
        raise ValueError(
            "Invalid redis: expected a URL (redis://USER:PASSWORD@HOST:PORT, rediss://HOST:PORT or unix:///PATH, a"
            " password percent-encoded), or none at all for an embedded server"
        )
    return value


def check_origins(value: list[str]) -> list[str]:
    """The origins of `cors_origins` in lower case, as browsers send them; `ValueError` if one is none."""
    origins = [text.lower() for text in value]
    if origins == ["*"]:
        return origins
    for text in origins:
        if not _ORIGIN.fullmatch(text) or _DEFAULT_PORT.fullmatch(text):
            raise ValueError(
                "Invalid cors_origins: expected origins such as https://shop.example or http://localhost:3000, without"
                f" a path or the default port, or * alone, got {text!r}"
            )
    return origins
