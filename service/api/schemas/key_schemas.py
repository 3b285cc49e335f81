"""Schemas of the routes for keys."""

from __future__ import annotations

import time
from typing import Annotated, Any

from msgspec import Struct
from pydantic import AfterValidator, Field

from service.base.times import iso_of
from service.engine.queries.few_faults import Strict, few_faults
from service.engine.queries.forms import Id, Time
from service.storage.key_file import KeyScope, ListedKey

DATES: list[dict[str, Any]] = [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]
MAX_DATA_SETS = 100  # of one key


def _in_future(seconds: float) -> float:
    if seconds <= time.time():
        raise ValueError(f"expected a time in the future, got {iso_of(max(seconds, 0.0))}")
    return seconds


class KeyBody(Strict):
    """Body of `POST /admin/keys`."""

    name: Id = Field(description="Any name, to tell keys apart.")
    scope: KeyScope = Field(description="What the key may do.")
    expires: Annotated[Time, AfterValidator(_in_future)] | None = Field(
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
