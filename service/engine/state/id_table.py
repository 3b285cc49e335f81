"""`IdTable`: maps ids to rows (numbers) and back, and grows without a pause."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpu.base.growing import Growing
from gpu.data import host_ids as kernels
from gpu.data.host_ids import NO_ROW, UNSEEN, IdColumn, IdRows
from gpu.data.host_keys import keys_of

ROOM = 1024  # rows; least growth
RETIRED = ""  # the id of a forgotten row; no legal id is empty
SPARSE = 4  # a column whose dictionary has more than this many ids per row gets a dictionary of its own


def key_of(identifier: str) -> int:
    """The 64-bit key of an id, equal in every process. It seeds all random draws about the id.

    `gpu.data.host_keys.keys_of` gives the same for many ids.
    """
    return int.from_bytes(hashlib.blake2b(identifier.encode(), digest_size=8).digest(), "little")


def column_of_log(column: pa.DictionaryArray) -> IdColumn:
    """The ids in a column of the rating log."""
    codes, ids = np.array(column.indices.to_numpy(), dtype=np.int32), column.dictionary
    if SPARSE * len(codes) <= len(ids):  # without most other ids, so that short columns cost little
        used, codes_of_used = np.unique(codes, return_inverse=True)
        codes, ids = codes_of_used.astype(np.int32), ids.take(pa.array(used))
    _, offsets, text = ids.buffers()
    offsets = np.frombuffer(offsets, dtype=np.int32)[ids.offset : ids.offset + len(ids) + 1]
    return IdColumn(codes, offsets.copy(), np.frombuffer(text or b"", dtype=np.uint8).copy())


class IdTable:
    """Gives ids rows in order of first appearance. A row is never reused, not even when its id is forgotten.

    Ids are looked up by their bytes, beside Python: of a million ids in a dict, each takes a microsecond, which waits
    for memory and holds the GIL.

    Attributes:
        n_forgotten: how many ids were forgotten.
    """

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._keys = Growing(np.zeros(0, dtype=np.uint64))
        self._heads = Growing(np.zeros(0, dtype=np.int32), NO_ROW)
        self._rows = Growing(np.zeros((0, 4), dtype=np.int64))
        self._text = Growing(np.zeros(0, dtype=np.uint8))
        self._counts = np.zeros(2, dtype=np.int64)
        self._secret = np.array([secrets.randbits(64) | 1], dtype=np.uint64)
        self._table: IdRows
        self._make_room(0, 0)
        self.n_forgotten = 0

    def __len__(self) -> int:
        """Number of rows ever assigned."""
        return len(self._ids)

    def __contains__(self, identifier: str) -> bool:
        """Whether an id has a row. Safe from any thread; an id that is being added may be missed."""
        return self.row(identifier) is not None

    @property
    def n_known(self) -> int:
        """Number of ids that have a row, without retired ones."""
        # See `service.storage.log.introductions`.
        return len(self._ids) - self.n_forgotten - (self.row(RETIRED) is not None)

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Key of every row, also of retired ones, uint64 (rows,); a view that growth replaces."""
        return self._keys.values[: len(self._ids)]

    def row(self, identifier: str) -> int | None:
        """Row of an id, or None."""
        text = np.frombuffer(bytearray(identifier.encode(errors="surrogatepass")), dtype=np.uint8)
        row = int(kernels.find_one(text, self._table))
        return None if row == NO_ROW else row

    def rows(self, identifiers: Sequence[str | None]) -> list[int | None]:
        """Row of each id; None for an id without a row, and for None."""
        rows = self.rows_of(IdColumn.of(identifier or RETIRED for identifier in identifiers)).tolist()
        return [
            None if row == NO_ROW or identifier is None else row
            for identifier, row in zip(identifiers, rows, strict=True)
        ]

    def rows_of(self, column: IdColumn) -> NDArray[np.int32]:
        """Row of each id of a column, int32 (B,); `NO_ROW` for one without a row."""
        row_of_code = np.full(len(column.offsets) - 1, UNSEEN, dtype=np.int32)
        kernels.find(column, self._table, row_of_code)
        return row_of_code[column.codes]

    def row_or_new(self, identifier: str) -> int:
        """Row of an id; a new one if it has none."""
        return int(self.rows_or_new([identifier])[0])

    def rows_or_new(self, identifiers: Sequence[str]) -> NDArray[np.int32]:
        """`rows_or_new_of` these ids."""
        return self.rows_or_new_of(IdColumn.of(identifiers))

    def rows_or_new_of(self, column: IdColumn) -> NDArray[np.int32]:
        """Row of each id of a column, int32 (B,). New ones get rows in order of appearance."""
        row_of_code = np.full(len(column.offsets) - 1, UNSEEN, dtype=np.int32)
        n_new = kernels.find(column, self._table, row_of_code)
        if n_new:
            lengths = np.diff(column.offsets)
            self._make_room(n_new, int(lengths[row_of_code == NO_ROW].sum()))
            new, first = column._replace(codes=kernels.add(column, self._table, row_of_code)), len(self._ids)
            self._keys.values[first : first + len(new.codes)] = keys_of(new)
            self._ids += new.ids()
        rows: NDArray[np.int32] = row_of_code[column.codes]
        return rows

    def id(self, row: int) -> str:
        """Id of a row; `RETIRED` if it was forgotten."""
        return self._ids[row]

    def ids(self, rows: Iterable[int]) -> list[str]:
        """Ids of many rows."""
        return [self._ids[row] for row in rows]

    def forget(self, identifier: str) -> int | None:
        """Retire the row of an id and return it, or None. The id gets a new row when it appears again."""
        row = self.row(identifier)
        if row is not None:
            kernels.forget(row, self._table)
            self._ids[row] = RETIRED
            self.n_forgotten += 1
        return row

    def _make_room(self, n_rows: int, n_bytes: int) -> None:
        """Make room for as many more rows, and bytes of their ids."""
        n_rows, n_bytes = len(self._ids) + n_rows, int(self._counts[1]) + n_bytes
        if n_rows + 1 > len(self._heads.values):
            for growing in (self._keys, self._rows, self._heads):
                growing.grow(n_rows + ROOM)
        self._text.grow(n_bytes)
        heads, rows, text = self._heads.values, self._rows.values, self._text.values
        self._table = IdRows(heads, rows, text, self._counts, self._secret)
