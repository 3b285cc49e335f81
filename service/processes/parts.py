"""The only list of extras: which of them this service has, and what they add."""

from __future__ import annotations

import functools
from collections.abc import Callable

from service.extras import (
    Parts,
    console,
    experiments,
    exports,
    kafka,
    ranks,
    registry,
    schedules,
    stores,
    traces,
    webhooks,
)
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings

EXTRAS: list[Callable[[Parts], None]] = [
    console.register,
    experiments.register,
    exports.register,
    kafka.register,
    ranks.register,
    registry.register,
    schedules.register,
    stores.register,
    traces.register,
    webhooks.register,
]


@functools.cache
def parts() -> Parts:
    """What all extras of `EXTRAS` add, the same object in every call."""
    made = Parts()
    for register in EXTRAS:
        register(made)
    return made


def check_extras(settings: Settings) -> None:
    """Raise `InvalidSetting` if a setting asks for an extra that this service does not have."""
    if settings.store is not None and parts().follow is None:
        raise InvalidSetting("Invalid store: expected none, because this service has no extra for stores, got a URL")
    if parts().schedule is None and any(one.schedules for one in settings.each()):
        raise InvalidSetting(
            "Invalid schedules: expected none, because this service has no extra for schedules, got some"
        )
    if settings.traces and parts().span_export is None:
        raise InvalidSetting("Invalid traces: expected false, because this service has no extra for traces, got true")
    if settings.trainer_ranks > 1 and parts().trainer is None:
        raise InvalidSetting(
            "Invalid trainer_ranks: expected 1, because this service has no extra for ranks, got"
            f" {settings.trainer_ranks}"
        )
    if settings.cluster is not None and parts().trainer is None:
        raise InvalidSetting("Invalid cluster: expected none, because this service has no extra for ranks, got a URL")
