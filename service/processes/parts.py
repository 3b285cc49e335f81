"""The only list of extras: which of them this service has, and what they add."""

from __future__ import annotations

import functools
from collections.abc import Callable

from service.base.errors import InvalidSetting
from service.extras import Parts, console, exports, kafka, registry, stores, webhooks
from service.settings.settings import Settings

EXTRAS: list[Callable[[Parts], None]] = [
    console.register,
    exports.register,
    kafka.register,
    registry.register,
    stores.register,
    webhooks.register,
]


@functools.cache
def parts() -> Parts:
    """What all extras of `EXTRAS` add, the same object in every call."""
    made = Parts()
    for register in EXTRAS:
        register(made)
    return made


def check_store(settings: Settings) -> None:
    """Raise `InvalidSetting` if `store` is set and no extra can follow it."""
    if settings.store is not None and parts().follow is None:
        raise InvalidSetting("Invalid store: expected none, because this service has no extra for stores, got a URL")
