"""Plain lists as columns: `Ids`, the users who are asked for together, and `ListColumns`, their lists.

A kernel writes the items of all lists without the lock of Python. The process that answers the requests adds what is
before and after them.
"""

from __future__ import annotations

import itertools
import operator
from array import array
from collections.abc import Iterator, Sequence

from msgspec import Struct

# JSON of a list: the head, its items, the tail. Before an item, before its score and its estimate:
HEAD, FIRST, NEXT = b'{"user":"%b","items":[', b'{"item":', b'},{"item":'
SCORE, ESTIMATE = b',"score":', b',"estimate":'
END, EMPTY = b"}]", b"]"  # of a list with items, and without
UINT_BYTES = 4


class BadColumns(ValueError):
    """Columns that contradict each other: the other process has an error."""


class Ids(Struct, frozen=True):
    """Ids as columns, at least one. Plain requests have ids of ASCII alone.

    Attributes:
        text: one after the other.
        ends: uint32 (B,), where each id ends in `text`.

    Raises:
        BadColumns: the columns contradict each other, or an id is empty or not of ASCII.
    """

    text: bytes
    ends: bytes

    @classmethod
    def of(cls, ids: Sequence[bytes]) -> Ids:
        """The columns of `ids`."""
        return cls(b"".join(ids), array("I", itertools.accumulate(map(len, ids))).tobytes())

    def __post_init__(self) -> None:
        """Check the columns."""
        ends = array("I", self.ends)
        if not ends or ends[-1] != len(self.text) or not all(map(operator.lt, (0, *ends), ends)):
            raise BadColumns(f"Invalid ends of ids: expected an ascending number up to {len(self.text)} for each id")
        if not self.text.isascii():
            raise BadColumns("Invalid text of ids: expected ASCII")

    def __len__(self) -> int:
        """Number of ids."""
        return len(self.ends) // UINT_BYTES

    def __getitem__(self, at: int) -> str:
        """One id."""
        ends = array("I", self.ends)
        return self.text[ends[at - 1] if at else 0 : ends[at]].decode()

    def __iter__(self) -> Iterator[str]:
        """The ids in order."""
        return map(bytes.decode, self.parts())

    def parts(self) -> list[bytes]:
        """Each id."""
        ends = array("I", self.ends)
        return [self.text[first:end] for first, end in zip((0, *ends), ends, strict=False)]


class ListColumns(Struct, frozen=True):
    """The lists of B users.

    Attributes:
        text: JSON of the items of all lists.
        ends: uint32 (B,), where each list ends in `text`.
        places: uint32 (B,), the place of the user of each list among those that were asked for.
        kinds: uint32 (B,), the tail of each list.
        tails: JSON that follows the items of a list.
    """

    text: bytes
    ends: bytes
    places: bytes
    kinds: bytes
    tails: list[bytes]

    @classmethod
    def joined(cls, parts: Sequence[ListColumns]) -> ListColumns:
        """The lists of all parts, whose users follow each other."""
        ends, places, kinds, tails = array("I"), array("I"), array("I"), list[bytes]()
        n_bytes = 0
        for part in parts:
            first_user, first_tail = len(places), len(tails)
            ends.extend(n_bytes + end for end in array("I", part.ends))
            places.extend(first_user + place for place in array("I", part.places))
            kinds.extend(first_tail + kind for kind in array("I", part.kinds))
            n_bytes += len(part.text)
            tails += part.tails
        text = b"".join(part.text for part in parts)
        return cls(text, ends.tobytes(), places.tobytes(), kinds.tobytes(), tails)

    def bodies(self, users: Ids) -> list[bytes]:
        """The JSON of the list of each of `users`, for whom the lists were asked.

        Raises:
            BadColumns: the columns contradict each other, or have another number of users.
        """
        text, tails, bodies = self.text, self.tails, users.parts()
        ends, places, kinds = (array("I", column) for column in (self.ends, self.places, self.kinds))
        firsts = array("I", (0, *ends[:-1]))
        if len(ends) != len(bodies) or ends[-1] != len(text) or not all(map(operator.le, firsts, ends)):
            raise BadColumns(f"Invalid ends of lists: expected {len(bodies)} ascending numbers up to {len(text)}")
        if sorted(places) != list(range(len(bodies))):
            raise BadColumns(f"Invalid places of lists: expected each of {len(bodies)} users once")
        if len(kinds) != len(bodies) or max(kinds) >= len(tails):
            raise BadColumns(f"Invalid kinds of lists: expected {len(bodies)} numbers below {len(tails)}")
        for first, end, place, kind in zip(firsts, ends, places, kinds, strict=True):
            bodies[place] = b"".join((HEAD % bodies[place], text[first:end], tails[kind]))
        return bodies
