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
        given = _converted(element, NewItem)
        return self._admitted(given.item, given, "put")

    def patch_named(self, element: Any) -> ItemChange:
        """The change that patches the item that `element` names; ValueError with the reason if it is refused."""
        given = _converted(element, NewItem)
        return self._admitted(given.item, given, "patch")

    def patch(self, item: str, element: Any) -> ItemChange:
        """The change that patches `item`; ValueError with the reason if it is refused."""
        return self._admitted(item, _converted(element, AttributeChanges), "patch")

    def _admitted(self, item: str, given: AttributeChanges, op: Operation) -> ItemChange:
        fields = {name: getattr(given, name) for name in AttributeChanges.__struct_fields__}
        change = ItemChange(item, **fields, op=op)
        check(change)
        added = self._added_kinds(change)
        self._check_length(change)
        self._names.n_free -= len(added)
        self._names.kinds |= added
        return change

    def _added_kinds(self, change: ItemChange) -> dict[str, Kind]:
        """The kinds of the names that the catalog does not have yet."""
        added: dict[str, Kind] = {}
        for place, kind, named in _named(change):
            for name in (name for name, value in named.items() if value is not None):
                present = self._names.kinds.get(name) or added.setdefault(name, kind)
                if present != kind:
                    raise ValueError(
                        f"Invalid {place}.{name}: expected a name of {place}, got one of {present}s:"
                        f" remove it from all items first, or take another name"
                    )
        if len(added) > self._names.n_free:
            raise ValueError(
                f"Invalid names: expected at most {self._names.n_free:,} further ones in the whole catalog, got"
                f" {len(added):,}"
            )
        return added

    def _check_length(self, change: ItemChange) -> None:
        if not isinstance(change.embedding, list):
            return
        length = self._names.n_dimensions = self._names.n_dimensions or len(change.embedding)
        if len(change.embedding) != length:
            raise ValueError(
                f"Invalid embedding: expected {length:,} numbers as of the other items, got {len(change.embedding):,}"
            )


def _named(change: ItemChange) -> tuple[tuple[str, Kind, dict[str, Any]], ...]:
    return ("tags", "tag", change.tags or {}), ("numbers", "number", change.numbers or {})


def _converted(element: Any, kind: type[T]) -> T:
    _check_held(element)
    return converted(with_seconds(element, TIMES), kind, "item object")


def _check_held(element: Any) -> None:
    """Check the values of tags and numbers one by one: the message of msgspec would not have their names."""
    for place, kind in _HELD.items():
        held = element.get(place) if isinstance(element, dict) else None
        if not isinstance(held, dict):
            continue
        check_number_of_names(place, held)
        for name, value in held.items():
            try:
                msgspec.convert(value, kind)
            except (msgspec.ValidationError, OverflowError) as error:
                raise ValueError(f"Invalid {place}.{name}: {in_words(str(error))}") from None
