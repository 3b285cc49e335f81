"""Webhooks: other systems are told that a job has ended."""

# ruff: noqa: PLC0415 (a command that serves nothing does not need the framework)
from __future__ import annotations

from typing import TYPE_CHECKING

from service.extras.webhooks.operations import ListWebhooks, MakeWebhook, RemoveWebhook

if TYPE_CHECKING:
    from service.api.app import Application
    from service.engine.engine import Engine
    from service.extras import OnFailure, Parts
    from service.extras.webhooks.deliverer import Deliverer
    from service.jobs.jobs import Jobs
    from service.processes.runtime import Runtime
    from service.settings.settings import Settings
    from service.telemetry.metrics import Metrics


def register(parts: Parts) -> None:
    """Add the routes of webhooks, what performs them, and what delivers."""
    parts.routes.append(_add_routes)
    parts.operations += [MakeWebhook, ListWebhooks, RemoveWebhook]
    parts.engine.append(_add_calls)
    parts.companions.append(_deliverer)


def _add_routes(app: Application) -> None:
    from service.extras.webhooks import routes

    app.add(routes.router)


def _add_calls(runtime: Runtime, _: Engine) -> None:
    from service.extras.webhooks.deliveries import Deliveries
    from service.extras.webhooks.webhooks import Webhooks
    from service.storage.streams.redis_server import url_of

    settings, blocking = runtime.settings, runtime.blocking
    deliveries = Deliveries(url_of(settings), settings.keyspace)
    runtime.to_stop.callback(deliveries.close)
    webhooks = Webhooks(settings, deliveries)
    runtime.calls |= {
        MakeWebhook: lambda asked: blocking(webhooks.make, asked.url, asked.events),
        ListWebhooks: lambda _: blocking(webhooks.list),
        RemoveWebhook: lambda asked: blocking(webhooks.remove, asked.webhook),
    }


def _deliverer(settings: Settings, jobs: Jobs, metrics: Metrics, on_failure: OnFailure) -> Deliverer:
    from service.extras.webhooks.deliverer import Deliverer
    from service.extras.webhooks.deliveries import Deliveries
    from service.storage.streams.redis_server import url_of

    return Deliverer(settings, jobs, Deliveries(url_of(settings), settings.keyspace), metrics, on_failure)
