"""Kernels that apply changes to a table of ratings one by one (see `gpu.data.rating_table`)."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.changes import Changes
from gpu.data.host_arena import FULL, Directory, Int, clear, give_back, new_place
from gpu.data.ratings import Rows

POSITIONS_PER_MS = 2**21  # positions of a service: the Unix milliseconds of an entry and a count within it
POSITIONS_PER_S = 1000.0 * POSITIONS_PER_MS
LONG = 1024  # ratings of a row; from here on a batch merges its new ratings into the row in one pass
# Items, values, timestamps, positions.
UserColumns = tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]]


class OrderedRows(NamedTuple):
    """`gpu.data.ratings.Rows` of users, and the position of each rating: a user's newest ratings have the highest
    ones.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    items: NDArray[np.int32]
    values: NDArray[np.float32]
    positions: NDArray[np.int64]


@njit(cache=True, nogil=True)
def find(items: NDArray[np.integer[Any]], start: Int, length: Int, item: Int) -> Int:
    """Position of the first entry ≥ `item` in an ascending row; `start + length` if there is none."""
    low, high = start, start + length
    while low < high:
        middle = (low + high) // 2
        if items[middle] < item:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def ensure_user_room(row: Int, rows: Directory, columns: UserColumns) -> bool:
    """Make room for one more rating in the row of a user; false if the arena is full."""
    starts, lengths, capacities, ends = rows
    items, values, timestamps, positions = columns
    capacity = capacities[row]
    position = new_place(row, rows, items)
    if position >= 0:
        for n in range(lengths[row]):
            source = starts[row] + n
            items[position + n], values[position + n] = items[source], values[source]
            timestamps[position + n], positions[position + n] = timestamps[source], positions[source]
        give_back(starts[row], capacity, ends, items)
        starts[row] = position
    return position != FULL


@njit(cache=True, nogil=True)
def ensure_item_room(row: Int, rows: Directory, users: NDArray[np.int32]) -> bool:
    """Make room for one more rater of an item; false if the arena is full."""
    starts, lengths, capacities, ends = rows
    capacity = capacities[row]
    position = new_place(row, rows, users)
    if position >= 0:
        for n in range(lengths[row]):
            users[position + n] = users[starts[row] + n]
        give_back(starts[row], capacity, ends, users)
        starts[row] = position
    return position != FULL


@njit(cache=True, nogil=True)
def shift(columns: UserColumns, first: Int, last: Int, step: Int) -> None:
    """Move the entries of `first` to `last` (excluded) by one position, up (`step` 1) or down (−1)."""
    items, values, timestamps, positions = columns
    for n in range(last - first):
        source = last - 1 - n if step > 0 else first + n
        target = source + step
        items[target], values[target] = items[source], values[source]
        timestamps[target], positions[target] = timestamps[source], positions[source]


@njit(cache=True, nogil=True)
def remove_rater(item: Int, user: Int, rows: Directory, users: NDArray[np.int32]) -> None:
    """Remove `user` from an item's raters: the last rater takes the free position."""
    start, last = rows[0][item], rows[0][item] + rows[1][item] - 1
    for position in range(start, last + 1):
        if users[position] == user:
            users[position] = users[last]
            break
    rows[1][item] -= 1


@njit(cache=True, nogil=True)
def missing_items(
    first: Int, changes: Changes, rows: Directory, column: NDArray[np.int32], most: Int
) -> tuple[NDArray[np.int64], Int]:
    """Items that changes of one user, from `first` on, rate and that the user's row lacks.

    Args:
        most: items to return, at most.

    Returns:
        (the items, ascending; the first change that was not looked at).
    """
    users, items = changes.users, changes.items
    start, length = rows[0][users[first]], rows[1][users[first]]
    missing, n_missing, n = np.empty(most, dtype=np.int64), 0, first
    while n < len(users) and users[n] == users[first] and n_missing < most:
        position = find(column, start, length, items[n])
        if not np.isnan(changes.new[n]) and not (position < start + length and column[position] == items[n]):
            missing[n_missing] = items[n]
            n_missing += 1
        n += 1
    missing, n_distinct = np.sort(missing[:n_missing]), 0
    for at in range(n_missing):  # `np.unique` takes seconds to compile
        if at == 0 or missing[at] != missing[n_distinct - 1]:
            missing[n_distinct] = missing[at]
            n_distinct += 1
    return missing[:n_distinct], n


