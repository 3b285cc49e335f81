"""`CatalogIndex`: finds the items with a tag, or with a number in a range. Derived from the attributes of items."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from service.engine.state.number_column import NumberColumn
from service.engine.state.row_set import Bits, RowSet, n_words
from service.storage.item_changes import Attributes


class CatalogIndex:
    """A set of rows for each value of each tag, and a column for each name of numbers.

    A value takes 4 bytes for each item that has it, or a bit for each item of the service; a column takes 8 bytes for
    each item that has a number, or 4 for each item of the service.

    Attributes:
        n_items: rows that changes may name; the owner sets it.
    """

    def __init__(self) -> None:
        self._tags: dict[str, dict[str, RowSet]] = {}
        self._numbers: dict[str, NumberColumn] = {}
        self._versions: dict[str, int] = {}
        self.n_items = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows, bits and columns."""
        sets = sum(one.n_bytes for values in self._tags.values() for one in values.values())
        return sets + sum(column.n_bytes for column in self._numbers.values())

    def version(self, name: str) -> int:
        """How often items with this name changed: what was found by it holds as long as this does not change."""
        return self._versions.get(name, 0)

    def change(self, row: int, old: Attributes, new: Attributes) -> None:
        """The attributes of item `row`, one of `n_items`, change from `old` to `new`."""
        if old.tags != new.tags:
            for name in old.tags.keys() | new.tags.keys():
                self._change_tag(row, name, set(old.tags.get(name, ())), set(new.tags.get(name, ())))
        if old.numbers != new.numbers:
            for name in old.numbers.keys() | new.numbers.keys():
                self._change_number(row, name, old.numbers.get(name), new.numbers.get(name))

    def pack(self) -> None:
        """Give back memory after many changes."""
        for sets in self._tags.values():
            for rows in sets.values():
                rows.pack(self.n_items)
        for column in self._numbers.values():
            column.pack(self.n_items)

    def with_tag(self, name: str, values: Iterable[str], n_items: int) -> Bits:
        """The items that have one of these values; the bits of `n_items` items."""
        bits, sets = np.zeros(n_words(n_items), dtype=np.uint32), self._tags.get(name, {})
        for value in values:
            if value in sets:
                sets[value].add_to(bits, n_items)
        return bits

    def within(self, name: str, least: float, most: float, n_items: int) -> Bits:
        """The items whose number, as float32, is from `least` to `most`, both included; the bits of `n_items` items."""
        if name not in self._numbers:
            return np.zeros(n_words(n_items), dtype=np.uint32)
        return self._numbers[name].within(least, most, n_items)

    def _change_tag(self, row: int, name: str, old: set[str], new: set[str]) -> None:
        sets = self._tags.setdefault(name, {})
        for value in new - old:
            if value not in sets:
                sets[value] = RowSet()
            sets[value].add(row, self.n_items)
        for value in old - new:
            sets[value].remove(row, self.n_items)
            if not sets[value].n:
                del sets[value]
        if not sets:
            del self._tags[name]
        if old != new:
            self._touch(name)

    def _change_number(self, row: int, name: str, old: float | None, new: float | None) -> None:
        if old == new:
            return
        column = self._numbers.setdefault(name, NumberColumn())
        column.change(row, old, new, self.n_items)
        if not column.n:
            del self._numbers[name]
        self._touch(name)

    def _touch(self, name: str) -> None:
        self._versions[name] = self._versions.get(name, 0) + 1
