"""Named JSON documents that every replica has: the content of stream entries `document`, and the column `data` of
their rows in the log.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
from msgspec import Struct

from service.base.ids import check_id
from service.storage.errors import NewerEntry

DocumentKind = Literal["scenario", "experiment"]
KINDS = frozenset(get_args(DocumentKind))
WHOLE = 100  # percent: the sum of the shares of an experiment


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


class Arm(Struct, frozen=True):
    """One arm of an experiment: the name of a live model, and the percentage of users who get it."""

    model: str
    share: float


class Experiment(Struct, frozen=True, omit_defaults=True):
    """The body of an experiment. The hash of `salt` and a user decides which arm the user gets.

    Attributes:
        filter: canonical text of a filter (`service.engine.queries.filter_tree`) of the users who take part; None: all.
    """

    arms: list[Arm]
    salt: str
    filter: str | None = None


_decoder = msgspec.json.Decoder(Document)
_experiment_decoder = msgspec.json.Decoder(Experiment)
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
    if document.body is None:
        return document
    _body_decoder.decode(document.body)
    if document.kind == "experiment":
        experiment = experiment_of(document.body)
        if not experiment.arms or not all(0 < arm.share <= WHOLE for arm in experiment.arms):
            raise ValueError(f"expected arms with shares above 0 and up to {WHOLE}, got {document.body[:64]}")
    return document


def experiment_of(body: str) -> Experiment:
    """The experiment that `body` describes. Raises what `decode_entry` raises."""
    return _experiment_decoder.decode(body)


def decode_row(data: str | bytes) -> Document:
    """The document of a row of the log, which was checked before it was written; raises `NewerEntry`."""
    document = _decoder.decode(data)
    if document.kind not in KINDS:
        raise NewerEntry(f"a document has the kind {document.kind[:64]!r}: upgrade this process")
    return document
