"""Kernels that recognize repeated events, keep showings and types, and add events up (see `gpu.online.events`)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import FULL, Directory, Int, clear, give_back, new_place

# The oldest first: both halves of keys; items and seconds of showings; or halves of the words of records.
# By item: items and bits of types.
Columns = tuple[NDArray[np.int32], NDArray[np.int32]]


@njit(cache=True, nogil=True)
def ensure_room(row: Int, rows: Directory, columns: Columns) -> bool:
    """Make room for one more entry in a row; false if the arena is full."""
    starts, lengths, capacities, ends = rows
    low, high = columns
    capacity = capacities[row]
    position = new_place(row, rows, low)
    if position >= 0:
        for n in range(lengths[row]):
            low[position + n], high[position + n] = low[starts[row] + n], high[starts[row] + n]
        give_back(starts[row], capacity, ends, low)
        starts[row] = position
    return position != FULL


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def take(
    first: Int,
    users: NDArray[np.int64],
    keys: Annotated[NDArray[np.int32], 2],
    rows: Directory,
    columns: Columns,
    most: Int,
    are_new: NDArray[np.bool_],
) -> int:
    """Look at events `first`, `first` + 1, …, write whether each is new to `are_new`, and remember its key.

    Args:
        users: (B,), rows.
        keys: (B, 2), both halves of the keys; a key of zeros is none, and always new.
        most: keys of a user that are remembered; the oldest goes first.

    Returns:
        The first event that did not fit; the number of events if all did.
    """
    starts, lengths = rows[0], rows[1]
    low, high = columns
    for n in range(first, len(users)):
        user = users[n]
        start, length = starts[user], lengths[user]
        n_alike, is_known = 0, False
        for position in range(start, start + length):  # one column and no branch: the compiler compares eight at once
            n_alike += low[position] == keys[n, 0]
        if n_alike:
            for position in range(start, start + length):
                is_known |= low[position] == keys[n, 0] and high[position] == keys[n, 1]
        are_new[n] = not is_known
        if is_known or (keys[n, 0] == 0 and keys[n, 1] == 0):
            continue
        if length == most:
            for column in columns:  # one after the other, so that each is one move of memory
                for position in range(start, start + length - 1):
                    column[position] = column[position + 1]
            lengths[user] -= 1
        elif not ensure_room(user, rows, columns):
            return n
        last = starts[user] + lengths[user]
        low[last], high[last] = keys[n, 0], keys[n, 1]
        lengths[user] += 1
    return len(users)


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def append(
    first: Int,
    users: NDArray[np.int64],
    entries: Annotated[NDArray[np.int32], 2],
    rows: Directory,
    columns: Columns,
    most: Int,
) -> int:
    """Append entries `first`, `first` + 1, … to the rows of their users.

    Args:
        users: (B,), rows.
        entries: (B, 2).
        most: entries that a user keeps; the oldest goes first.

    Returns:
        The first entry that did not fit; the number of entries if all did.
    """
    starts, lengths = rows[0], rows[1]
    low, high = columns
    for n in range(first, len(users)):
        user = users[n]
        if lengths[user] == most:
            for column in columns:
                for position in range(starts[user], starts[user] + most - 1):
                    column[position] = column[position + 1]
            lengths[user] -= 1
        elif not ensure_room(user, rows, columns):
            return n
        last = starts[user] + lengths[user]
        low[last], high[last] = entries[n, 0], entries[n, 1]
        lengths[user] += 1
    return len(users)


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def add_bits(
    first: Int,
    users: NDArray[np.int64],
    pairs: Annotated[NDArray[np.int32], 2],
    found: NDArray[np.int32],
    rows: Directory,
    columns: Columns,
) -> int:
    """Add bits `first`, `first` + 1, … to the items of their users, whose rows stay sorted by item.

    Args:
        users: (B,), rows.
        pairs: (B, 2), an item and its further bits.
        found: (B,), written: the bits of the item before.

    Returns:
        The first pair that did not fit; the number of pairs if all did.
    """
    starts, lengths = rows[0], rows[1]
    items, bits = columns
    for n in range(first, len(users)):
        user, item = users[n], pairs[n, 0]
        low, high = starts[user], starts[user] + lengths[user]
        while low < high:
            middle = (low + high) // 2
            if items[middle] < item:
                low = middle + 1
            else:
                high = middle
        place = low - starts[user]
        if place == lengths[user] or items[low] != item:
            if not ensure_room(user, rows, columns):
                return n
            low = starts[user] + place
            for column in columns:
                for position in range(starts[user] + lengths[user], low, -1):
                    column[position] = column[position - 1]
            items[low], bits[low] = item, 0
            lengths[user] += 1
        found[n] = bits[low]
        bits[low] |= pairs[n, 1]
    return len(users)


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def drop_user(user: Int, rows: Directory, columns: Columns) -> None:
    """Overwrite the entries of a user and free their memory."""
    for position in range(rows[0][user], rows[0][user] + rows[1][user]):
        columns[0][position], columns[1][position] = 0, 0
    clear(user, rows, columns[0])


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def add_up(
    pairs: NDArray[np.int64],
    amounts: NDArray[np.float64],
    times: NDArray[np.float64],
    bound: float,
    sums: NDArray[np.float32],
    latest: NDArray[np.float64],
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Add the amounts of events, in order, to the sums of their pairs.

    Args:
        pairs, amounts, times: (B,); `pairs` are places in `sums`.
        bound: a sum is clipped to ±`bound` after each event.
        sums: float32 (P,), changed in place; NaN where there is none yet.
        latest: float64 (P,), changed in place: the latest time of the events of each pair.

    Returns:
        The sum and the latest time that each event found, float32 and float64 (B,).
    """
    found_sums, found_latest = np.empty(len(pairs), dtype=np.float32), np.empty(len(pairs), dtype=np.float64)
    for n in range(len(pairs)):
        pair = pairs[n]
        found_sums[n], found_latest[n] = sums[pair], latest[pair]
        total = amounts[n] if np.isnan(sums[pair]) else sums[pair] + amounts[n]
        sums[pair] = min(max(total, -bound), bound)
        latest[pair] = max(latest[pair], times[n])
    return found_sums, found_latest
