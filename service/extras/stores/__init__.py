"""Stores outside the machine: what a worker publishes and replicas follow."""

# ruff: noqa: PLC0415 (a command that follows no store does not need these)
from __future__ import annotations

from typing import TYPE_CHECKING

from service.extras.stores.names import HEAD_FILE, OWNER_FILE

if TYPE_CHECKING:
    from service.engine.engine import Engine
    from service.extras import OnFailure, Parts
    from service.extras.stores.follower import Follower
    from service.extras.stores.publisher import Publisher
    from service.settings.settings import Settings
    from service.storage.log.rating_log import RatingLog
    from service.storage.streams.stream import Stream
    from service.telemetry.metrics import Metrics

STORE = "store"  # the obstacle while there is no first copy


def register(parts: Parts) -> None:
    """Add what follows a store, and what publishes to one."""
    parts.follow, parts.publish = _follow, _publish
    parts.check_serve.append(_check_serve)
    parts.check_worker.append(_check_worker)
    parts.names += [HEAD_FILE, OWNER_FILE]


def _check_serve(settings: Settings) -> None:
    from service.extras.stores import follower

    follower.check(settings)


def _check_worker(settings: Settings) -> None:
    from service.extras.stores import publisher

    publisher.check(settings)


def _follow(settings: Settings, log: RatingLog, engine: Engine, metrics: Metrics, on_failure: OnFailure) -> Follower:
    """Start to follow the store in `settings`; the engine is not ready before the folder has a copy of it."""
    from service.extras.stores.follower import Follower
    from service.extras.stores.store_head import store_of

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


def _publish(settings: Settings, stream: Stream, log: RatingLog, on_failure: OnFailure) -> Publisher:
    from service.extras.stores.publisher import Publisher
    from service.extras.stores.store_head import store_of

    return Publisher(store_of(settings), settings.data, stream, log, on_failure)
