"""`Deliverer`: the thread that tells webhooks which jobs have ended, in the process that supervises jobs."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec
import structlog

from service.base.backoff import Backoff
from service.base.threads import PartThread, unheard
from service.extras.webhooks import webhook_file
from service.extras.webhooks.deliveries import Attempt, Claimed, Deliveries, Outcome
from service.extras.webhooks.sender import Sender
from service.extras.webhooks.webhook_file import StoredWebhook
from service.jobs.errors import UnknownJob
from service.jobs.jobs import Job, Jobs
from service.settings import data_sets
from service.settings.settings import Settings
from service.storage.errors import StreamUnavailable
from service.telemetry.metrics import Metrics

_VERSION = "v1"  # of the kind of signature: HMAC-SHA256

POLL_S, IDLE_POLL_S = 0.2, 2.0  # seconds between two looks at what is due, during attempts and without one
# Pauses of 1, 4, 16, 64, 256 and 1,024 seconds, then of an hour: the last attempt begins 5.4 hours after the first.
FIRST_PAUSE_S, GROWTH, LONGEST_PAUSE_S = 1, 4, 3600
MAX_ATTEMPTS = 12

_log = structlog.get_logger(__name__)


class _Work(NamedTuple):
    """A delivery with what it needs."""

    claimed: Claimed
    webhook: StoredWebhook
    body: bytes


class Deliverer:
    """Attempts deliveries that are due: one at a time to a webhook, so that none waits for the target of another."""

    def __init__(
        self,
        settings: Settings,
        jobs: Jobs,
        deliveries: Deliveries,
        metrics: Metrics,
        on_failure: Callable[[BaseException], None] = unheard,
    ) -> None:
        """Prepare; `start` starts the thread. `on_failure`: see `PartThread`."""
        self._settings, self._jobs, self._deliveries, self._metrics = settings, jobs, deliveries, metrics
        self._sender = Sender(settings.webhook_networks)
        self._attempts: dict[str, asyncio.Task[None]] = {}  # by webhook
        self._stopping = threading.Event()
        self._thread = PartThread("webhooks", lambda: asyncio.run(self._run()), on_failure)

    def start(self) -> None:
        """Start to deliver."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Attempts that have not ended are made again by the next process."""
        self._stopping.set()
        self._thread.join()
        self._deliveries.close()

    async def _run(self) -> None:
        backoff = Backoff("the delivery to webhooks", self._stopping)
        while not self._stopping.is_set():
            try:
                while (work := await asyncio.to_thread(self._next, list(self._attempts))) is not None:
                    self._attempts[work.webhook.id] = asyncio.create_task(self._attempt(work))
                backoff.worked()
            except Exception as error:  # Redis is gone, or an unforeseen error: neither may end this thread
                await asyncio.to_thread(backoff.failed, error)
            await asyncio.sleep(POLL_S if self._attempts else IDLE_POLL_S)
        for task in self._attempts.values():
            task.cancel()
        await asyncio.gather(*self._attempts.values(), return_exceptions=True)

    # --- outside of the event loop, because they wait for Redis and the disk

    def _next(self, busy: Collection[str]) -> _Work | None:
        """The next delivery that is due to a webhook that is not `busy`, after all ended jobs were shared."""
        while (due := self._deliveries.next(busy)) is not None:
            webhooks = webhook_file.read(self._settings.data)
            if not isinstance(due, Claimed):
                job = self._job(due)
                event = "" if job is None else f"{job.kind}.{job.state}"
                self._deliveries.share(due, [webhook.id for webhook in webhooks if event in webhook.events])
            elif (webhook := next((each for each in webhooks if each.id == due.webhook), None)) is None:
                self._deliveries.forget(due.webhook)  # it has been removed
            elif (job := self._job(due.job)) is None:
                self._deliveries.drop(due)  # it is not listed any more
            else:
                return _Work(due, webhook, body_of(job, self._settings.data_set))
        return None

    def _job(self, job_id: str) -> Job | None:
        try:
            return self._jobs.get(job_id)
        except UnknownJob:
            return None

    # --- one attempt

    async def _attempt(self, work: _Work) -> None:
        claimed = work.claimed
        try:
            headers = headers_of(work.webhook, claimed.id, work.body, int(time.time()))
            error = await self._sender.post(work.webhook.url, headers, work.body)
            is_last = error is None or claimed.attempt >= MAX_ATTEMPTS
            outcome: Outcome = "delivered" if error is None else "given-up" if is_last else "failed"
            attempt = Attempt(claimed.job, claimed.attempt, outcome, error, int(time.time() * 1000))
            pause_ms = None if is_last else 1000 * pause_s(claimed.attempt)
            await asyncio.to_thread(self._deliveries.settle, claimed, attempt, pause_ms)
            self._metrics.webhook_attempts.labels(outcome).inc()
            if outcome == "given-up":
                _log.warning("a webhook was given up for a job", webhook=claimed.webhook, job=claimed.job, error=error)
        except asyncio.CancelledError:
            self._deliveries.put_back(claimed)
        except StreamUnavailable:
            pass  # the lease ends, and another attempt begins
        except Exception as error:
            _log.error("a webhook cannot be told", webhook=claimed.webhook, job=claimed.job, exc_info=error)
        finally:
            del self._attempts[work.webhook.id]


def pause_s(attempt: int) -> int:
    """Seconds between this failed attempt, counted from 1, and the next one."""
    return int(min(FIRST_PAUSE_S * GROWTH ** (attempt - 1), LONGEST_PAUSE_S))


class Message(msgspec.Struct):
    """The body of a request to a webhook.

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
    """The headers of an attempt, which sign it as the specification Standard Webhooks says.

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
