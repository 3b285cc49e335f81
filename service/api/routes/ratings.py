"""Writes of ratings and events. A 202 is sent only after the stream has them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from msgspec import UNSET, UnsetType

from service.api.answers import Accepted, Written
from service.api.dependencies import (
    EventKey,
    ItemId,
    SourceName,
    SourceOffset,
    TheKeys,
    TheService,
    UserId,
    answers,
    durable,
    elements,
    source_of,
)
from service.api.door.route import Call, Route
from service.api.openapi.components import element_of
from service.api.openapi.examples import ITEM, USER
from service.api.parsers.bodies import body_of, of_large
from service.api.parsers.elements import Intake
from service.api.parsers.event_parser import read_events
from service.api.parsers.rating_parser import ANY_SCALE, read_ratings
from service.api.requests import NoParameters
from service.api.serving import Serving
from service.base.errors import Unavailable
from service.base.recommendation_ids import RecommendationIds, content_of
from service.base.signing import Signer
from service.engine.queries.rating_queries import RetractionTold, WasRetracted
from service.engine.queries.source_queries import CheckSource, SourceTold, WasSkipped
from service.storage import signing_key
from service.storage.events import (
    Element,
    Fields,
    RatingEvent,
    Retraction,
    StreamId,
    TypedEvent,
    encode_events,
    encode_ratings,
    encode_retraction,
)
from service.storage.sources import Source

router = APIRouter(route_class=Route, tags=["ratings"])


class RetractedEvent(msgspec.Struct):
    """The answer to `DELETE /users/{user}/events/{event_id}`.

    Attributes:
        stream_id: a read with `wait_for` of it sees the change.
        removed: false if the event was not among the last of the user with an id; null if that is not known in time.
    """

    stream_id: str
    removed: bool | None


_RATINGS_BODY = elements("PostedRating", element_of(RatingEvent, user=USER, item=ITEM, rating=4.5))
_EVENTS_BODY = elements("PostedEvent", element_of(TypedEvent, user=USER, item=ITEM))


@router.post("/ratings", status_code=202, responses=durable(Accepted), openapi_extra=_RATINGS_BODY)
async def post_ratings(
    request: Call,
    query: Annotated[NoParameters, Query()],
    serving: TheService,
    keys: TheKeys,
    name: SourceName = None,
    offset: SourceOffset = None,
) -> bytes:
    """Post one rating, or an array whose elements are checked one by one. A rating replaces the earlier one."""
    settings, metrics = serving.settings, serving.metrics
    scale, source = settings.rating_scale or ANY_SCALE, source_of(name, offset, keys)
    body = body_of(request.content, request.known)
    intake = await of_large(body, read_ratings, time.time(), scale, settings.max_ratings)
    answer = await _written(serving, intake, partial(encode_ratings, source=source), request.started, source)
    metrics.ratings_accepted.inc(len(intake.accepted))
    metrics.ratings_rejected.inc(len(intake.rejected))
    return answer


@router.post("/events", status_code=202, responses=durable(Accepted), openapi_extra=_EVENTS_BODY)
async def post_events(
    request: Call,
    query: Annotated[NoParameters, Query()],
    serving: TheService,
    keys: TheKeys,
    name: SourceName = None,
    offset: SourceOffset = None,
) -> bytes:
    """Post one event, or an array whose elements are checked one by one. Events of a user and an item add up."""
    settings, metrics = serving.settings, serving.metrics
    ids = RecommendationIds(Signer(partial(signing_key.read, settings.data)))  # reads the key only for an id
    body, source = body_of(request.content, request.known), source_of(name, offset, keys)
    intake = await of_large(body, read_events, time.time(), settings.event_types, settings.max_ratings, ids)
    answer = await _written(serving, intake, partial(encode_events, source=source), request.started, source)
    metrics.events_accepted.inc(len(intake.accepted))
    metrics.events_rejected.inc(len(intake.rejected))
    for event in intake.accepted:
        if event.recommendation_id is not None:
            shown = content_of(event.recommendation_id)
            metrics.attributed.labels(shown.experiment, shown.arm, event.type).inc()
    return answer


async def _written(
    serving: Serving,
    intake: Intake[Element],
    encode: Callable[[Sequence[Element]], Fields],
    started: float,
    source: Source | None,
) -> bytes:
    """Append the accepted elements as one entry, and return the answer."""
    accepted, rejected = intake
    if source is not None and accepted:
        await serving.answer(CheckSource(source))
    await serving.check_new_ids(accepted)
    stream_id = await serving.append(encode(accepted)) if accepted else None
    skipped: int | UnsetType | None = UNSET if source is None else 0
    if source is not None and stream_id is not None:
        skipped = await _skipped(serving, source.name, stream_id, len(accepted))
    took_ms = round((time.perf_counter() - started) * 1000, 3)
    position = None if stream_id is None else str(stream_id)
    return msgspec.json.encode(Accepted(len(accepted), rejected, position, took_ms, skipped))


async def _skipped(serving: Serving, source: str, stream_id: StreamId, n_elements: int) -> int | None:
    """How many elements of an entry do not count, once the engine has learned it; None if that takes too long.

    Only the order of the stream decides: a batch that was sent twice at once counts once.
    """
    try:
        told = msgspec.json.decode(await serving.answer(WasSkipped(str(stream_id)), stream_id), type=SourceTold)
    except Unavailable:  # the entry is durable all the same
        return None
    if not told.was_skipped:
        return 0
    serving.metrics.count_skipped(source, n_elements)
    return n_elements


@router.delete("/ratings/{user}/{item}", status_code=202, responses=durable(Written))
async def delete_rating(
    user: UserId, item: ItemId, query: Annotated[NoParameters, Query()], serving: TheService
) -> bytes:
    """Delete one rating. Deleting a rating that does not exist is accepted too."""
    deletion = RatingEvent(user, item, None, time.time())
    await serving.check_new_ids([deletion])  # a deletion gives new ids rows, as a rating does
    stream_id = await serving.append(encode_ratings([deletion]))
    serving.metrics.ratings_accepted.inc()
    return msgspec.json.encode(Written(str(stream_id)))


@router.delete("/users/{user}/events/{event_id}", status_code=202, responses=answers(RetractedEvent, 202, "Durable"))
async def delete_event(
    user: UserId, event_id: EventKey, query: Annotated[NoParameters, Query()], serving: TheService
) -> bytes:
    """Take one of the last 64 events with an `event_id` of a user back, as if it had not come."""
    stream_id = await serving.append(encode_retraction(Retraction(user, event_id)))
    removed = None
    with contextlib.suppress(Unavailable):  # durable all the same
        told = await serving.answer(WasRetracted(str(stream_id)), stream_id)
        removed = msgspec.json.decode(told, type=RetractionTold).was_retracted
    return msgspec.json.encode(RetractedEvent(str(stream_id), removed))
