"""Keys that are made and revoked while the service runs. The keys of the settings are not among them."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from msgspec import Struct
from pydantic import AfterValidator, Field
from starlette.responses import Response

from service.api.dependencies import PathName, TheKeys, TheService, answers
from service.api.door.audit import concern
from service.api.door.auth import ADMIN_PREFIX
from service.api.door.route import Route
from service.api.openapi.components import DATES
from service.api.parsers.bodies import JSON
from service.api.requests import NoParameters
from service.api.serving import check_shared
from service.base.errors import Conflict, InvalidRequest
from service.base.times import iso_of
from service.engine.queries.few_faults import Strict, few_faults
from service.engine.queries.forms import Id, Time
from service.settings.data_sets import DEFAULT
from service.storage import key_file
from service.storage.key_file import KeyScope, ListedKey

CLOSED = (
    "from now on every path needs a key, except /health/*, /metrics, /docs and /openapi.json; this stays so when all"
    " keys that were made are revoked"
)

KEYS = "set NEARFIELD_API_KEY and the other keys of the settings instead, two of which may be valid at a time"

router = APIRouter(route_class=Route, prefix="/admin/keys", tags=["admin"])
NoQuery = Annotated[NoParameters, Query()]


MAX_DATA_SETS = 100  # of one key


def in_future(seconds: float) -> float:
    """`seconds` if this time has not come; else ValueError."""
    if seconds <= time.time():
        raise ValueError(f"expected a time in the future, got {iso_of(max(seconds, 0.0))}")
    return seconds


class KeyBody(Strict):
    """Body of `POST /admin/keys`."""

    name: Id = Field(description="Any name, to tell keys apart.")
    scope: KeyScope = Field(description="What the key may do.")
    expires: Annotated[Time, AfterValidator(in_future)] | None = Field(
        None,
        description="When the key ends by itself: Unix seconds, or a date or datetime of ISO 8601. Default: never.",
        json_schema_extra={"anyOf": [{"type": "number"}, *DATES, {"type": "null"}]},
    )
    data_sets: Annotated[
        list[str] | None,
        Field(min_length=1, max_length=MAX_DATA_SETS, description="The only data sets that it opens. Default: all."),
        few_faults(str, MAX_DATA_SETS),
    ] = None


class MadeKey(ListedKey, kw_only=True):
    """A new key.

    Attributes:
        key: the key itself, which is in no other answer.
        note: what its making has changed for others; null: nothing.
    """

    key: str
    note: str | None


class KeyList(Struct):
    """All keys that were made and not revoked, the oldest first."""

    keys: list[ListedKey]


class NoAdminKey(Conflict):
    """No key guards /admin/*, so that the first key would lock out everybody who has none."""

    slug, title = "no-admin-key", "No admin key is set"


@router.post(
    "",
    status_code=201,
    responses=answers(MadeKey, 201, "Made; no other answer shows the key", http_409="No admin key is set"),
)
async def make_key(body: KeyBody, query: NoQuery, serving: TheService, keys: TheKeys) -> Response:
    """Make a key. The service stores its hash alone: keep the key."""
    if keys.is_open(ADMIN_PREFIX):
        raise NoAdminKey(
            "Invalid NEARFIELD_ADMIN_KEY: expected a key before others are made, got none; set it and start the service"
            " again, because the first key that is made closes all paths to those who have none"
        )
    check_shared(serving.settings, "a key", KEYS)
    names = (DEFAULT, *serving.settings.data_sets)
    for name in body.data_sets or ():
        if name not in names:
            raise InvalidRequest(
                f"Invalid body.data_sets: expected names of data sets ({', '.join(names)}), got {name[:64]!r}"
            )
    note = CLOSED if keys.is_open(b"/") else None
    data_sets = None if body.data_sets is None else sorted(set(body.data_sets))
    listed, key = await asyncio.to_thread(
        key_file.make, serving.settings.root, body.name, body.scope, data_sets, body.expires
    )
    keys.made.refresh()
    concern(f"key {listed.id}")
    answer = msgspec.json.encode(MadeKey(**msgspec.structs.asdict(listed), key=key, note=note))
    return Response(answer, 201, {"cache-control": "no-store"}, JSON.decode())


@router.get("", responses=answers(KeyList))
async def list_keys(query: NoQuery, serving: TheService, keys: TheKeys) -> bytes:
    """All keys that were made and not revoked, those that have expired too, without the keys themselves."""
    made = await asyncio.to_thread(key_file.read, serving.settings.root)
    listed = [key_file.listed(key, keys.made.uses.last(key.id)) for key in made or ()]
    return msgspec.json.encode(KeyList(listed))


@router.delete(
    "/{key}", responses=answers(ListedKey, http_404="Unknown key", http_409="Nobody else could manage the keys")
)
async def revoke_key(key: PathName, query: NoQuery, serving: TheService, keys: TheKeys) -> bytes:
    """Revoke a key by its id: at once in this process, within a quarter of a second in all that share the folder."""
    check_shared(serving.settings, "the end of a key", KEYS)
    revoked = await asyncio.to_thread(
        key_file.revoke, serving.settings.root, key, others_are_admins=keys.admin_of_settings
    )
    keys.made.refresh()
    keys.made.uses.forget(key)
    return msgspec.json.encode(revoked)
