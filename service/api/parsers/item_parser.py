"""Parses items from the body of a request, and checks them against the catalog."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from service.api.parsers.elements import converted, with_seconds
from service.base.validation import in_words
from service.engine.queries.catalog_queries import CatalogNames, Kind
from service.storage.item_changes import AttributeChanges, ItemChange, NewItem, Operation, check, check_number_of_names

T = TypeVar("T", bound=AttributeChanges)
TIMES = ("published", "until")
# Values that are objects by name, and the type of what they hold.
_HELD: dict[str, Any] = {"tags": list[str] | None, "numbers": float | None}


class ItemJudge:
    """Converts the elements of one body, in order. A name has one kind, and all embeddings have one length.

    Args:
        names: what the items of the catalog have in common; is updated by each element.
    """

    def __init__(self, names: CatalogNames) -> None:
        self._names, self._n_before = names, len(names.kinds)

    @property
    def n_new(self) -> int:
        """Names of the elements so far that no item of the catalog had."""
        return len(self._names.kinds) - self._n_before

    def put(self, element: Any) -> ItemChange:
        """The change that puts the item `element`; ValueError with the reason if it is refused."""
        item = attributes_in(element, NewItem)
        return self.change(item.item, item, "put")

    def patch_named(self, element: Any) -> ItemChange:
        """The change that patches the item that `element` names; ValueError with the reason if it is refused."""
        item = attributes_in(element, NewItem)
        return self.change(item.item, item, "patch")

    def patch(self, item: str, element: Any) -> ItemChange:
        """The change that patches `item`; ValueError with the reason if it is refused."""
        return self.change(item, attributes_in(element, AttributeChanges), "patch")

    def change(self, item: str, attributes: AttributeChanges, op: Operation) -> ItemChange:
        """The change of `item` by these attributes, whose names the catalog has from now on; ValueError as above."""
        fields = {name: getattr(attributes, name) for name in AttributeChanges.__struct_fields__}
        change = ItemChange(item, **fields, op=op)
        check(change)
        names, new_kinds = self._names, dict[str, Kind]()
        places: dict[str, Kind] = {"tags": "tag", "numbers": "number"}
        for place, kind in places.items():
            values: dict[str, Any] = getattr(change, place) or {}
            for name in (name for name, value in values.items() if value is not None):
                present = names.kinds.get(name) or new_kinds.setdefault(name, kind)
                if present != kind:
                    raise ValueError(
                        f"Invalid {place}.{name}: expected a name of {place}, got one of {present}s:"
                        f" remove it from all items first, or take another name"
                    )
        if len(new_kinds) > names.n_free:
            raise ValueError(
                f"Invalid names: expected at most {names.n_free:,} further ones in the whole catalog, got"
                f" {len(new_kinds):,}"
            )
        if isinstance(change.embedding, list):
            length = names.n_dimensions = names.n_dimensions or len(change.embedding)
            if len(change.embedding) != length:
                raise ValueError(
                    f"Invalid embedding: expected {length:,} numbers as of the other items, got"
                    f" {len(change.embedding):,}"
                )
        names.n_free -= len(new_kinds)
        names.kinds |= new_kinds
        return change


def attributes_in(element: Any, kind: type[T]) -> T:
    """`element` as a struct; ValueError with the reason if it is none."""
    # Values of tags and numbers are checked one by one: the message of msgspec would not have their names.
    for place, kind_of_value in _HELD.items():
        values = element.get(place) if isinstance(element, dict) else None
        if not isinstance(values, dict):
            continue
        check_number_of_names(place, values)
        for name, value in values.items():
            try:
                msgspec.convert(value, kind_of_value)
            except (msgspec.ValidationError, OverflowError) as error:
                raise ValueError(f"Invalid {place}.{name}: {in_words(str(error))}") from None
    return converted(with_seconds(element, TIMES), kind, "item object")
