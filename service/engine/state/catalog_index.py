"""`CatalogIndex`: finds the items with a tag, a number in a range, or a title. Derived from the attributes of items."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

import numpy as np

from service.engine.state.number_column import NumberColumn
from service.engine.state.row_set import Bits, RowSet, n_words
from service.storage.item_changes import Attributes

LONGEST = 2000  # entries of a bucket: one that grows beyond it is cut in two


class CatalogIndex:
    """A set of rows for each value of each tag, and a column for each name of numbers.

    A value takes 4 bytes for each item that has it, or a bit for each item of the service; a column takes 8 bytes for
    each item that has a number, or 4 for each item of the service.

    Attributes:
        n_items: rows that changes may name; the owner sets it.
        titles: items in the order of their titles.
    """

    def __init__(self) -> None:
        self._tags: dict[str, dict[str, RowSet]] = {}
        self._numbers: dict[str, NumberColumn] = {}
        self._versions: dict[str, int] = {}
        self.titles = Titles()
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
        self.titles.change(row, old.title, new.title)
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


def _first(bucket: list[tuple[str, int]]) -> tuple[str, int]:
    return bucket[0] if bucket else ("", -1)


class Titles:
    """Rows of items by their titles, without regard to capitals; about 150 bytes a title."""

    def __init__(self) -> None:
        self._buckets: list[list[tuple[str, int]]] = []  # none is empty; all entries are in order

    def change(self, row: int, old: str | None, new: str | None) -> None:
        """The title of an item changes; None is none. Takes a few microseconds."""
        if old == new:
            return
        if old is not None:
            entry = old.casefold(), row
            place = self._place(entry)
            bucket = self._buckets[place]
            del bucket[bisect.bisect_left(bucket, entry)]
            if not bucket:
                del self._buckets[place]
        if new is not None:
            entry = new.casefold(), row
            if not self._buckets:
                self._buckets.append([])
            place = self._place(entry)
            bucket = self._buckets[place]
            bisect.insort(bucket, entry)
            if len(bucket) > LONGEST:
                self._buckets[place : place + 1] = [bucket[: LONGEST // 2], bucket[LONGEST // 2 :]]

    def starting_with(self, text: str) -> Iterator[int]:
        """The rows of items whose titles begin with `text`, in the order of their titles."""
        prefix = text.casefold()
        place = self._place((prefix, -1))
        for bucket in self._buckets[place:]:
            for title, row in bucket[bisect.bisect_left(bucket, (prefix, -1)) :]:
                if not title.startswith(prefix):
                    return
                yield row

    def _place(self, entry: tuple[str, int]) -> int:
        """The bucket that has `entry`, or would have it."""
        return max(bisect.bisect_right(self._buckets, entry, key=_first) - 1, 0)
