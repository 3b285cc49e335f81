"""Starts the follower of a store for an engine."""

from __future__ import annotations

from collections.abc import Callable

from service.engine.engine import Engine
from service.extras.stores.follower import Follower
from service.extras.stores.store_head import store_of
from service.settings.settings import Settings
from service.storage.log.rating_log import RatingLog
from service.telemetry.metrics import Metrics

STORE = "store"  # the obstacle while there is no first copy


def start(
    settings: Settings, log: RatingLog, engine: Engine, metrics: Metrics, on_failure: Callable[[BaseException], None]
) -> Follower:
    """Follow the store in `settings`; the engine is not ready before the folder has a copy of it."""
    stages = engine.stages

    def tell(reason: str | None) -> None:
        if reason is None:
            stages.clear(STORE)
        else:
            stages.obstruct(STORE, reason)

    tell(f"the ratings and models of {settings.store} are being copied")
    follower = Follower(store_of(settings), settings.data, log, lambda: engine.as_of, tell, on_failure)
    metrics.store_age_seconds.set_function(lambda: follower.age_s)
    follower.start()
    return follower
