"""What the routes of webhooks ask of the engine's process."""

from __future__ import annotations

from msgspec import Struct

from service.extras.webhooks.webhook_file import EndOfJob


class MakeWebhook(Struct, frozen=True, tag=True):
    """Asks for a `MadeWebhook`, see `Webhooks.make`. Raises `InvalidRequest`, `TooManyWebhooks`."""

    url: str
    events: list[EndOfJob]


class ListWebhooks(Struct, frozen=True, tag=True):
    """Asks for a `WebhookList`."""


class RemoveWebhook(Struct, frozen=True, tag=True):
    """Asks for the `Webhook` that is removed. Raises `UnknownWebhook`."""

    webhook: str