@njit(cache=True, nogil=True)
def merge(first: Int, changes: Changes, rows: Directory, columns: UserColumns) -> Int:
    """Insert entries of NaN for the new items of one user's changes, from `first` on, in one pass over the row.

    Returns:
        The first change that still lacks an entry; `FULL`, with the rows unchanged, if the arena is full.
    """
    user, (starts, lengths, capacities, _) = changes.users[first], rows
    if not ensure_user_room(user, rows, columns):
        return FULL
    start, room = starts[user], capacities[user] - lengths[user]
    new, end = missing_items(first, changes, rows, columns[0], room)
    source = start + lengths[user] - 1
    for n in range(len(new) - 1, -1, -1):
        last = source
        while source >= start and columns[0][source] > new[n]:
            source -= 1
        for position in range(last, source, -1):
            target = position + n + 1
            columns[0][target], columns[1][target] = columns[0][position], columns[1][position]
            columns[2][target], columns[3][target] = columns[2][position], columns[3][position]
        columns[0][source + n + 1], columns[1][source + n + 1] = new[n], np.nan
    lengths[user] += len(new)
    return end


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def apply(first: Int, changes: Changes, timestamps: NDArray[np.float64], rows: Directory, columns: UserColumns) -> int:
    """Apply changes `first`, `first` + 1, … to the rows of users; write what they replace to `changes`.

    Args:
        timestamps: (B,), stored with the ratings.
        rows, columns: of users, ascending by item.

    Returns:
        The first change that did not fit; the number of changes if all are applied.
    """
    users, items, old, values, positions, old_times, _ = changes
    starts, lengths = rows[0], rows[1]
    merged = first
    for n in range(first, len(users)):
        user, item = users[n], items[n]
        if n >= merged and lengths[user] >= LONG:
            merged = merge(n, changes, rows, columns)
            if merged == FULL:
                return n
        position = find(columns[0], starts[user], lengths[user], item)
        end = starts[user] + lengths[user]
        present = position < end and columns[0][position] == item
        old[n] = columns[1][position] if present else np.nan
        had = present and not np.isnan(old[n])  # `merge` has made room for new ratings, as NaN
        old_times[n] = min(columns[2][position], columns[3][position] / POSITIONS_PER_S) if had else np.nan
        if np.isnan(values[n]):
            if present:
                shift(columns, position + 1, end, -1)
                lengths[user] -= 1
            continue
        if not present:
            rank = position - starts[user]
            if not ensure_user_room(user, rows, columns):
                return n
            position = starts[user] + rank
            shift(columns, position, starts[user] + lengths[user], 1)
            lengths[user] += 1
        columns[0][position], columns[1][position] = item, values[n]
        columns[2][position], columns[3][position] = timestamps[n], positions[n]
    return len(users)


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def apply_raters(first: Int, changes: Changes, by_item: Directory, raters: NDArray[np.int32]) -> int:
    """Apply changes `first`, `first` + 1, … to the raters of items, in no order; `apply` has done so to users.

    Returns:
        See `apply`.
    """
    for n in range(first, len(changes.items)):
        user, item = changes.users[n], changes.items[n]
        had, has = not np.isnan(changes.old[n]), not np.isnan(changes.new[n])
        if has and not had:
            if not ensure_item_room(item, by_item, raters):
                return n
            raters[by_item[0][item] + by_item[1][item]] = user
            by_item[1][item] += 1
        elif had and not has:
            remove_rater(item, user, by_item, raters)
    return len(changes.items)


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def count_raters(starts: NDArray[np.int64], lengths: NDArray[np.int64], items: NDArray[np.int32], n_items: Int) -> Any:
    """Number of entries of each item in the rows of users, int64 (I,)."""
    counts = np.zeros(n_items, dtype=np.int64)
    for user in range(len(starts)):
        for position in range(starts[user], starts[user] + lengths[user]):
            counts[items[position]] += 1
    return counts


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def list_raters(
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    items: NDArray[np.int32],
    by_item: Directory,
    raters: NDArray[np.int32],
) -> None:
    """Write the raters of all items, ascending, to their rows, which have the room and are empty."""
    for user in range(len(starts)):
        for position in range(starts[user], starts[user] + lengths[user]):
            item = items[position]
            raters[by_item[0][item] + by_item[1][item]] = user
            by_item[1][item] += 1


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def drop_user(user: Int, rows: Directory, columns: UserColumns) -> None:
    """Overwrite the row of a user and free its memory."""
    items, values, timestamps, positions = columns
    for position in range(rows[0][user], rows[0][user] + rows[1][user]):
        items[position], values[position], timestamps[position], positions[position] = 0, 0, 0, 0
    clear(user, rows, items)


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def forget_raters(user: Int, items: NDArray[np.int32], by_item: Directory, raters: NDArray[np.int32]) -> None:
    """Remove `user` from the raters of all `items`."""
    for item in items:
        remove_rater(item, user, by_item, raters)


@called_for(Use.EXACT, Use.ITEMS)
@njit(cache=True, nogil=True)
def entries_of(items: NDArray[np.int64], users: NDArray[np.int32], rows: Rows) -> NDArray[np.int64]:
    """Index into `rows.items` of the rating of `items[n]` by `users[n]`, int64 (B,); every pair must have one."""
    entries = np.empty(len(users), dtype=np.int64)
    for n in range(len(users)):
        entries[n] = find(rows.items, rows.starts[users[n]], rows.lengths[users[n]], items[n])
    return entries


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def looked_up(
    users: Annotated[NDArray[np.integer[Any]], np.int32],
    items: Annotated[NDArray[np.integer[Any]], np.int32],
    rows: Directory,
    columns: UserColumns,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(value, timestamp) of each pair of `users` and `items` (B,); NaN where there is none."""
    values, times = np.full(len(users), np.nan, dtype=np.float32), np.full(len(users), np.nan)
    starts, lengths = rows[0], rows[1]
    for n in range(len(users)):
        start, length = starts[users[n]], lengths[users[n]]
        position = find(columns[0], start, length, items[n])
        if position < start + length and columns[0][position] == items[n]:
            values[n], times[n] = columns[1][position], columns[2][position]
    return values, times


@called_for(Use.NEW_ITEMS)
@njit(cache=True, nogil=True)
def items_left_out(users: NDArray[np.int64], rows: Rows, is_in: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Items that `users` (B,) have rated and for which `is_in` (I,) is false; an item may occur several times."""
    n = 0
    for user in users:
        for position in range(rows.starts[user], rows.starts[user] + rows.lengths[user]):
            n += not is_in[rows.items[position]]
    items, n = np.empty(n, dtype=np.int32), 0
    for user in users:
        for position in range(rows.starts[user], rows.starts[user] + rows.lengths[user]):
            if not is_in[rows.items[position]]:
                items[n] = rows.items[position]
                n += 1
    return items
