"""Schemas of the routes for keys."""

from __future__ import annotations

from msgspec import Struct
from pydantic import Field

from service.api.schemas.common_schemas import Id, Strict
from service.storage.key_file import KeyScope, ListedKey

MAX_DATA_SETS = 100  # of one key


class KeyBody(Strict):
    """Body of `POST /admin/keys`."""

    name: Id = Field(description="Any name, to tell keys apart.")
    scope: KeyScope = Field(description="What the key may do.")
    data_sets: list[str] | None = Field(
        None, min_length=1, max_length=MAX_DATA_SETS, description="The only data sets that it opens. Default: all."
    )


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
