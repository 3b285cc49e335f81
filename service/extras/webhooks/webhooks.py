"""`Webhooks`: makes, lists and removes the webhooks of a data set, for the routes."""

from __future__ import annotations

import contextlib

from msgspec import Struct

from service.api.serving import check_shared
from service.extras.webhooks import targets, webhook_file
from service.extras.webhooks.deliveries import Attempt, Deliveries
from service.extras.webhooks.webhook_file import EndOfJob, Webhook
from service.settings.settings import Settings
from service.storage.errors import StreamUnavailable

WITHOUT_STORE = "it is not available with NEARFIELD_STORE"


class MadeWebhook(Webhook):
    """A new webhook; `secret` is in no other answer."""

    secret: str


class ListedWebhook(Webhook):
    """A webhook and what became of its deliveries.

    Attributes:
        waiting: deliveries that have not ended.
        next_ms: Unix milliseconds of the next attempt; null if none waits.
        delivered, given_up: deliveries that have ended.
        last: the last attempt; null before it.
    """

    waiting: int
    next_ms: int | None
    delivered: int
    given_up: int
    last: Attempt | None


class WebhookList(Struct):
    """All webhooks, the oldest first."""

    webhooks: list[ListedWebhook]


class Webhooks:
    """The webhooks of a data set. Every method blocks for the disk; `webhook_file` has the errors."""

    def __init__(self, settings: Settings, deliveries: Deliveries) -> None:
        """Prepare for the data set of these settings."""
        self._settings, self._deliveries = settings, deliveries

    def make(self, url: str, events: list[EndOfJob]) -> MadeWebhook:
        """Make a webhook for these ends of jobs.

        Raises:
            InvalidRequest: the target cannot be used.
            Conflict: this replica follows a store.
        """
        check_shared(self._settings, "a webhook", WITHOUT_STORE)
        targets.check_now(url, self._settings.webhook_networks)
        webhook = webhook_file.add(self._settings.data, url, events)
        return MadeWebhook(**{name: getattr(webhook, name) for name in MadeWebhook.__struct_fields__})

    def list(self) -> WebhookList:
        """All webhooks; raises `StreamUnavailable`, too."""
        webhooks = [webhook_file.shown(webhook) for webhook in webhook_file.read(self._settings.data)]
        progress = self._deliveries.progress(webhook.id for webhook in webhooks)
        return WebhookList(
            [
                ListedWebhook(
                    webhook.id, webhook.url, webhook.events, webhook.created_ms, **progress[webhook.id]._asdict()
                )
                for webhook in webhooks
            ]
        )

    def remove(self, webhook_id: str) -> Webhook:
        """Remove a webhook; what is to be delivered to it is dropped."""
        check_shared(self._settings, "the removal of a webhook", WITHOUT_STORE)
        removed = webhook_file.remove(self._settings.data, webhook_id)
        with contextlib.suppress(StreamUnavailable):  # the deliverer does it later
            self._deliveries.forget(webhook_id)
        return removed
