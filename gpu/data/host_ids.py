"""Kernels that map ids to rows by their bytes, without making text of them (see `service.engine.state.id_table`).

A hash table with chains that gets one bucket more with each row (linear hashing, Litwin 1980): no row added moves more
than one chain, however many there are. The hash is keyed, so that nobody can choose ids that all fall into one bucket.
Ids are equal if all their bytes are. One thread adds and forgets. Another one that looks up meanwhile may miss an id,
but reads nothing outside the arrays that it holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import Int

NO_ROW, UNSEEN = -1, -2  # no row; and what `find` expects for an id that it has not looked up
HASH, NEXT, BEGIN, END = 0, 1, 2, 3  # columns of `IdRows.rows`


class IdColumn(NamedTuple):
    """B ids as UTF-8: number b is text `codes[b]`. Text c has the bytes `offsets[c]` to `offsets[c + 1]` (excluded).

    Attributes:
        codes: int32 (B,).
        offsets: int32 (texts + 1,).
        text: uint8.
    """

    codes: NDArray[np.int32]
    offsets: NDArray[np.int32]
    text: NDArray[np.uint8]

    @classmethod
    def of(cls, ids: Iterable[str]) -> IdColumn:
        """A column of these ids."""
        parts = [one.encode(errors="surrogatepass") for one in ids]
        offsets = np.array([0, *itertools.accumulate(map(len, parts))], dtype=np.int32)
        text = np.frombuffer(bytearray().join(parts), dtype=np.uint8)
        return cls(np.arange(len(parts), dtype=np.int32), offsets, text)

    @classmethod
    def split(cls, text: bytes, ends: NDArray[np.integer]) -> IdColumn:
        """A column of the ids that follow each other in `text`, of which each ends at one of `ends` (B,)."""
        offsets = np.zeros(len(ends) + 1, dtype=np.int32)
        offsets[1:] = ends
        writable = np.frombuffer(bytearray(text), dtype=np.uint8)  # else `find` would compile once more, at a request
        return cls(np.arange(len(ends), dtype=np.int32), offsets, writable)

    @classmethod
    def joined(cls, parts: Sequence[IdColumn]) -> IdColumn:
        """The ids of all parts in order; expects at least one part."""
        if len(parts) == 1:
            return parts[0]
        n_texts = np.cumsum([0, *(len(part.offsets) - 1 for part in parts)])
        n_bytes = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        codes = [part.codes + np.int32(n) for part, n in zip(parts, n_texts, strict=False)]
        ends = [part.offsets[1:] + np.int32(n) for part, n in zip(parts, n_bytes, strict=False)]
        text = np.concatenate([part.text[: part.offsets[-1]] for part in parts])
        return cls(np.concatenate(codes), np.concatenate([np.zeros(1, np.int32), *ends]), text)

    def at(self, places: NDArray[np.integer]) -> IdColumn:
        """The ids at some places, over the same texts."""
        return self._replace(codes=self.codes[places])

    def ids(self) -> list[str]:
        """The ids as text."""
        return self.texts(self.codes.tolist())

    def texts(self, codes: Iterable[int]) -> list[str]:
        """The texts of some codes."""
        offsets, content = self.offsets, self.text.data
        return [str(content[offsets[code] : offsets[code + 1]], "utf-8", "surrogatepass") for code in codes]


class IdRows(NamedTuple):
    """The hash table of R rows, which has R + 1 buckets. Arrays may be longer.

    Attributes:
        heads: int32, the first row of each bucket; `NO_ROW` if it is empty.
        rows: int64 (rows, 4), for each its hash, the next row of its bucket, and where its bytes begin and end.
        text: uint8.
        counts: int64 (2,), rows and bytes in use.
        key: uint64 (1,), odd; secret.
    """

    heads: NDArray[np.int32]
    rows: Annotated[NDArray[np.int64], 2]
    text: NDArray[np.uint8]
    counts: NDArray[np.int64]
    key: NDArray[np.uint64]


@njit(cache=True, nogil=True)
def hashed(column: IdColumn, code: Int, key: np.uint64) -> np.int64:
    """A keyed hash of a text, 0 or more."""
    begin, end = column.offsets[code], column.offsets[code + 1]
    mixed = key ^ np.uint64(end - begin)
    for at in range(begin, end):
        mixed = (mixed ^ np.uint64(column.text[at])) * key
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed >> np.uint64(1))


@njit(cache=True, nogil=True)
def bucket_of(hash_of_id: Int, n_rows: Int) -> Int:
    """The bucket of a hash among those of `n_rows` rows."""
    mask = np.int64(1)
    while mask <= n_rows:
        mask *= 2
    bucket = hash_of_id & (mask - 1)
    return bucket if bucket <= n_rows else bucket & (mask // 2 - 1)


@njit(cache=True, nogil=True)
def row_from(row: Int, hash_of_id: Int, column: IdColumn, code: Int, ids: IdRows) -> Int:
    """The row of a text in the chain that begins with `row`; `NO_ROW` if it is not there."""
    first, length = column.offsets[code], column.offsets[code + 1] - column.offsets[code]
    while 0 <= row < len(ids.rows):
        begin, end = ids.rows[row, BEGIN], ids.rows[row, END]
        if ids.rows[row, HASH] == hash_of_id and end - begin == length and end <= len(ids.text):
            n_equal = 0
            while n_equal < length and ids.text[begin + n_equal] == column.text[first + n_equal]:
                n_equal += 1
            if n_equal == length:
                return row
        row = ids.rows[row, NEXT]
    return NO_ROW


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def find(column: IdColumn, ids: IdRows, found: NDArray[np.int32]) -> int:
    """Write the row of each text that the column names, or `NO_ROW`, into `found`, which has `UNSEEN` for all texts.

    First the hashes of all texts, then their rows, then the bytes of these, so that loads from memory overlap.

    Returns:
        How many have none; those with equal bytes count apart.
    """
    codes, hashes = np.empty(len(found), dtype=np.int32), np.empty(len(found) + 1, dtype=np.int64)
    begins = np.empty(len(found), dtype=np.int64)
    n, n_new, n_rows = 0, 0, min(ids.counts[0], len(ids.heads) - 1)
    for code in column.codes:
        if found[code] == UNSEEN:
            codes[n], hashes[n] = code, hashed(column, code, ids.key[0])
            found[code] = ids.heads[bucket_of(hashes[n], n_rows)]
            n += 1
    for x in range(n):
        row = found[codes[x]]
        begins[x] = ids.rows[row, BEGIN] if 0 <= row < len(ids.rows) else 0
    touched: Int = np.int64(0)
    for x in range(n):
        touched += ids.text[begins[x]] if begins[x] < len(ids.text) else 0
    hashes[n] = touched  # so that no compiler leaves the loads out
    for x in range(n):
        found[codes[x]] = row_from(found[codes[x]], hashes[x], column, codes[x], ids)
        n_new += found[codes[x]] == NO_ROW
    return n_new


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def find_one(text: NDArray[np.uint8], ids: IdRows) -> Int:
    """The row of one id; `NO_ROW` if it has none."""
    column = IdColumn(np.zeros(1, dtype=np.int32), np.array([0, len(text)], dtype=np.int32), text)
    hash_of_id, n_rows = hashed(column, 0, ids.key[0]), min(ids.counts[0], len(ids.heads) - 1)
    return row_from(ids.heads[bucket_of(hash_of_id, n_rows)], hash_of_id, column, 0, ids)


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def add(column: IdColumn, ids: IdRows, found: NDArray[np.int32]) -> NDArray[np.int32]:
    """Give rows to the texts for which `find` has written `NO_ROW`, in the order of the column, and write them there.

    There must be room for all of them.

    Returns:
        int32, the codes of the new rows, in order.
    """
    new, n_new, (heads, rows, text, counts, key) = np.empty(len(found), dtype=np.int32), 0, ids
    for code in column.codes:
        if found[code] != NO_ROW:
            continue
        hash_of_id, row = hashed(column, code, key[0]), counts[0]
        found[code] = row_from(heads[bucket_of(hash_of_id, row)], hash_of_id, column, code, ids)
        if found[code] != NO_ROW:  # another code with the same bytes got it
            continue
        first, end = column.offsets[code], column.offsets[code + 1]
        begin = counts[1]
        for byte in range(end - first):  # here and below: to assign a slice takes seconds to compile
            text[begin + byte] = column.text[first + byte]
        rows[row, HASH], rows[row, BEGIN], rows[row, END] = hash_of_id, begin, begin + end - first
        counts[0], counts[1] = row + 1, begin + end - first
        # The new bucket takes those rows of the one that it splits off whose hashes belong there.
        split = bucket_of(row + 1, row)
        other, heads[split], heads[row + 1] = heads[split], NO_ROW, NO_ROW
        while other != NO_ROW:
            following, bucket = rows[other, NEXT], bucket_of(rows[other, HASH], row + 1)
            rows[other, NEXT], heads[bucket] = heads[bucket], other
            other = following
        bucket = bucket_of(hash_of_id, row + 1)
        rows[row, NEXT], heads[bucket] = heads[bucket], row
        found[code], new[n_new] = row, code
        n_new += 1
    return new[:n_new]


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def forget(row: Int, ids: IdRows) -> None:
    """Take a row out of its chain, and overwrite its bytes."""
    heads, rows, text, counts, _ = ids
    bucket = bucket_of(rows[row, HASH], counts[0])
    if heads[bucket] == row:
        heads[bucket] = rows[row, NEXT]
    else:
        before = heads[bucket]
        while rows[before, NEXT] != row:
            before = rows[before, NEXT]
        rows[before, NEXT] = rows[row, NEXT]
    for byte in range(rows[row, BEGIN], rows[row, END]):
        text[byte] = 0
    for field in range(rows.shape[1]):
        rows[row, field] = NO_ROW
