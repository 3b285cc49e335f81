"""Named JSON documents that every replica has: the content of stream entries `document`, and the column `data` of
their rows in the log.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
from msgspec import Struct

from service.errors import NewerEntry
from service.ids import check_id

DocumentKind = Literal["scenario", "experiment"]
KINDS = frozenset(get_args(DocumentKind))


class Document(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One change of a document.

    Attributes:
        kind: what the document is; names of different kinds are independent.
        name: 1-256 bytes of UTF-8.
        body: JSON text that replaces the document; None deletes it.
    """

    kind: str
    name: str
    body: str | None = None


_decoder = msgspec.json.Decoder(Document)
_body_decoder = msgspec.json.Decoder()
encode = msgspec.json.Encoder().encode


def decode_entry(value: bytes) -> Document:
    """The document of a stream entry.

    Raises:
        ValueError, MsgspecError: it is not in its format.
        NewerEntry: this process does not know its kind.
    """
    document = decode_row(value)
    check_id(document.name)
    if document.body is not None:
        _body_decoder.decode(document.body)
    return document


def decode_row(data: str | bytes) -> Document:
    """The document of a row of the log, which was checked before it was written; raises `NewerEntry`."""
    document = _decoder.decode(data)
    if document.kind not in KINDS:
        raise NewerEntry(f"a document has the kind {document.kind[:64]!r}: upgrade this process")
    return document
