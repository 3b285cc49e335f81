"""`DATA/webhooks.json`: the webhooks of a data set, for every process that shares DATA.

It has the secrets themselves, because signatures need them. Its mode is 0600.
"""

from __future__ import annotations

import base64
import secrets
import time
from pathlib import Path
from typing import Literal

from msgspec import Struct

from service.base.errors import Conflict, NotFound
from service.storage import sealed_file
from service.storage.sealed_file import WEBHOOKS_FILE

MAX_WEBHOOKS = 20  # of one data set
SECRET_PREFIX = "whsec_"  # noqa: S105 (that of Standard Webhooks, by which scanners find leaked secrets)
_SECRET_BYTES, _ID_BYTES = 32, 6

EndOfJob = Literal[
    "train.succeeded", "train.failed", "train.cancelled",
    "lists.succeeded", "lists.failed", "lists.cancelled",
    "forget.succeeded", "forget.failed", "forget.cancelled",
    "undo.succeeded", "undo.failed", "undo.cancelled",
]  # fmt: skip


class UnknownWebhook(NotFound):
    """No webhook has that id."""

    slug, title = "unknown-webhook", "Unknown webhook"


class TooManyWebhooks(Conflict):
    """As many webhooks exist as may."""

    slug, title = "too-many-webhooks", "Too many webhooks"


class Webhook(Struct):
    """A webhook without its secret.

    Attributes:
        id: by which it is removed.
        url: the target.
        events: the ends of jobs that it tells.
        created_ms: Unix milliseconds at which it was made.
    """

    id: str
    url: str
    events: list[EndOfJob]
    created_ms: int


class StoredWebhook(Webhook, forbid_unknown_fields=True):
    """A webhook as it is stored: with its secret, `whsec_` and base64."""

    secret: str

    @property
    def key(self) -> bytes:
        """The key of its signatures."""
        return base64.b64decode(self.secret.removeprefix(SECRET_PREFIX))


def read(data: Path) -> list[StoredWebhook]:
    """All webhooks, the oldest first.

    Raises:
        CorruptFile: the file is torn or altered.
    """
    return sealed_file.read(data / WEBHOOKS_FILE, list[StoredWebhook]) or []


def add(data: Path, url: str, events: list[EndOfJob]) -> StoredWebhook:
    """Make a webhook with a new secret; it is on disk on return.

    Raises:
        TooManyWebhooks: there are `MAX_WEBHOOKS`.
        CorruptFile: see `read`.
        LockTimeout: another process holds the lock of the file.
    """
    secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
    webhook = StoredWebhook(secrets.token_hex(_ID_BYTES), url, events, int(time.time() * 1000), secret)
    with sealed_file.locked(data / WEBHOOKS_FILE):
        webhooks = read(data)
        if len(webhooks) >= MAX_WEBHOOKS:
            raise TooManyWebhooks(f"Invalid webhook: expected at most {MAX_WEBHOOKS}, got one more; remove one first")
        sealed_file.write(data / WEBHOOKS_FILE, [*webhooks, webhook])
    return webhook


def remove(data: Path, webhook_id: str) -> Webhook:
    """Remove a webhook; the file is on disk on return.

    Raises:
        UnknownWebhook: none has that id.
        CorruptFile, LockTimeout: see `add`.
    """
    with sealed_file.locked(data / WEBHOOKS_FILE):
        webhooks = read(data)
        left = [webhook for webhook in webhooks if webhook.id != webhook_id]
        if len(left) == len(webhooks):
            raise UnknownWebhook(f"Invalid webhook: expected the id of one, got {webhook_id[:64]!r}")
        sealed_file.write(data / WEBHOOKS_FILE, left)
    return shown(next(webhook for webhook in webhooks if webhook.id == webhook_id))


def shown(webhook: StoredWebhook) -> Webhook:
    """The webhook without its secret."""
    return Webhook(**{name: getattr(webhook, name) for name in Webhook.__struct_fields__})
