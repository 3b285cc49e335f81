"""`AttributeIndex`: finds items, or users, with a tag or a number in a range. `Titles`: finds items by their titles."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec
import numpy as np
import structlog

from service.engine.queries.catalog_queries import Kind
from service.engine.state.number_column import NumberColumn
from service.engine.state.row_set import Bits, RowSet, n_words
from service.storage.item_changes import MAX_VALUES, Values, n_values

LONGEST = 2000  # entries of a bucket: one that grows beyond it is cut in two
MAX_NAMES = 1000  # names of tags and numbers of all rows; a number takes 4 bytes a row

V = TypeVar("V", bound=Values)
_log = structlog.get_logger(__name__)


class AttributeIndex:
    """A set of rows for each value of each tag, and a column for each name of numbers; the rows of items, or of users.

    A value takes 4 bytes for each row that has it, or a bit for each row of the service; a column takes 8 bytes for
    each row that has a number, or 4 for each row of the service.

    Attributes:
        n_rows: rows that changes may name; the owner sets it.
    """

    def __init__(self) -> None:
        self._tags: dict[str, dict[str, RowSet]] = {}
        self._numbers: dict[str, NumberColumn] = {}
        self._versions: dict[str, int] = {}
        self._kinds: dict[str, Kind] = {}
        self._n_rows_of: dict[str, int] = {}  # by name
        self.n_rows = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows, bits and columns."""
        sets = sum(one.n_bytes for values in self._tags.values() for one in values.values())
        return sets + sum(column.n_bytes for column in self._numbers.values())

    def version(self, name: str) -> int:
        """How often rows with this name changed: what was found by it holds as long as this does not change."""
        return self._versions.get(name, 0)

    def kind_of(self, name: str) -> Kind | None:
        """Whether a name is of tags or of numbers, as rows have it or had it last; None if it was never used."""
        return self._kinds.get(name)

    def names_of(self, kind: Kind) -> list[str]:
        """The names of this kind."""
        return [name for name, one in self._kinds.items() if one == kind]

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each name that a row has."""
        return {name: kind for name, kind in self._kinds.items() if self._n_rows_of.get(name)}

    @property
    def n_free(self) -> int:
        """How many further names there may be."""
        return MAX_NAMES - len(self._kinds)

    def change(self, row: int, old: V, new: V) -> V:
        """The values of `row`, one of `n_rows`, change from `old` to `new`; returns what it has now.

        That is `new` without the names that contradict those of other rows: a name is of tags or of numbers, and
        changes its kind only while no row has it. A row whose patches together have too many values of tags keeps its
        `old` ones.
        """
        for name in (*old.tags, *old.numbers):
            self._n_rows_of[name] -= 1
        tags = new.tags if n_values(new.tags) <= MAX_VALUES else old.tags
        tags = {name: values for name, values in tags.items() if self._admits(name, "tag")}
        numbers = {
            name: number for name, number in new.numbers.items() if name not in tags and self._admits(name, "number")
        }
        for name in (*tags, *numbers):
            self._n_rows_of[name] = self._n_rows_of.get(name, 0) + 1
        if old.tags != tags:
            for name in old.tags.keys() | tags.keys():
                self._change_tag(row, name, set(old.tags.get(name, ())), set(tags.get(name, ())))
        if old.numbers != numbers:
            for name in old.numbers.keys() | numbers.keys():
                self._change_number(row, name, old.numbers.get(name), numbers.get(name))
        if tags == new.tags and len(numbers) == len(new.numbers):
            return new
        _log.warning(
            "attributes contradict those of others and are left out",
            tags=[name for name, values in new.tags.items() if tags.get(name) != values][:10],
            numbers=[name for name in new.numbers if name not in numbers][:10],
        )
        return msgspec.structs.replace(new, tags=tags, numbers=numbers)

    def drop(self, row: int, old: Values) -> None:
        """The row, which has the values `old`, is forgotten, and so are names that no other row has."""
        self.change(row, old, Values())
        for name in (*old.tags, *old.numbers):
            if not self._n_rows_of[name]:
                del self._kinds[name], self._n_rows_of[name]

    def pack(self) -> None:
        """Give back memory after many changes."""
        for sets in self._tags.values():
            for rows in sets.values():
                rows.pack(self.n_rows)
        for column in self._numbers.values():
            column.pack(self.n_rows)

    def with_tag(self, name: str, values: Iterable[str], n_rows: int) -> Bits:
        """The rows that have one of these values; the bits of `n_rows` rows."""
        bits, sets = np.zeros(n_words(n_rows), dtype=np.uint32), self._tags.get(name, {})
        for value in values:
            if value in sets:
                sets[value].add_to(bits, n_rows)
        return bits

    def within(self, name: str, least: float, most: float, n_rows: int) -> Bits:
        """The rows whose number, as float32, is from `least` to `most`, both included; the bits of `n_rows` rows."""
        if name not in self._numbers:
            return np.zeros(n_words(n_rows), dtype=np.uint32)
        return self._numbers[name].within(least, most, n_rows)

    def _admits(self, name: str, kind: Kind) -> bool:
        """Whether a row may have the name; notes it."""
        present_kind = self._kinds.get(name)
        if present_kind is None and len(self._kinds) >= MAX_NAMES:
            return False
        if present_kind in (None, kind) or not self._n_rows_of.get(name):
            self._kinds[name] = kind
            return True
        return False

    def _change_tag(self, row: int, name: str, old: set[str], new: set[str]) -> None:
        sets = self._tags.setdefault(name, {})
        for value in new - old:
            if value not in sets:
                sets[value] = RowSet()
            sets[value].add(row, self.n_rows)
        for value in old - new:
            sets[value].remove(row, self.n_rows)
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
        column.change(row, old, new, self.n_rows)
        if not column.n:
            del self._numbers[name]
        self._touch(name)

    def _touch(self, name: str) -> None:
        self._versions[name] = self._versions.get(name, 0) + 1


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
                self._buckets.append([entry])
                return
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
        return max(bisect.bisect_right(self._buckets, entry, key=operator.itemgetter(0)) - 1, 0)
