"""Writes of ratings. A 202 is sent only after the stream has them."""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from service.api.dependencies import ItemId, TheService, UserId, answers, reply
from service.api.examples import ITEM, USER
from service.api.gateway import FastRequest
from service.api.rating_parser import ANY_SCALE, read_ratings
from service.api.schemas import Accepted, NoParameters, Written
from service.ids import MAX_ID_BYTES
from service.limits import MAX_RATING
from service.serving import Serving
from service.storage.events import RatingEvent, encode_ratings

router = APIRouter(tags=["ratings"])

_ID = {"type": "string", "minLength": 1, "maxLength": MAX_ID_BYTES}
_RATING = {
    "type": "object",
    "title": "Rating",
    "required": ["user", "item", "rating"],
    "additionalProperties": False,
    "properties": {
        "user": _ID | {"examples": [USER]},
        "item": _ID | {"examples": [ITEM]},
        "rating": {"type": "number", "minimum": -MAX_RATING, "maximum": MAX_RATING, "examples": [4.5]},
        "timestamp": {
            "type": "number",
            "description": "Unix seconds; default: now. Never decides order.",
            "examples": [1.7e9],
        },
    },
}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"oneOf": [_RATING, {"type": "array", "items": _RATING}]}}},
    }
}


@router.post("/ratings", status_code=202, responses=answers(Accepted, 202, "Durable"), openapi_extra=_BODY)
async def post_ratings(request: Request, query: Annotated[NoParameters, Query()], serving: TheService) -> Response:
    """Post one rating, or an array whose elements are checked one by one. A rating replaces the earlier one."""
    started = time.perf_counter()
    return reply(await _accepted(serving, await request.body(), started), 202)


class RatingsRoute:
    """Fast route of `POST /ratings` for requests with a plain body; others go to the route above."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def __call__(self, fast_request: FastRequest) -> bytes | None:
        """The body of the answer, or None if the request is unusual."""
        if fast_request.tail != b"ratings" or fast_request.query or not fast_request.length:
            return None
        return await _accepted(self._serving, await _body(fast_request.receive), fast_request.started)


async def _accepted(serving: Serving, body: bytes, started: float) -> bytes:
    """Check the ratings, append them, and return the answer."""
    settings, metrics = serving.settings, serving.metrics
    scale = settings.rating_scale or ANY_SCALE
    accepted, rejected = read_ratings(body, time.time(), scale, settings.max_ratings)
    await serving.check_new_ids(accepted)
    stream_id = str(await serving.append(encode_ratings(accepted))) if accepted else None
    metrics.ratings_accepted.inc(len(accepted))
    metrics.ratings_rejected.inc(len(rejected))
    took_ms = round((time.perf_counter() - started) * 1000, 3)
    return msgspec.json.encode(Accepted(len(accepted), rejected, stream_id, took_ms))


async def _body(receive: Receive) -> bytes:
    """The whole body; its length has been checked."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


@router.delete("/ratings/{user}/{item}", status_code=202, responses=answers(Written, 202, "Durable"))
async def delete_rating(
    user: UserId, item: ItemId, query: Annotated[NoParameters, Query()], serving: TheService
) -> Response:
    """Delete one rating. Deleting a rating that does not exist is accepted too."""
    deletion = RatingEvent(user, item, None, time.time())
    await serving.check_new_ids([deletion])  # a deletion gives new ids rows, as a rating does
    stream_id = await serving.append(encode_ratings([deletion]))
    serving.metrics.ratings_accepted.inc()
    return reply(msgspec.json.encode(Written(str(stream_id))), 202)
