"""Schemas of the routes for webhooks."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field

from service.api.parsers.few_faults import few_faults
from service.api.schemas.common_schemas import Strict
from service.extras.webhooks.targets import MAX_URL_LENGTH
from service.extras.webhooks.webhook_file import EndOfJob

ALL_EVENTS: list[EndOfJob] = list(get_args(EndOfJob))


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
