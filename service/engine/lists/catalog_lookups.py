"""`CatalogLookups`: answers queries about items and users and their attributes. Belongs to the engine thread."""

from __future__ import annotations

import itertools

import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from service.base.errors import InvalidRequest
from service.engine.errors import UnknownItem, UnknownUser
from service.engine.lists.listing import page
from service.engine.lists.selection import Selection
from service.engine.queries.catalog_queries import (
    CatalogNames,
    DeletedItem,
    GetCatalogNames,
    GetItem,
    GetTagSizes,
    GetTitles,
    GetUser,
    GetUserNames,
    ItemDetails,
    ItemList,
    ItemTitles,
    ListedItem,
    ListedUser,
    ListItems,
    ListUsers,
    TagSizes,
    UserDetails,
    UserList,
)
from service.engine.state.history import History
from service.engine.state.id_table import RETIRED
from service.storage.item_changes import Attributes

NOTHING = Attributes()
MOST_LOOKED_AT = 100_000  # titles of a search, some 20 ms


class CatalogLookups:
    """Answers queries about items and users, and lists all of them."""

    def __init__(self, history: History, selection: Selection) -> None:
        self._history, self._selection = history, selection

    def names(self, query: GetCatalogNames, as_of: str) -> CatalogNames:
        """The names of tags and numbers."""
        del query, as_of
        return self._history.catalog.names

    def items(self, query: ListItems, as_of: str) -> ItemList:
        """A page of all items that are not deleted, or of those of them that pass a filter."""
        history, n_items, deleted = self._history, len(self._history.items), self._history.catalog.deleted
        mask = np.ones(n_items, dtype=np.bool_)
        if query.filter is not None:  # attributes count, and not whether lists of recommendations show an item
            mask = self._selection.passing(query.filter).mask(n_items)
        mask[: len(deleted)] &= ~deleted
        if query.hidden is not None:
            mask &= history.hidden[:n_items] == query.hidden
        if query.search is not None:
            if query.cursor is not None:
                raise InvalidRequest("Invalid cursor: expected none with search, which has one page, got one")
            looked_at = itertools.islice(history.catalog.titles.starting_with(query.search), MOST_LOOKED_AT)
            rows = itertools.islice((row for row in looked_at if mask[row]), query.n)
            return ItemList([self._listed(row) for row in rows], None, as_of)
        n_listed = int(np.count_nonzero(mask))
        listing = page(history.items.keys, n_listed, lambda rows: mask[rows], query.n, query.cursor)
        return ItemList([self._listed(row) for row in listing.rows.tolist()], listing.next, as_of)

    def users(self, query: ListUsers, as_of: str) -> UserList:
        """A page of all users who are not forgotten, or of those of them who pass a filter."""
        users, n_listed, mask = self._history.users, self._history.users.n_known, None
        if query.filter is not None:
            eligible = self._selection.passing_users(query.filter)
            n_listed, mask = min(n_listed, eligible.count), eligible.mask(len(users))

        def are_listed(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
            are_known = np.array([user != RETIRED for user in users.ids(rows.tolist())], dtype=np.bool_)
            return are_known if mask is None else are_known & mask[rows]

        listing = page(users.keys, n_listed, are_listed, query.n, query.cursor)
        return UserList([self._listed_user(row) for row in listing.rows.tolist()], listing.next, as_of)

    def user(self, query: GetUser, as_of: str) -> UserDetails:
        """One user, with attributes if there are any."""
        row = self._history.users.row(query.user)
        if row is None:
            raise UnknownUser(f"user {query.user!r} has neither ratings nor attributes")
        return UserDetails(**asdict(self._listed_user(row)), as_of=as_of)

    def user_names(self, query: GetUserNames, as_of: str) -> CatalogNames:
        """The names of tags and numbers of users."""
        del query, as_of
        index = self._history.user_attributes.index
        return CatalogNames(index.kinds, index.n_free, None)

    def _listed_user(self, row: int) -> ListedUser:
        attributes, n_ratings = self._history.user_attributes.of(row), self._history.table.rows.lengths[row]
        return ListedUser(self._history.users.id(row), attributes.tags, attributes.numbers, int(n_ratings))

    def _listed(self, row: int) -> ListedItem:
        history, attributes = self._history, self._history.catalog.attributes(row) or NOTHING
        return ListedItem(
            history.items.id(row),
            attributes.tags,
            attributes.numbers,
            attributes.available,
            attributes.published,
            attributes.until,
            attributes.title,
            attributes.url,
            attributes.image,
            bool(history.hidden[row]),
            int(history.table.item_counts[row]),
        )

    def titles(self, query: GetTitles, as_of: str) -> ItemTitles:
        """The titles of some items."""
        del as_of
        rows = zip(query.items, self._history.items.rows(query.items), strict=True)
        titles = {item: self._history.catalog.title(row) for item, row in rows if row is not None}
        return ItemTitles({item: title for item, title in titles.items() if title is not None})

    def tag_sizes(self, query: GetTagSizes, as_of: str) -> TagSizes:
        """How many values of tags each of some items has."""
        del as_of
        return TagSizes([self._tag_sizes(item) for item in query.items])

    def _tag_sizes(self, item: str) -> dict[str, int] | None:
        catalog, row = self._history.catalog, self._history.items.row(item)
        if row is None:
            return {}
        if catalog.is_deleted(row):
            return None
        return {name: len(values) for name, values in catalog.features(row)[0].items()}

    def item(self, query: GetItem, as_of: str) -> ItemDetails:
        """One item, with its attributes if it has any."""
        history, row = self._history, self._history.items.row(query.item)
        if row is None:
            raise UnknownItem(f"item {query.item!r} has neither ratings nor attributes")
        if history.catalog.is_deleted(row):
            raise DeletedItem.of(query.item)
        embedding = (history.catalog.attributes(row) or NOTHING).embedding
        return ItemDetails(
            **asdict(self._listed(row)),
            embedding=embedding and [float(str(number)) for number in history.catalog.embedding(row)],
            as_of=as_of,
        )
