"""`IdTable`: maps ids (strings) to rows (numbers) and back, and grows without a pause."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.base.growing import Growing

N_SHARDS = 256  # dicts; a dict doubles all at once, which at 10 million ids takes 3 ms for a shard, 700 ms for one dict
ROOM = 1024  # keys; least growth of the key array
RETIRED = ""  # the id of a forgotten row; no legal id is empty
NO_ROW = -1  # of an id that has none


def key_of(identifier: str) -> int:
    """The 64-bit key of an id, equal in every process. It seeds all random draws about the id.

    `gpu.data.host_keys.keys_of` gives the same for many ids.
    """
    return int.from_bytes(hashlib.blake2b(identifier.encode(), digest_size=8).digest(), "little")


class IdTable:
    """Gives ids rows in order of first appearance. A row is never reused, not even when its id is forgotten.

    Attributes:
        n_forgotten: how many ids were forgotten.
    """

    def __init__(self) -> None:
        self._shards: list[dict[str | None, int]] = [{} for _ in range(N_SHARDS)]
        self._ids: list[str] = []
        self._keys = Growing(np.zeros(0, dtype=np.uint64))
        self.n_forgotten = 0

    def __len__(self) -> int:
        """Number of rows ever assigned."""
        return len(self._ids)

    def __contains__(self, identifier: str) -> bool:
        """Whether an id has a row. Safe from any thread."""
        return self.row(identifier) is not None

    @property
    def n_known(self) -> int:
        """Number of ids that have a row, without retired ones."""
        return self.n_ids - (self.row(RETIRED) is not None)  # see `service.storage.log.introductions`

    @property
    def n_ids(self) -> int:
        """Number of ids that have a row, with the empty one if that has one."""
        return sum(map(len, self._shards))

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Key of every row, also of retired ones, uint64 (rows,); a view that growth replaces."""
        return self._keys.values[: len(self._ids)]

    def row(self, identifier: str) -> int | None:
        """Row of an id, or None."""
        return self._shards[hash(identifier) % N_SHARDS].get(identifier)

    def rows(self, identifiers: Iterable[str | None]) -> list[int | None]:
        """Row of each id; None for an id without a row, and for None."""
        shards = self._shards
        return [shards[hash(identifier) % N_SHARDS].get(identifier) for identifier in identifiers]

    def rows_of(self, identifiers: Sequence[str | None]) -> NDArray[np.int64]:
        """Row of each id, int64 (B,); `NO_ROW` for an id without a row, and for None."""
        shards = self._shards
        rows = [shards[hash(identifier) % N_SHARDS].get(identifier, NO_ROW) for identifier in identifiers]
        return np.array(rows, dtype=np.int64)

    def row_or_new(self, identifier: str) -> int:
        """Row of an id; a new one if it has none."""
        return int(self.rows_or_new([identifier])[0])

    def rows_or_new(self, identifiers: Sequence[str]) -> NDArray[np.int32]:
        """Rows of many ids, in order."""
        rows = self.rows_of(identifiers)
        are_new = np.flatnonzero(rows == NO_ROW)
        if len(are_new):
            new = [identifiers[n] for n in are_new.tolist()]
            distinct = list(dict.fromkeys(new))
            self.add(distinct, np.fromiter(map(key_of, distinct), np.uint64, len(distinct)))
            rows[are_new] = self.rows_of(new)
        return rows.astype(np.int32)

    def add(self, identifiers: Sequence[str], keys: NDArray[np.uint64]) -> None:
        """Give the next rows to distinct ids that have none, (B,), whose keys are `keys` (B,)."""
        shards, first = self._shards, len(self._ids)
        self._ids += identifiers
        if len(self._ids) > len(self._keys.values):
            self._keys.grow(len(self._ids) + ROOM)
        self._keys.values[first : len(self._ids)] = keys
        for row, identifier in enumerate(identifiers, first):
            shards[hash(identifier) % N_SHARDS][identifier] = row

    def id(self, row: int) -> str:
        """Id of a row; `RETIRED` if it was forgotten."""
        return self._ids[row]

    def ids(self, rows: Iterable[int]) -> list[str]:
        """Ids of many rows."""
        return [self._ids[row] for row in rows]

    def forget(self, identifier: str) -> int | None:
        """Retire the row of an id and return it, or None. The id gets a new row when it appears again."""
        row = self._shards[hash(identifier) % N_SHARDS].pop(identifier, None)
        if row is not None:
            self._ids[row] = RETIRED
            self.n_forgotten += 1
        return row
