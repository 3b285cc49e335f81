"""The queries about items and their attributes, and the answers to them; see `service.engine.queries`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal["tag", "number"]


class GetItem(Struct, frozen=True, tag=True):
    """Asks for the attributes of `item`; the answer is `ItemDetails`, or `UnknownItem`."""

    item: str


class GetCatalogNames(Struct, frozen=True, tag=True):
    """Asks for `CatalogNames`."""


class ItemDetails(Struct):
    """One item.

    Attributes:
        tags: values by name.
        numbers: numbers by name.
        available, published, until: see `service.storage.item_changes.Attributes`.
        embedding: the numbers as float32, or null.
        hidden: whether an operator has hidden the item.
        n_ratings: its present ratings.
    """

    item: str
    tags: dict[str, list[str]]
    numbers: dict[str, float]
    available: bool
    published: float | None
    until: float | None
    embedding: list[float] | None
    hidden: bool
    n_ratings: int
    as_of: str


class CatalogNames(Struct):
    """What all items have in common.

    Attributes:
        kinds: whether a name that an item has is of tags or of numbers.
        n_free: further names that the catalog takes.
        n_dimensions: length of every embedding; None while no item has one.
    """

    kinds: dict[str, Kind]
    n_free: int
    n_dimensions: int | None


CatalogQuery = GetItem | GetCatalogNames
CatalogAnswer = ItemDetails | CatalogNames
