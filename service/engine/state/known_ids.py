"""`KnownIds`: finds the rows of ids in columns of the rating log without making text of those it has met before.

To look up a million ids of an `IdTable` one by one takes half a second, which waits for memory and holds the GIL; here
it takes a tenth of that. Everything is forgotten with the object, and with the first id that the table forgets.
"""

from __future__ import annotations

import secrets

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpu.backend import HOST
from gpu.growing import Growing
from gpu.host.ids import FREE, Entries, Texts
from service.engine.state.id_table import IdTable

SPARSE = 4  # a column with so many times fewer rows than its dictionary has ids gets a dictionary of its own


class KnownIds:
    """A cache of the rows of an `IdTable`, for one thread at a time."""

    def __init__(self, ids: IdTable) -> None:
        self._ids, self._kernels = ids, HOST.primitives("ids")
        self._key = np.array([secrets.randbits(64) | 1], dtype=np.uint64)
        self._n_entries = 0
        self._clear()

    def rows_of(self, column: pa.DictionaryArray) -> NDArray[np.int32]:
        """Rows of the ids in a column, int32 (B,). New ones get rows in order of appearance."""
        if not len(column):
            return np.zeros(0, dtype=np.int32)
        if self._n_forgotten != self._ids.n_forgotten:
            self._clear()
        codes, ids = _compacted(column)
        _, offsets, text = ids.buffers()  # views, which live as long as the array
        starts = np.frombuffer(offsets, dtype=np.int32)[ids.offset : ids.offset + len(ids) + 1]
        texts = Texts(starts, np.frombuffer(text or b"", dtype=np.uint8))
        found = np.full(len(ids), FREE, dtype=np.int32)
        new = self._kernels.find(codes, texts, self._entries(), found)
        if len(new):
            found[new] = self._ids.rows_or_new(ids.take(pa.array(new)).to_pylist())
            self._make_room(len(new), int((texts.offsets[new + 1] - texts.offsets[new]).sum()))
            self._n_entries = self._kernels.add(new, texts, found[new], self._n_entries, self._entries())
        rows: NDArray[np.int32] = found[codes]
        return rows

    def _clear(self) -> None:
        self._n_forgotten, self._n_entries = self._ids.n_forgotten, 0  # the number of ids here
        self._slots = np.full(1, FREE, dtype=np.int32)
        self._rows, self._ends = (Growing(np.zeros(0, dtype=kind)) for kind in (np.int32, np.int64))
        self._text = Growing(np.zeros(0, dtype=np.uint8))

    def _entries(self) -> Entries:
        return Entries(self._slots, self._rows.values, self._ends.values, self._text.values, self._key)

    def _make_room(self, n_more: int, n_bytes: int) -> None:
        n = self._n_entries
        used = int(self._ends.values[n - 1]) if n else 0
        self._rows.grow(n + n_more)
        self._ends.grow(n + n_more)
        self._text.grow(used + n_bytes)
        if 2 * (n + n_more) > len(self._slots):
            self._slots = np.full(1 << (2 * (n + n_more) - 1).bit_length(), FREE, dtype=np.int32)
            self._kernels.refill(n, self._entries())


def _compacted(column: pa.DictionaryArray) -> tuple[NDArray[np.int32], pa.StringArray]:
    """The codes of a column and the ids that they number; without most others, so that short columns cost little."""
    codes, ids = np.array(column.indices.to_numpy(), dtype=np.int32), column.dictionary
    if SPARSE * len(codes) > len(ids):
        return codes, ids
    used, codes_of_used = np.unique(codes, return_inverse=True)
    return codes_of_used.astype(np.int32), ids.take(pa.array(used))
