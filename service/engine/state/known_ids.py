"""`KnownIds`: finds the rows of ids in columns of the rating log without making text of those it has met before.

To look up a million ids of an `IdTable` one by one takes half a second, which waits for memory and holds the GIL; here
it takes a tenth of that. Everything is forgotten with the object, and with the first id that the table forgets.
"""

from __future__ import annotations

import secrets

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpu.base.backend import HOST
from gpu.base.growing import Growing
from gpu.data.host_ids import FREE, Entries, Texts
from service.engine.state.id_table import IdTable

SPARSE = 4  # a column whose dictionary has more than this many ids per row gets a dictionary of its own


class KnownIds:
    """A cache of the rows of an `IdTable`, for one thread at a time."""

    def __init__(self, ids: IdTable) -> None:
        self._ids, self._kernels = ids, HOST.primitives("ids")
        self._key = np.array([secrets.randbits(64) | 1], dtype=np.uint64)
        self._n_entries = 0
        self._clear()

    def _clear(self) -> None:
        self._n_forgotten, self._n_entries = self._ids.n_forgotten, 0  # the number of ids here
        self._slots = np.full(1, FREE, dtype=np.int32)
        self._rows, self._ends = (Growing(np.zeros(0, dtype=kind)) for kind in (np.int32, np.int64))
        self._text = Growing(np.zeros(0, dtype=np.uint8))

    def rows_of(self, column: pa.DictionaryArray) -> NDArray[np.int32]:
        """Rows of the ids in a column, int32 (B,). New ones get rows in order of appearance."""
        if not len(column):
            return np.zeros(0, dtype=np.int32)
        if self._n_forgotten != self._ids.n_forgotten:
            self._clear()
        codes, ids = np.array(column.indices.to_numpy(), dtype=np.int32), column.dictionary
        if SPARSE * len(codes) <= len(ids):  # without most other ids, so that short columns cost little
            used, codes_of_used = np.unique(codes, return_inverse=True)
            codes, ids = codes_of_used.astype(np.int32), ids.take(pa.array(used))
        _, offsets, text = ids.buffers()  # views, which live as long as the array
        starts = np.frombuffer(offsets, dtype=np.int32)[ids.offset : ids.offset + len(ids) + 1]
        texts = Texts(starts, np.frombuffer(text or b"", dtype=np.uint8))
        rows_of_ids = np.full(len(ids), FREE, dtype=np.int32)
        new = self._kernels.find(codes, texts, self._entries(), rows_of_ids)
        if len(new):
            names = ids.take(pa.array(new)).to_pylist()
            if self._n_entries == self._ids.n_ids:  # all ids of the table are here, so these have no rows
                first = len(self._ids)
                self._ids.add(names, HOST.primitives("keys").keys_of(new, texts))
                rows_of_ids[new] = np.arange(first, len(self._ids))
            else:
                rows_of_ids[new] = self._ids.rows_or_new(names)
            # Make room for them, then add them.
            n = self._n_entries + len(new)
            n_bytes = int(self._ends.values[self._n_entries - 1]) if self._n_entries else 0
            self._rows.grow(n)
            self._ends.grow(n)
            self._text.grow(n_bytes + int((texts.offsets[new + 1] - texts.offsets[new]).sum()))
            if 2 * n > len(self._slots):
                self._slots = np.full(1 << (2 * n - 1).bit_length(), FREE, dtype=np.int32)
                self._kernels.refill(self._n_entries, self._entries())
            self._n_entries = self._kernels.add(new, texts, rows_of_ids[new], self._n_entries, self._entries())
        rows: NDArray[np.int32] = rows_of_ids[codes]
        return rows

    def _entries(self) -> Entries:
        return Entries(self._slots, self._rows.values, self._ends.values, self._text.values, self._key)
