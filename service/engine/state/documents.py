"""`Documents`: the named documents as the entries so far have left them. Belongs to the engine thread."""

from __future__ import annotations

from msgspec import Raw

from service.engine.errors import UnknownDocument
from service.engine.queries.document_queries import (
    DocumentDetails,
    DocumentList,
    GetScenario,
    ListDocuments,
    ListedDocument,
    StaleScenario,
    UnknownScenario,
)
from service.storage.documents import Document
from service.storage.events import StreamId

N_SHOWN = 10  # names in an error


class Documents:
    """The documents of each kind by name, with the position of the entry that has put each one."""

    def __init__(self) -> None:
        self._of_kind: dict[str, dict[str, tuple[str, StreamId]]] = {}

    def apply(self, document: Document, position: StreamId) -> None:
        """Put or delete a document."""
        named = self._of_kind.setdefault(document.kind, {})
        if document.body is None:
            named.pop(document.name, None)
        else:
            named[document.name] = document.body, position

    def position(self, kind: str, name: str) -> StreamId | None:
        """The position of the entry that has put a document; None if there is none."""
        document = self._of_kind.get(kind, {}).get(name)
        return None if document is None else document[1]

    def check(self, of_scenario: tuple[str, str] | None) -> None:
        """Check that the scenario of a query, by name and `stream_id`, is the present one; None is.

        Raises:
            StaleScenario: it is not.
        """
        if of_scenario is not None and str(self.position("scenario", of_scenario[0])) != of_scenario[1]:
            raise StaleScenario(f"the scenario {of_scenario[0]!r} has changed meanwhile: try again")

    def find(self, kind: str, name: str, unknown: type[UnknownDocument]) -> tuple[str, StreamId]:
        """The JSON text of a document, and its position.

        Raises:
            UnknownDocument: there is none; as `unknown`.
        """
        named = self._of_kind.get(kind, {})
        if name not in named:
            names = sorted(named)
            more = ", …" if len(names) > N_SHOWN else ""
            expected = f"one of {', '.join(names[:N_SHOWN])}{more}" if names else "one that was put; there is none"
            raise unknown(f"Invalid {kind}: expected {expected}, got {name!r}")
        return named[name]

    def get(self, query: GetScenario, as_of: str) -> DocumentDetails:
        """The answer to `query`; raises `UnknownScenario`."""
        body, position = self.find("scenario", query.name, UnknownScenario)
        return DocumentDetails(query.name, Raw(body.encode()), str(position), as_of)

    def list(self, query: ListDocuments, as_of: str) -> DocumentList:
        """The answer to `query`, in order of names."""
        named = self._of_kind.get(query.kind, {})
        return DocumentList([ListedDocument(name, str(named[name][1])) for name in sorted(named)], as_of)
