"""`CatalogLookups`: answers queries about items and their attributes. Belongs to the engine thread."""

from __future__ import annotations

from service.engine.catalog_queries import CatalogNames, GetCatalogNames, GetItem, ItemDetails
from service.engine.history import History
from service.errors import UnknownItem
from service.storage.item_changes import Attributes

NOTHING = Attributes()


class CatalogLookups:
    """Answers queries about items."""

    def __init__(self, history: History) -> None:
        self._history = history

    def names(self, query: GetCatalogNames, as_of: str) -> CatalogNames:
        """The names of tags and numbers."""
        del query, as_of
        return self._history.catalog.names

    def item(self, query: GetItem, as_of: str) -> ItemDetails:
        """One item, with its attributes if it has any."""
        history, row = self._history, self._history.items.row(query.item)
        if row is None:
            raise UnknownItem(f"item {query.item!r} has neither ratings nor attributes")
        if history.catalog.is_deleted(row):
            raise UnknownItem(f"item {query.item!r} was deleted; POST /items brings it back")
        found = history.catalog.attributes(row) or NOTHING
        return ItemDetails(
            query.item,
            found.tags,
            found.numbers,
            found.available,
            found.published,
            found.until,
            found.embedding and [float(str(number)) for number in history.catalog.embedding(row)],
            bool(history.hidden[row]),
            int(history.table.item_counts[row]),
            as_of,
        )
