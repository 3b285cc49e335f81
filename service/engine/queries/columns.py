"""Plain lists as columns: `Ids`, the users who are asked for together, and `ListColumns`, their lists.

A list is text with a gap for each number. The engine's process gathers the text from an arena without the lock of
Python. The process that answers the requests writes the numbers, and joins both.
"""

from __future__ import annotations

import itertools
import operator
from array import array
from collections.abc import Sequence

import msgspec
from msgspec import Struct

GAP = b"\n"  # no other byte of the text has this value: JSON writes a newline within an id as \n
# The pieces of a list between its head, the names of its items and its tail:
HEAD, FIRST, NEXT, SCORE, ESTIMATE = (
    b'{"user":"%b","items":[', b'{"item":', b'},{"item":', b',"score":' + GAP, b',"estimate":' + GAP,
)  # fmt: skip
END, EMPTY = b"}]", b"]"  # of a list with items, and without
UINT_BYTES = 4
_encode = msgspec.json.Encoder().encode


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

    def parts(self) -> list[bytes]:
        """Each id."""
        ends = array("I", self.ends)
        return [self.text[first:end] for first, end in zip((0, *ends), ends, strict=False)]


class ListColumns(Struct, frozen=True):
    """The lists of B users, with N numbers together.

    Attributes:
        text: N pieces of JSON, each of which ends with the `GAP` of a number.
        numbers: float64 (N,).
        ends: uint32 (B,), numbers up to the end of each list.
        places: uint32 (B,), the place of the user of each list among those that were asked for.
        kinds: uint32 (B,), the tail of each list.
        tails: JSON that follows the last number of a list.
    """

    text: bytes
    numbers: bytes
    ends: bytes
    places: bytes
    kinds: bytes
    tails: list[bytes]

    def bodies(self, users: Ids) -> list[bytes]:
        """The JSON of the list of each of `users`, for whom the lists were asked.

        Raises:
            BadColumns: the columns contradict each other, or are not those of so many users.
        """
        ends, places, kinds = (array("I", column) for column in (self.ends, self.places, self.kinds))
        values = memoryview(self.numbers).cast("d").tolist()
        pieces, numbers = self.text.split(GAP), _encode(values)[1:-1].split(b",") if values else []
        if pieces.pop() or not len(pieces) == len(numbers) == max(ends, default=0):
            raise BadColumns(f"Invalid text of lists: expected a gap for each of {len(numbers)} numbers, in one list")
        if len(ends) != len(users) or not all(map(operator.le, (0, *ends), ends)):
            raise BadColumns(f"Invalid ends of lists: expected {len(users)} that ascend")
        if sorted(places) != list(range(len(users))):
            raise BadColumns(f"Invalid places of lists: expected each of {len(users)} users once")
        if len(kinds) != len(users) or max(kinds) >= len(self.tails):
            raise BadColumns(f"Invalid kinds of lists: expected {len(users)} numbers below {len(self.tails)}")
        parts, heads = [b""] * (2 * len(numbers)), users.parts()
        parts[::2], parts[1::2] = pieces, numbers
        bodies, first = heads.copy(), 0
        for end, place, kind in zip(ends, places, kinds, strict=True):
            bodies[place] = b"".join([HEAD % heads[place], *parts[first : 2 * end], self.tails[kind]])
            first = 2 * end
        return bodies
