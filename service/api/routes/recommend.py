"""Recommendations: GET, and POST for long filters, several users, or an anonymous user."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl

import msgspec
from fastapi import APIRouter, Query
from msgspec import structs
from pydantic import Discriminator, Tag, ValidationError

from service.api.dependencies import GONE, TheScenarios, TheService, UserId, answers, check_n
from service.api.door.plain_lists import Page
from service.api.door.route import MAX_KEPT, MAX_KEPT_BYTES, Call, Route
from service.api.list_requests import AnonymousBody, LatestQuery, PopularQuery, RecommendBody, RecommendQuery, UsersBody
from service.api.requests import NoParameters
from service.api.serving import Serving
from service.base.errors import InvalidRequest
from service.engine.fairness import MAX_COST, MAX_RESULTS, cost_of_list
from service.engine.queries import OfRequest, PopularItems, Recommend, Recommendation
from service.engine.queries.encoding import finished
from service.engine.queries.filter_parser import PARAMETERS
from service.engine.queries.rules import check_rules

router = APIRouter(route_class=Route, tags=["recommendations"])
# A `Recommendation` as clients get it.
Answer: Any = msgspec.defstruct(
    Recommendation.__name__,
    [(field.name, field.type, field.default) for field in structs.fields(OfRequest)],
    bases=(Recommendation,),
    namespace={"__doc__": Recommendation.__doc__},
)
PLAIN_FIELDS = {"n", "offset", "model"}
UNKNOWN_USER = "Unknown user with fallback=none, or no live model of that name"


def kind_of(body: Any) -> str | None:
    """Which body was sent, by its fields; None if it could be neither or both. So only the faults of one are told."""
    kinds = {"users": UsersBody.__name__, "ratings": AnonymousBody.__name__, "events": AnonymousBody.__name__}
    named = {kinds[name] for name in kinds if isinstance(body, dict) and name in body}
    return named.pop() if len(named) == 1 else None


SeveralBody = Annotated[
    Annotated[UsersBody, Tag(UsersBody.__name__)] | Annotated[AnonymousBody, Tag(AnonymousBody.__name__)],
    Discriminator(
        kind_of,
        custom_error_type="users_or_ratings",
        custom_error_message="expected an object with either users, or ratings and events",
    ),
]


@router.get(
    "/recommend/{user}",
    responses=answers(Answer, http_404=UNKNOWN_USER, http_410=GONE),
    openapi_extra=PARAMETERS,
)
async def recommend_user(
    user: UserId,
    query: Annotated[RecommendQuery, Query()],
    serving: TheService,
    scenarios: TheScenarios,
    request: Call,
) -> bytes:
    """The best items for one user."""

    async def ask(base: Mapping[str, Any]) -> bytes:
        return await serving.answer(check_list(serving, query.query(base, user=user)), query.position)

    answer = await scenarios.answer(query.scenario, query.position, ask)
    return with_request(answer, request)


def plain_page(serving: Serving) -> Page:
    """Makes queries of query strings of `recommend_user` for `PlainLists`."""

    @functools.lru_cache(MAX_KEPT)
    def page(text: bytes) -> Recommend | None:
        try:
            query = RecommendQuery.model_validate(dict(parse_qsl(text.decode(), keep_blank_values=True)))
            asked = check_list(serving, query.query())
        except (ValidationError, InvalidRequest):
            return None
        return asked if query.model_fields_set <= PLAIN_FIELDS and asked.filter is None else None

    return lambda text: page(text) if len(text) <= MAX_KEPT_BYTES else None


@router.post("/recommend/{user}", responses=answers(Answer, http_404=UNKNOWN_USER, http_410=GONE))
async def recommend_user_filtered(
    user: UserId,
    body: RecommendBody,
    query: Annotated[NoParameters, Query()],
    serving: TheService,
    scenarios: TheScenarios,
    request: Call,
) -> bytes:
    """The best items for one user, with long lists of candidates and exclusions, or as if the user had rated more."""

    async def ask(base: Mapping[str, Any]) -> bytes:
        return await serving.answer(check_list(serving, body.query(base, user=user)), body.position)

    answer = await scenarios.answer(body.scenario, body.position, ask)
    return with_request(answer, request)


@router.post("/recommend", responses=answers(Answer | list[Answer], http_404=UNKNOWN_USER, http_410=GONE))
async def recommend_several(
    body: SeveralBody,
    query: Annotated[NoParameters, Query()],
    serving: TheService,
    scenarios: TheScenarios,
    request: Call,
) -> bytes:
    """The best items for each of several users, or for an anonymous user whose ratings and events are in the body."""

    async def ask(base: Mapping[str, Any]) -> bytes:
        query = check_list(serving, body.query(base))
        if not isinstance(body, UsersBody):
            return with_request(await serving.answer(query, body.position), request)
        if len(body.users) * query.n > MAX_RESULTS:
            most = MAX_RESULTS // len(body.users)
            raise InvalidRequest(f"Invalid n: expected at most {most:,} for {len(body.users):,} users, got {query.n:,}")
        # Lists are made and encoded in parts, so that other clients do not wait for all of them.
        per_part = max(1, MAX_COST // cost_of_list(query))
        lists: list[bytes] = []
        for first in range(0, len(body.users), per_part):
            part = structs.replace(query, users=body.users[first : first + per_part])
            lists += [with_request(answer, request) for answer in await serving.answer_each(part, body.position)]
        return b"[" + b",".join(lists) + b"]"

    return await scenarios.answer(body.scenario, body.position, ask)


@router.get("/popular", responses=answers(PopularItems), openapi_extra=PARAMETERS)
async def list_popular(query: Annotated[PopularQuery, Query()], serving: TheService) -> bytes:
    """The most popular items, the same for all users."""
    asked = query.query()
    check_n(serving, asked.n)
    return await serving.answer(asked, query.position)


@router.get("/latest", responses=answers(PopularItems), openapi_extra=PARAMETERS)
async def list_latest(query: Annotated[LatestQuery, Query()], serving: TheService) -> bytes:
    """The latest items, by their attribute `published` or else by the first entry that named them."""
    asked = query.query()
    check_n(serving, asked.n)
    return await serving.answer(asked, query.position)


def check_list(serving: Serving, query: Recommend) -> Recommend:
    """The query, if its rules, its `n` and the types of its events may be asked for; raises `InvalidRequest`."""
    check_n(serving, query.n)
    types = serving.settings.event_types
    if unknown := [type_ for _, type_, _, _ in query.events or () if type_ not in types]:
        raise InvalidRequest(
            f"Invalid type: expected one of the setting events ({', '.join(types)}), got {unknown[0]!r}"
        )
    return check_rules(query)


def with_request(answer: bytes, request: Call) -> bytes:
    """The answer of the engine with the time and the id of the request."""
    return finished(answer, (time.perf_counter() - request.started) * 1000, request.request_id)
