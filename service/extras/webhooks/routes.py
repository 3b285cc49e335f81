"""Webhooks: other systems are told that a job has ended."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from service.api.dependencies import PathName, TheService, answers
from service.api.door.audit import made
from service.api.door.route import Route
from service.api.openapi import examples
from service.api.parsers.bodies import JSON
from service.api.requests import NoParameters, Strict, few_faults
from service.extras.webhooks.operations import ListWebhooks, MakeWebhook, RemoveWebhook
from service.extras.webhooks.targets import MAX_URL_LENGTH
from service.extras.webhooks.webhook_file import EndOfJob, Webhook
from service.extras.webhooks.webhooks import MadeWebhook, WebhookList

ALL_EVENTS: list[EndOfJob] = list(get_args(EndOfJob))

router = APIRouter(route_class=Route, prefix="/admin/webhooks", tags=["admin"])
NoQuery = Annotated[NoParameters, Query()]


class WebhookBody(Strict):
    """Body of `POST /admin/webhooks`."""

    url: str = Field(
        min_length=1,
        max_length=MAX_URL_LENGTH,
        description="Target: http or https, without user and password. Its host has public addresses alone, or ones in"
        " the networks of the setting `webhook_networks`.",
    )
    events: Annotated[
        list[EndOfJob],
        Field(min_length=1, max_length=len(ALL_EVENTS), description="Ends of jobs to tell, KIND.STATE. Default: all."),
        few_faults(EndOfJob, len(ALL_EVENTS)),
    ] = Field(default_factory=ALL_EVENTS.copy)


@router.post(
    "",
    status_code=201,
    responses=answers(MadeWebhook, 201, "Made; no other answer shows the secret", http_409="Too many webhooks"),
)
async def make_webhook(body: WebhookBody, query: NoQuery, serving: TheService) -> Response:
    """Send a signed request to a URL whenever a job ends, and again until it is accepted."""
    events = list(dict.fromkeys(body.events))
    answer = made("webhook", await serving.operate(MakeWebhook(body.url, events)))
    return Response(answer, 201, {"cache-control": "no-store"}, JSON.decode())


@router.get("", responses=answers(WebhookList))
async def list_webhooks(query: NoQuery, serving: TheService) -> bytes:
    """All webhooks without their secrets, and what became of their deliveries."""
    return await serving.operate(ListWebhooks())


@router.delete("/{webhook}", responses=answers(Webhook, http_404="Unknown webhook"))
async def remove_webhook(webhook: PathName, query: NoQuery, serving: TheService) -> bytes:
    """Remove a webhook; what is still to be delivered to it is dropped."""
    return await serving.operate(RemoveWebhook(webhook))


_ID = "0c4b7d8e21fa"
_bodies: dict[str, dict[str, Any]] = {
    "trainings": {"url": "https://example.com/jobs", "events": ["train.succeeded", "train.failed"]},
    "all jobs": {"url": "https://example.com/jobs"},
}
_webhook = {"id": _ID, **_bodies["trainings"], "created_ms": 1795232220635}
_attempt = {
    "job": examples.JOB,
    "attempt": 2,
    "outcome": "failed",
    "error": "expected a status of 2xx, got 500",
    "ended_ms": 1795232239901,
}
_listed = {
    **_webhook,
    "waiting": 1,
    "next_ms": 1795232243901,
    "delivered": 12,
    "given_up": 0,
    "last": _attempt,
}
examples.PARAMETERS["webhook"] = _ID
examples.BODIES["make_webhook"] = _bodies
examples.COMPONENTS |= {
    "Attempt": _attempt,
    "ListedWebhook": _listed,
    "MadeWebhook": {**_webhook, "secret": "whsec_" + 42 * "A" + "E="},
    "Webhook": _webhook,
    "WebhookBody": _bodies["trainings"],
    "WebhookList": {"webhooks": [_listed]},
}
