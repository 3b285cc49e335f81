"""Fields of stream entries about sources: where batches come from that may be delivered again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from service.base.ids import MAX_ID_BYTES, check_id

MAX_OFFSET = 2**63 - 1
MAX_OWNER_BYTES = 64

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_BYTES)]


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a batch comes from, which may be delivered again.

    An entry counts only if `offset` is above those of all earlier entries of the same source: see
    `service.engine.state.sources`.

    Attributes:
        name: such as kafka:TOPIC/PARTITION.
        offset: of the last message of the batch.
        owner: the key that has sent it (`service.api.door.auth.Keys.name_of`): keys do not share sources. Empty: none
            was needed, or an older version wrote the entry. Not in the field `source`, which older versions check.
    """

    name: _Name
    offset: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]
    owner: str = ""


class Unmark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Forgets how far the source `name` of the key `owner` has come; None: of every key. See `Source`."""

    name: _Name
    owner: str | None


_source_decoder = msgspec.json.Decoder(Source)
_unmark_decoder = msgspec.json.Decoder(Unmark)


def encode_source(source: Source | None) -> dict[bytes, bytes]:
    """The fields of an entry that say where it comes from; none for None."""
    if source is None:
        return {}
    fields = {b"source": msgspec.json.encode({"name": source.name, "offset": source.offset})}
    return fields | {b"owner": source.owner.encode()} if source.owner else fields


def decode_source(fields: Mapping[bytes, bytes]) -> Source | None:
    """The source that the fields of an entry name; None if they name none.

    Raises:
        ValueError, MsgspecError: it is not in its format.
    """
    if b"source" not in fields:
        return None
    source = _source_decoder.decode(fields[b"source"])
    check_id(source.name)
    if source.owner:
        raise ValueError("expected the owner of the source in a field of its own")
    if b"owner" not in fields:
        return source
    return msgspec.structs.replace(source, owner=check_id(fields[b"owner"].decode(), MAX_OWNER_BYTES))


def decode_unmark(value: bytes) -> Unmark:
    """The content of an entry `unmark`. Raises what `decode_source` raises."""
    unmark = _unmark_decoder.decode(value)
    check_id(unmark.name)
    if unmark.owner:  # an empty one owns what was sent without a key
        check_id(unmark.owner, MAX_OWNER_BYTES)
    return unmark
