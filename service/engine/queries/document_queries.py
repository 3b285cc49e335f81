"""The queries about named documents, and the answers to them; see `service.engine.queries`."""

from __future__ import annotations

from msgspec import Raw, Struct

from service.base.errors import Unavailable
from service.engine.errors import UnknownDocument
from service.storage.documents import DocumentKind


class UnknownScenario(UnknownDocument):
    """No scenario has that name."""

    slug, title = "unknown-scenario", "Unknown scenario"


class StaleScenario(Unavailable):
    """A query was made from a scenario that was put again or removed since."""

    slug, title = "stale-scenario", "Scenario changed"


class GetScenario(Struct, frozen=True, tag=True):
    """Asks for one scenario; the answer is `DocumentDetails`. Raises `UnknownScenario`."""

    name: str


class ListDocuments(Struct, frozen=True, tag=True):
    """Asks for the names of all documents of a kind, as `DocumentList`."""

    kind: DocumentKind


class DocumentDetails(Struct):
    """One document.

    Attributes:
        body: JSON as the client has sent it, without spaces.
        stream_id: the position of the entry that has put it: two answers with the same one have the same body.
    """

    name: str
    body: Raw
    stream_id: str
    as_of: str


class ListedDocument(Struct, gc=False):
    """One document of a list; see `DocumentDetails`."""

    name: str
    stream_id: str


class DocumentList(Struct):
    """All documents of a kind in order of names."""

    documents: list[ListedDocument]
    as_of: str


DocumentQuery = GetScenario | ListDocuments
DocumentAnswer = DocumentDetails | DocumentList
