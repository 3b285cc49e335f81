"""Parses items, and attributes of users, from the body of a request, and checks them against those of others."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from service.api.parsers.elements import converted, with_seconds
from service.base.validation import in_words
from service.engine.queries.catalog_queries import CatalogNames, Kind
from service.storage import user_changes
from service.storage.item_changes import (
    AttributeChanges,
    ItemChange,
    NewItem,
    Operation,
    ValueChanges,
    check,
    check_number_of_names,
)
from service.storage.user_changes import NewUser, UserChange

T = TypeVar("T", bound=ValueChanges)
TIMES = ("published", "until")
# Values that are objects by name, and the type of what they hold.
_HELD: dict[str, Any] = {"tags": list[str] | None, "numbers": float | None}


class Judge:
    """Converts the elements of one body, in order. A name has one kind.

    Args:
        names: what all items, or users, have in common; is updated by each element.
    """

    def __init__(self, names: CatalogNames) -> None:
        self._names, self._n_before = names, len(names.kinds)

    @property
    def n_new(self) -> int:
        """Names of the elements so far that none had before."""
        return len(self._names.kinds) - self._n_before

    def admit(self, change: ValueChanges, whose: str) -> None:
        """Check the kinds of the names in `change`, which are taken from now on; `whose` in words; ValueError if not.

        The last check of a change: one that is refused must take no name.
        """
        names, new_kinds = self._names, dict[str, Kind]()
        places: dict[str, Kind] = {"tags": "tag", "numbers": "number"}
        for place, kind in places.items():
            values: dict[str, Any] = getattr(change, place) or {}
            for name in (name for name, value in values.items() if value is not None):
                present = names.kinds.get(name) or new_kinds.setdefault(name, kind)
                if present != kind:
                    raise ValueError(
                        f"Invalid {place}.{name}: expected a name of {place}, got one of {present}s:"
                        f" remove it from all {whose} first, or take another name"
                    )
        if len(new_kinds) > names.n_free:
            raise ValueError(
                f"Invalid names: expected at most {names.n_free:,} further ones of all {whose}, got {len(new_kinds):,}"
            )
        names.n_free -= len(new_kinds)
        names.kinds |= new_kinds


class UserJudge(Judge):
    """Judges the attributes of users."""

    def put(self, element: Any) -> UserChange:
        """The change that puts the attributes in `element`; ValueError with the reason if it is refused."""
        user = attributes_in(element, NewUser, "user object")
        return self.change(user.user, user, "put")

    def change(self, user: str, attributes: ValueChanges, op: Literal["put", "patch"]) -> UserChange:
        """The change of `user` by these attributes, whose names users have from now on; ValueError as above."""
        change = UserChange(user, tags=attributes.tags, numbers=attributes.numbers, op=op)
        user_changes.check(change)
        self.admit(change, "users")
        return change


class ItemJudge(Judge):
    """Judges items, whose embeddings all have one length."""

    def put(self, element: Any) -> ItemChange:
        """The change that puts the item `element`; ValueError with the reason if it is refused."""
        item = attributes_in(element, NewItem, "item object")
        return self.change(item.item, item, "put")

    def patch_named(self, element: Any) -> ItemChange:
        """The change that patches the item that `element` names; ValueError with the reason if it is refused."""
        item = attributes_in(element, NewItem, "item object")
        return self.change(item.item, item, "patch")

    def patch(self, item: str, element: Any) -> ItemChange:
        """The change that patches `item`; ValueError with the reason if it is refused."""
        return self.change(item, attributes_in(element, AttributeChanges, "item object"), "patch")

    def change(self, item: str, attributes: AttributeChanges, op: Operation) -> ItemChange:
        """The change of `item` by these attributes, whose names the catalog has from now on; ValueError as above."""
        fields = {name: getattr(attributes, name) for name in AttributeChanges.__struct_fields__}
        change = ItemChange(item, **fields, op=op)
        check(change)
        length = len(change.embedding) if isinstance(change.embedding, list) else None
        present = self._names.n_dimensions
        if length is not None and present is not None and length != present:
            raise ValueError(f"Invalid embedding: expected {present:,} numbers as of the other items, got {length:,}")
        self.admit(change, "items")
        self._names.n_dimensions = present or length
        return change


def attributes_in(element: Any, kind: type[T], noun: str) -> T:
    """`element` as a struct, in words a `noun`; ValueError with the reason if it is none."""
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
    return converted(with_seconds(element, TIMES), kind, noun)
