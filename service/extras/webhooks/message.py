"""What a webhook sends: the body, and the headers that sign it as the specification Standard Webhooks says."""

from __future__ import annotations

import base64
import hashlib
import hmac

import msgspec

from service.extras.webhooks.webhook_file import StoredWebhook
from service.jobs.jobs import Job
from service.settings import data_sets

_VERSION = "v1"  # of the kind of signature: HMAC-SHA256


class Message(msgspec.Struct):
    """The body.

    Attributes:
        type: the event, such as `train.succeeded`.
        data_set: of the job.
        job: as `GET /admin/jobs/{job}` has it.
    """

    type: str
    data_set: str
    job: Job


def body_of(job: Job, data_set: str) -> bytes:
    """The body for a job that has ended. `data_set` is empty for the default one."""
    return msgspec.json.encode(Message(f"{job.kind}.{job.state}", data_set or data_sets.DEFAULT, job))


def headers_of(webhook: StoredWebhook, delivery: str, body: bytes, now_s: int) -> dict[str, str]:
    """The headers of an attempt.

    Args:
        webhook: has the secret.
        delivery: the id of the delivery, which is the same in all attempts.
        body: as it is sent.
        now_s: the time of this attempt in Unix seconds, which is signed, so that an old request cannot be sent again.
    """
    signed = f"{delivery}.{now_s}.".encode() + body
    signature = base64.b64encode(hmac.new(webhook.key, signed, hashlib.sha256).digest()).decode()
    return {
        "content-type": "application/json",
        "user-agent": "Nearfield",
        "webhook-id": delivery,
        "webhook-timestamp": str(now_s),
        "webhook-signature": f"{_VERSION},{signature}",
    }
