"""`Titles`: items in the order of their titles. Belongs to the thread that owns the history."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

LONGEST = 2000  # entries of a bucket: one that grows beyond it is cut in two


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
