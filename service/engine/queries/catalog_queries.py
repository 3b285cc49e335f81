"""The queries about items and users and their attributes, and the answers to them; see `service.engine.queries`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct
from pydantic import Field

from service.engine.errors import UnknownItem
from service.engine.queries.forms import Count, PageCursor
from service.storage.item_changes import MAX_TITLE_BYTES

Kind = Literal["tag", "number"]


class DeletedItem(UnknownItem):
    """The item was deleted, and not put again."""

    @classmethod
    def of(cls, item: str) -> DeletedItem:
        """The error for `item`, which only a put brings back."""
        return cls(f"item {item!r} was deleted; POST /items brings it back")


class GetItem(Struct, frozen=True, tag=True):
    """Asks for the attributes of `item`; the answer is `ItemDetails`, `UnknownItem` or `DeletedItem`."""

    item: str


class GetTagSizes(Struct, frozen=True, tag=True):
    """Asks for the `TagSizes` of `items`; it occupies the engine as long as the entry that changes as many."""

    items: list[str]


class GetCatalogNames(Struct, frozen=True, tag=True):
    """Asks for `CatalogNames`."""


class ListItems(Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Asks for `n` items after `cursor` (None: the first) that pass the filter, as `ItemList`.

    `hidden` lists only hidden items, or only others; None lists both. With `search` there is one page, in the order of
    titles.
    """

    n: Count = 100
    cursor: PageCursor = None
    filter: str | None = None
    hidden: Annotated[bool | None, Field(description="Whether to list hidden items or others; default: both.")] = None
    search: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=MAX_TITLE_BYTES,
            description="List the first items by title whose title begins so, in any capitals. There is no next page.",
        ),
    ] = None


class GetTitles(Struct, frozen=True, tag=True):
    """Asks for the `ItemTitles` of `items`."""

    items: list[str]


class ItemTitles(Struct):
    """Titles by id, of the items that have one."""

    titles: dict[str, str]


class ListUsers(Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Asks for `n` users after `cursor` (None: the first) who pass the filter, as `UserList`."""

    n: Count = 100
    cursor: PageCursor = None
    filter: str | None = None


class GetUser(Struct, frozen=True, tag=True):
    """Asks for the attributes of `user`; the answer is `UserDetails` or `UnknownUser`."""

    user: str


class GetUserNames(Struct, frozen=True, tag=True):
    """Asks for the `CatalogNames` of users, who have no embeddings."""


class ItemDetails(Struct):
    """One item.

    Attributes:
        tags: values by name.
        numbers: numbers by name.
        available: whether lists show it.
        published, until: Unix seconds from which, and before which, lists show it; null: no bound.
        embedding: the numbers as float32, or null.
        title, url, image: what to show to people, or null.
        hidden: whether an operator has hidden the item.
        n_ratings: its present ratings.
    """

    item: str
    tags: dict[str, list[str]]
    numbers: dict[str, float]
    available: bool
    published: float | None
    until: float | None
    title: str | None
    url: str | None
    image: str | None
    embedding: list[float] | None
    hidden: bool
    n_ratings: int
    as_of: str


class TagSizes(Struct):
    """How many values each tag has, by name, an element an item; None for one that is deleted."""

    of_items: list[dict[str, int] | None]


class ListedItem(Struct):
    """One item of a list; see `ItemDetails`."""

    item: str
    tags: dict[str, list[str]]
    numbers: dict[str, float]
    available: bool
    published: float | None
    until: float | None
    title: str | None
    url: str | None
    image: str | None
    hidden: bool
    n_ratings: int


class ItemList(Struct):
    """Items in no meaningful order, or with `search` in that of their titles.

    `next` is the cursor of the next page, null after the last.
    """

    items: list[ListedItem]
    next: str | None
    as_of: str


class ListedUser(Struct):
    """One user of a list; see `UserDetails`."""

    user: str
    tags: dict[str, list[str]]
    numbers: dict[str, float]
    n_ratings: int


class UserDetails(Struct):
    """One user.

    Attributes:
        tags: values by name.
        numbers: numbers by name.
        n_ratings: present ratings of the user.
    """

    user: str
    tags: dict[str, list[str]]
    numbers: dict[str, float]
    n_ratings: int
    as_of: str


class UserList(Struct):
    """Users in no meaningful order; `next` is the cursor of the next page, null after the last."""

    users: list[ListedUser]
    next: str | None
    as_of: str


class CatalogNames(Struct):
    """What all items, or all users, have in common.

    Attributes:
        kinds: whether a name that one of them has is of tags or of numbers.
        n_free: further names that there may be.
        n_dimensions: length of every embedding; None while none has one.
    """

    kinds: dict[str, Kind]
    n_free: int
    n_dimensions: int | None


CatalogQuery = GetItem | GetTitles | GetTagSizes | ListItems | ListUsers | GetCatalogNames | GetUser | GetUserNames
CatalogAnswer = ItemDetails | ItemTitles | TagSizes | ItemList | UserList | CatalogNames | UserDetails
