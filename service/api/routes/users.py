"""Attributes of users. A 202 is sent only after the stream has them."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query

from service.api.answers import Accepted, Written
from service.api.dependencies import TheService, UserId, answers, durable, elements
from service.api.door.route import Call, Route
from service.api.openapi.components import component, form_of
from service.api.openapi.examples import USER
from service.api.parsers.bodies import body_of, of_large
from service.api.parsers.elements import judged, parsed, read_elements
from service.api.parsers.item_parser import UserJudge, attributes_in
from service.api.requests import NoParameters, Wait
from service.api.routes.items import count_names, names_within
from service.api.serving import Serving
from service.engine.errors import UnknownUser
from service.engine.queries.catalog_queries import GetUser, GetUserNames, UserDetails
from service.storage.events import ITEMS_PER_ENTRY, encode_users
from service.storage.item_changes import ValueChanges, check_number_of_values, sizes_after
from service.storage.user_changes import NewUser, UserChange

MAX_USERS = 1000  # users of one request

router = APIRouter(route_class=Route, tags=["users"])

_ATTRIBUTES = component("UserAttributes", form_of(ValueChanges))
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": _ATTRIBUTES}}}}
_USERS_BODY = elements("PostedUser", form_of(NewUser, user=USER), maxItems=MAX_USERS)
NoQuery = Annotated[NoParameters, Query()]


@router.post("/users", status_code=202, responses=durable(Accepted), openapi_extra=_USERS_BODY)
async def post_users(request: Call, query: NoQuery, serving: TheService) -> bytes:
    """Put the attributes of one user, or of an array of users, who are checked one by one. They replace all before."""
    body, judge = body_of(request.content, request.known), await user_judge(serving)
    accepted, rejected = await of_large(body, read_elements, judge.put, MAX_USERS, "users")
    stream_id = await append_changes(serving, judge, accepted) if accepted else None
    took_ms = round((time.perf_counter() - request.started) * 1000, 3)
    return msgspec.json.encode(Accepted(len(accepted), rejected, stream_id, took_ms))


@router.put("/users/{user}", status_code=202, responses=durable(Written), openapi_extra=_BODY)
async def put_user(user: UserId, request: Call, query: NoQuery, serving: TheService) -> bytes:
    """Put the attributes of a user, such as the country: they replace all that the user had. Ratings stay."""
    judge = await user_judge(serving)
    change = judged(
        parsed(request.content),
        lambda element: judge.change(user, attributes_in(element, ValueChanges, "user object"), "put"),
    )
    return msgspec.json.encode(Written(await append_changes(serving, judge, [change])))


@router.patch("/users/{user}", status_code=202, responses=durable(Written), openapi_extra=_BODY)
async def patch_user(user: UserId, request: Call, query: NoQuery, serving: TheService) -> bytes:
    """Change attributes of a user and leave the others: a JSON merge patch, in which null removes."""
    judge = await user_judge(serving)
    try:
        tags = msgspec.json.decode(await serving.answer(GetUser(user)), type=UserDetails).tags
    except UnknownUser:
        tags = {}
    sizes = {name: len(values) for name, values in tags.items()}

    def patched(element: object) -> UserChange:
        attributes = attributes_in(element, ValueChanges, "user object")
        check_number_of_values(sum(sizes_after(sizes, attributes).values()))
        return judge.change(user, attributes, "patch")

    change = judged(parsed(request.content), patched)
    return msgspec.json.encode(Written(await append_changes(serving, judge, [change])))


@router.delete("/users/{user}", status_code=202, responses=durable(Written))
async def delete_user(user: UserId, query: NoQuery, serving: TheService) -> bytes:
    """Remove the attributes of a user. Ratings and events stay: `DELETE /admin/users/{user}` forgets the user."""
    judge = await user_judge(serving)
    return msgspec.json.encode(Written(await append_changes(serving, judge, [UserChange(user)])))


@router.get("/users/{user}", responses=answers(UserDetails, http_404="Unknown user"))
async def get_user(user: UserId, query: Annotated[Wait, Query()], serving: TheService) -> bytes:
    """The attributes of a user, and the number of ratings."""
    return await serving.answer(GetUser(user), query.position)


async def user_judge(serving: Serving) -> UserJudge:
    """Judges the users of one request by the names that users have."""
    return UserJudge(await names_within(serving, GetUserNames()))


async def append_changes(serving: Serving, judge: UserJudge, changes: list[UserChange]) -> str:
    """Append what `judge` has passed, and return the position of the last one; see the same of items."""
    await count_names(serving, judge)
    await serving.check_new([change.user for change in changes], [])
    for first in range(0, len(changes), ITEMS_PER_ENTRY):
        stream_id = await serving.append(encode_users(changes[first : first + ITEMS_PER_ENTRY]))
    return str(stream_id)
