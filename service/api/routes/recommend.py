"""Recommendations: GET with its fast route, and POST for long filters, several users, or an anonymous user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl

from fastapi import APIRouter, Query
from msgspec import structs
from pydantic import Discriminator, Tag, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import GONE, TheScenarios, TheService, UserId, answers, check_n, decoded, reply
from service.api.door.fast_reads import FastGet
from service.api.parsers.filter_parser import PARAMETERS, PREFIXES
from service.api.schemas.common_schemas import NoParameters
from service.api.schemas.list_schemas import (
    AnonymousBody,
    LatestQuery,
    PopularQuery,
    RecommendBody,
    RecommendQuery,
    UsersBody,
)
from service.api.schemas.rule_schemas import check_rules
from service.api.serving import Serving
from service.base.errors import InvalidRequest
from service.base.ids import check_id
from service.engine.fairness import MAX_COST, MAX_RESULTS, cost_of_list
from service.engine.queries import PopularItems, Recommend, Recommendation
from service.engine.queries.encoding import finished
from service.storage.events import StreamId

router = APIRouter(tags=["recommendations"])
UNKNOWN_USER = "Unknown user with fallback=none, or no live model of that name"
MAX_CACHED_QUERY_BYTES = 256  # longest query string on the fast route
# Left to the framework: lists with them form separate groups, a scenario may have to be read, cursors all differ.
RARE = frozenset(
    ("min_ratings", "available", "explore", "explore_below", "diversity", "rotate", "scenario", "cursor", "experiment")
)


def _kind_of(body: Any) -> str | None:
    """Which body was sent, by its fields; None if it could be neither or both. So only the faults of one are told."""
    kinds = {"users": UsersBody.__name__, "ratings": AnonymousBody.__name__}
    named = [kinds[name] for name in kinds if isinstance(body, dict) and name in body]
    return named[0] if len(named) == 1 else None


SeveralBody = Annotated[
    Annotated[UsersBody, Tag(UsersBody.__name__)] | Annotated[AnonymousBody, Tag(AnonymousBody.__name__)],
    Discriminator(
        _kind_of,
        custom_error_type="users_or_ratings",
        custom_error_message="expected an object with either users or ratings",
    ),
]


class _Plan(NamedTuple):
    """A parsed query string."""

    filters: dict[str, Any]
    wait_for: StreamId | None
    n: int


@router.get(
    "/recommend/{user}",
    responses=answers(Recommendation, http_404=UNKNOWN_USER, http_410=GONE),
    openapi_extra=PARAMETERS,
)
async def recommend_user(
    user: UserId,
    query: Annotated[RecommendQuery, Query()],
    serving: TheService,
    scenarios: TheScenarios,
    request: Request,
) -> Response:
    """The best items for one user."""
    started = time.perf_counter()

    async def ask(base: Mapping[str, Any]) -> bytes:
        return await serving.answer(_checked(serving, query.query(base, user=user)), query.position)

    answer = await scenarios.answer(query.scenario, query.position, ask)
    return reply(_finished(answer, request.state.request_id, started))


def fast_get(serving: Serving) -> FastGet:
    """The fast path of `GET /recommend/{user}` for plain requests; others go to the route above."""

    def query(tail: bytes, text: bytes) -> _Plan | None:
        is_plain = len(text) <= MAX_CACHED_QUERY_BYTES and b"#" not in text
        plan, user = _cached_plan(text) if is_plain else None, _user(tail)
        if plan is None or user is None or plan.n > serving.settings.max_n:
            return None
        return plan._replace(filters={"user": user, **plan.filters})

    def ask(plan: _Plan) -> asyncio.Future[list[bytes]]:
        return serving.ask(Recommend(**plan.filters), plan.wait_for)

    def finish(answer: list[bytes], request_id: str, started: float) -> bytes:
        return _finished(answer[0], request_id, started)

    return FastGet(b"/recommend/", "/recommend/{user}", query, ask, finish)


@router.post("/recommend/{user}", responses=answers(Recommendation, http_404=UNKNOWN_USER, http_410=GONE))
async def recommend_user_filtered(
    user: UserId,
    body: RecommendBody,
    query: Annotated[NoParameters, Query()],
    serving: TheService,
    scenarios: TheScenarios,
    request: Request,
) -> Response:
    """The best items for one user, with long lists of candidates and exclusions, or as if the user had rated more."""
    started = time.perf_counter()

    async def ask(base: Mapping[str, Any]) -> bytes:
        return await serving.answer(_checked(serving, body.query(base, user=user)), body.position)

    answer = await scenarios.answer(body.scenario, body.position, ask)
    return reply(_finished(answer, request.state.request_id, started))


@router.post(
    "/recommend", responses=answers(Recommendation | list[Recommendation], http_404=UNKNOWN_USER, http_410=GONE)
)
async def recommend_several(
    body: SeveralBody,
    query: Annotated[NoParameters, Query()],
    serving: TheService,
    scenarios: TheScenarios,
    request: Request,
) -> Response:
    """The best items for each of several users, or for an anonymous user whose ratings are in the body."""
    started = time.perf_counter()
    request_id = request.state.request_id

    async def ask(base: Mapping[str, Any]) -> bytes:
        query = _checked(serving, body.query(base))
        if isinstance(body, UsersBody):
            return await _of_several(serving, query, body, request_id, started)
        return _finished(await serving.answer(query, body.position), request_id, started)

    return reply(await scenarios.answer(body.scenario, body.position, ask))


@router.get("/popular", responses=answers(PopularItems), openapi_extra=PARAMETERS)
async def list_popular(query: Annotated[PopularQuery, Query()], serving: TheService) -> Response:
    """The most popular items, the same for all users."""
    check_n(serving, query.n)
    return reply(await serving.answer(query.query, query.position))


@router.get("/latest", responses=answers(PopularItems), openapi_extra=PARAMETERS)
async def list_latest(query: Annotated[LatestQuery, Query()], serving: TheService) -> Response:
    """The latest items, by their attribute `published` or else by the first entry that named them."""
    check_n(serving, query.n)
    return reply(await serving.answer(query.query, query.position))


def _checked(serving: Serving, query: Recommend) -> Recommend:
    check_n(serving, query.n)
    return check_rules(query)


async def _of_several(serving: Serving, query: Recommend, body: UsersBody, request_id: str, started: float) -> bytes:
    """Lists for several users, made and encoded in parts, so that other clients do not wait for all of them."""
    if len(body.users) * query.n > MAX_RESULTS:
        most = MAX_RESULTS // len(body.users)
        raise InvalidRequest(f"Invalid n: expected at most {most:,} for {len(body.users):,} users, got {query.n:,}")
    per_part = max(1, MAX_COST // cost_of_list(query))
    lists: list[bytes] = []
    for first in range(0, len(body.users), per_part):
        part = structs.replace(query, users=body.users[first : first + per_part])
        for answer in await serving.answer_each(part, body.position):
            lists.append(_finished(answer, request_id, started))
    return b"[" + b",".join(lists) + b"]"


def _finished(answer: bytes, request_id: str, started: float) -> bytes:
    return finished(answer, (time.perf_counter() - started) * 1000, request_id)


def _user(tail: bytes) -> str | None:
    """The id in the last segment of a path; None if it is invalid or the path goes on: then the framework answers."""
    if b"/" in tail or b"#" in tail:
        return None
    try:
        return check_id(decoded(tail.decode("ascii")) if b"%" in tail else tail.decode("ascii"))
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def _cached_plan(query: bytes) -> _Plan | None:
    """Parse a query string; None if it is invalid, repeats what may occur only once, or uses a rare parameter."""
    values: dict[str, Any] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name == "exclude" or name.startswith(PREFIXES):
            values.setdefault(name, []).append(value)
        elif name in values or name in RARE:
            return None
        else:
            values[name] = value
    try:
        checked = RecommendQuery.model_validate(values)
    except ValidationError:
        return None
    return _Plan(checked.given, checked.position, checked.n)
