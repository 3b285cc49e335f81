"""`Owners`: whose the rows of the rating log are, after some users became part of others.

A merge is one row of the log. The rows of the user who was merged stay under the id with which they came, up to the
merge; who reads the log in order need not know more. Others ask here: to forget a user is to remove the rows of all
who became part of this user, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.storage.events import ZERO, StreamId
from service.storage.log.segment import are_above, are_below

COLUMNS = ["kind", "user", "data"]


class UserRows(NamedTuple):
    """The rows of the id `user` at positions above `after` and below `before`."""

    user: str
    after: StreamId
    before: StreamId

    def of(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Whether each row belongs to it."""
        names = pc.equal(batch.column("user").cast(pa.string()), self.user)
        is_named: NDArray[np.bool_] = names.fill_null(False).to_numpy(zero_copy_only=False)
        return is_named & are_above(batch, self.after) & are_below(batch, self.before)


class _End(NamedTuple):
    """The rows of a user below `position` became those of `into`; None: the user was forgotten."""

    position: StreamId
    into: str | None


class Owners:
    """Knows all forgotten and merged users.

    Attributes:
        forgotten: (user, position of the entry), in order; a user may be forgotten several times.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        """`batches`: rows of the log in order, with `COLUMNS`."""
        self.forgotten: list[tuple[str, StreamId]] = []
        self._ends: dict[str, list[_End]] = {}
        self._merged: dict[str, list[tuple[str, StreamId]]] = {}  # by the user whom others became part of
        for batch in batches:
            kinds = batch.column("kind").cast(pa.string())
            rows = batch.filter(pc.is_in(kinds, pa.array(["forget", "merge"])))
            columns = (rows.column(name).to_pylist() for name in (*COLUMNS, "ms", "seq"))
            for kind, user, data, ms, seq in zip(*columns, strict=True):
                position = StreamId(ms, seq)
                if kind == "forget":
                    self.forgotten.append((user, position))
                    self._ends.setdefault(user, []).append(_End(position, None))
                else:
                    self._merged.setdefault(user, []).append((data, position))
                    self._ends.setdefault(data, []).append(_End(position, user))

    @property
    def ids(self) -> Iterable[str]:
        """The ids of all who were forgotten or merged."""
        return self._ends.keys()

    def parts(self, user: str, before: StreamId) -> list[UserRows]:
        """All rows of a user at positions below `before`, under all ids; those under `user` are the first part."""
        parts, open_parts = list[UserRows](), [(user, before)]
        while open_parts:
            name, before = open_parts.pop()
            merges = [
                end.position for end in self._ends.get(name, ()) if end.into is not None and end.position < before
            ]
            after = merges[-1] if merges else ZERO
            parts.append(UserRows(name, after, before))
            others = self._merged.get(name, ())
            open_parts += [(other, position) for other, position in others if after < position < before]
        return parts

    def owner(self, user: str, position: StreamId, upto: StreamId) -> str | None:
        """The user of a row of `user` at `position`, as known at `upto`; None if ever forgotten, also after `upto`."""
        shown = user
        while ends := self._ends.get(user):
            place = bisect_right(ends, position, key=lambda end: end.position)
            if place == len(ends):
                break
            position, into = ends[place]
            if into is None:
                return None
            user = into
            shown = user if position <= upto else shown
        return shown
