"""Recommendations: GET with its fast route, and POST for long filters, several users, or an anonymous user."""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl

from fastapi import APIRouter, Query
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheService, UserId, answers, check_n, decoded, reply
from service.api.fast_reads import FastGet
from service.api.filter_parser import PARAMETERS, PREFIXES
from service.api.list_schemas import AnonymousBody, LatestQuery, PopularQuery, RecommendBody, RecommendQuery, UsersBody
from service.api.schemas import NoParameters
from service.engine.encoding import finished
from service.engine.fairness import MAX_COST, MAX_RESULTS, cost_of_list
from service.engine.queries import PopularItems, Recommend, Recommendation
from service.errors import InvalidRequest
from service.ids import check_id
from service.serving import Serving
from service.storage.events import StreamId

router = APIRouter(tags=["recommendations"])
UNKNOWN_USER = "Unknown user with fallback=none, or no live model of that name"
MAX_CACHED_QUERY_BYTES = 256  # longest query string on the fast route
# Left to the framework, because lists with them form separate groups.
RARE = ("min_ratings", "available", "explore", "explore_below")


class _Plan(NamedTuple):
    """A parsed query string."""

    filters: dict[str, Any]
    wait_for: StreamId | None
    n: int


@router.get("/recommend/{user}", responses=answers(Recommendation, http_404=UNKNOWN_USER), openapi_extra=PARAMETERS)
async def recommend_user(
    user: UserId, query: Annotated[RecommendQuery, Query()], serving: TheService, request: Request
) -> Response:
    """The best items for one user."""
    started = time.perf_counter()
    check_n(serving, query.n)
    answer = await serving.answer(query.query(user=user), query.position)
    return reply(_finished(answer, request.state.request_id, started))


def fast_get(serving: Serving) -> FastGet:
    """The fast path of `GET /recommend/{user}` for plain requests; others go to the route above."""

    def query(tail: bytes, text: bytes) -> _Plan | None:
        is_plain = len(text) <= MAX_CACHED_QUERY_BYTES and b"#" not in text
        plan, user = _cached_plan(text) if is_plain else None, _user(tail)
        if plan is None or user is None or plan.n > serving.settings.max_n:
            return None
        return plan._replace(filters={"user": user, **plan.filters})

    def ask(plan: _Plan) -> asyncio.Future[Any]:
        return serving.ask(Recommend(**plan.filters), plan.wait_for)

    def finish(answer: Any, request_id: str, started: float) -> bytes:
        return _finished(serving.json_of_answer(answer), request_id, started)

    return FastGet(b"/recommend/", "/recommend/{user}", query, ask, finish)


@router.post("/recommend/{user}", responses=answers(Recommendation, http_404=UNKNOWN_USER))
async def recommend_user_filtered(
    user: UserId,
    body: RecommendBody,
    query: Annotated[NoParameters, Query()],
    serving: TheService,
    request: Request,
) -> Response:
    """The best items for one user, with long lists of candidates and exclusions, or as if the user had rated more."""
    started = time.perf_counter()
    check_n(serving, body.n)
    answer = await serving.answer(body.query(user=user), body.position)
    return reply(_finished(answer, request.state.request_id, started))


@router.post("/recommend", responses=answers(Recommendation | list[Recommendation], http_404=UNKNOWN_USER))
async def recommend_several(
    body: UsersBody | AnonymousBody, query: Annotated[NoParameters, Query()], serving: TheService, request: Request
) -> Response:
    """The best items for each of several users, or for an anonymous user whose ratings are in the body."""
    started = time.perf_counter()
    check_n(serving, body.n)
    if isinstance(body, UsersBody):
        return reply(await _of_several(serving, body, request.state.request_id, started))
    return reply(_finished(await serving.answer(body.query(), body.position), request.state.request_id, started))


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


async def _of_several(serving: Serving, body: UsersBody, request_id: str, started: float) -> bytes:
    """Lists for several users, made and encoded in parts, so that other clients do not wait for all of them."""
    if len(body.users) * body.n > MAX_RESULTS:
        most = MAX_RESULTS // len(body.users)
        raise InvalidRequest(f"Invalid n: expected at most {most:,} for {len(body.users):,} users, got {body.n:,}")
    per_part = max(1, MAX_COST // cost_of_list(body.query()))
    lists: list[bytes] = []
    for first in range(0, len(body.users), per_part):
        query = body.query(users=body.users[first : first + per_part])
        for answer in await serving.answer_each(query, body.position):
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
    filters = {name: getattr(checked, name) for name in checked.model_fields_set if name != "wait_for"}
    if checked.filter is not None:
        filters["filter"] = checked.filter
    return _Plan(filters, checked.position, checked.n)
