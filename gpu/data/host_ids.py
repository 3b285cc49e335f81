"""Kernels that find the rows of ids by their bytes, without making text of them (see `service.engine.state.known_ids`),
and one that joins texts.

An open-addressing hash table with linear probing: `slots` hold entries, an entry is a row and its bytes in `text`. The
hash is keyed, so that nobody can choose ids that all fall into one slot. Ids are equal if all their bytes are. One
thread at a time; reading a log calls them beside Python, because they hold no lock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import Int

FREE, NEW = -1, -2  # a slot without an entry; and what `find` gives for an id without one


class Texts(NamedTuple):
    """Ids as UTF-8: id `n` has the bytes `offsets[n]` to `offsets[n + 1]` (excluded) of `text`."""

    offsets: NDArray[np.int32]
    text: NDArray[np.uint8]


class Entries(NamedTuple):
    """The hash table.

    Attributes:
        slots: int32 (a power of two,), the entry of each slot or `FREE`.
        rows: int32, by entry.
        ends: int64, by entry: its bytes end here, and begin where those of the entry before end.
        text: uint8.
        key: uint64 (1,), odd; secret.
    """

    slots: NDArray[np.int32]
    rows: NDArray[np.int32]
    ends: NDArray[np.int64]
    text: NDArray[np.uint8]
    key: NDArray[np.uint64]


@njit(cache=True, nogil=True)
def hashed(text: NDArray[np.uint8], begin: Int, end: Int, key: np.uint64) -> np.uint64:
    """A keyed hash of some bytes."""
    mixed = key ^ np.uint64(end - begin)
    for at in range(begin, end):
        mixed = (mixed ^ np.uint64(text[at])) * key
        mixed ^= mixed >> np.uint64(29)
    return mixed


@njit(cache=True, nogil=True)
def slot_of(texts: Texts, n: Int, entries: Entries) -> Int:
    """The slot of id `n`, or the free one where it belongs."""
    first, end = np.int64(texts.offsets[n]), np.int64(texts.offsets[n + 1])
    mask = len(entries.slots) - 1
    slot = np.int64(hashed(texts.text, first, end, entries.key[0]) & np.uint64(mask))
    while entries.slots[slot] != FREE:
        entry = entries.slots[slot]
        begin = entries.ends[entry - 1] if entry else np.int64(0)
        if entries.ends[entry] - begin == end - first:
            n_equal = 0
            while n_equal < end - first and entries.text[begin + n_equal] == texts.text[first + n_equal]:
                n_equal += 1
            if n_equal == end - first:
                return slot
        slot = (slot + 1) & mask
    return slot


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def find(codes: NDArray[np.int32], texts: Texts, entries: Entries, found: NDArray[np.int32]) -> NDArray[np.int32]:
    """Write the row of each id that `codes` (B,) name into `found`, which has `FREE` for all ids; `NEW` if it has none.

    Returns:
        int32, the codes of the new ones in order of first appearance.
    """
    new = np.empty(min(len(codes), len(found)), dtype=np.int32)
    n_new = 0
    for n in range(len(codes)):
        code = codes[n]
        if found[code] == FREE:
            entry = entries.slots[slot_of(texts, code, entries)]
            found[code] = NEW if entry == FREE else entries.rows[entry]
            if found[code] == NEW:
                new[n_new] = code
                n_new += 1
    return new[:n_new]


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def add(codes: NDArray[np.int32], texts: Texts, rows: NDArray[np.int32], n_entries: Int, entries: Entries) -> Int:
    """Set the row of each of the ids `codes` (B,); there must be room for B more entries. Returns their new number."""
    n = np.int64(n_entries)
    for at in range(len(codes)):
        code, row = codes[at], rows[at]
        slot = slot_of(texts, code, entries)
        if entries.slots[slot] != FREE:
            entries.rows[entries.slots[slot]] = row
            continue
        begin = entries.ends[n - 1] if n else np.int64(0)
        first, end = texts.offsets[code], texts.offsets[code + 1]
        entries.text[begin : begin + end - first] = texts.text[first:end]
        entries.ends[n], entries.rows[n], entries.slots[slot] = begin + end - first, row, n
        n += 1
    return n


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def refill(n_entries: Int, entries: Entries) -> None:
    """Put the entries into `slots`, which is empty."""
    mask = len(entries.slots) - 1
    for n in range(n_entries):
        begin = entries.ends[n - 1] if n else np.int64(0)
        slot = np.int64(hashed(entries.text, begin, entries.ends[n], entries.key[0]) & np.uint64(mask))
        while entries.slots[slot] != FREE:
            slot = (slot + 1) & mask
        entries.slots[slot] = n


@called_for(Use.ANSWERS)
@njit(cache=True, nogil=True)
def lines(
    rows: NDArray[np.int64], lengths: NDArray[np.int64], n_after: int, ends: NDArray[np.int64], text: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Join texts to lists of lines. Text `n` ends at `ends[n]` of `text`, and begins where the one before ends.

    Args:
        rows: (L,), of all lists. A line has text 0 if it is the first one of its list, else 1; then text `rows[n] + 4`,
            then `n_after` texts from 2 on.
        lengths: (B,), lines of each list.
        n_after: 1 or 2.
    """
    places = np.empty((len(rows), 2 + n_after), dtype=np.int64)
    at = 0
    for length in lengths:
        for n in range(length):
            places[at, 0], places[at, 1] = min(n, 1), rows[at] + 4
            for k in range(n_after):
                places[at, 2 + k] = 2 + k
            at += 1
    flat = places.reshape(-1)
    n_bytes = np.int64(0)
    for place in flat:
        n_bytes += ends[place] - (ends[place - 1] if place else np.int64(0))
    joined = np.empty(n_bytes, dtype=np.uint8)
    at = 0
    for place in flat:
        for byte in range(ends[place - 1] if place else np.int64(0), ends[place]):
            joined[at] = text[byte]
            at += 1
    return joined
