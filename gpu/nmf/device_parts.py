"""The plan of a product of sparse rows: it splits long rows into parts, and orders parts and rows.

Parts come first, ordered by their first column, so that parts that run together gather nearby rows of the table, which
stay in the cache. Whole rows follow, longest first. They include rows without entries, whose product is zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.cuda.work import ITEM, SPLIT, WHOLE
from gpu.data.ratings import Rows

N_WARPS = 1 << 14  # target number of items: a few for each warp that runs at a time, so that all get about equal work
LONGEST = 128, 1024  # bounds of `longest`: shorter parts cost more to sum up; longer ones let warps end far apart


def longest(n_entries: int) -> int:
    """The largest number of entries of an item, for rows with `n_entries` entries together."""
    return min(max(n_entries // N_WARPS, LONGEST[0]), LONGEST[1])


def slots_bound(n_entries: int) -> int:
    """Upper bound on the number of parts: a row of L > `longest` entries has at most L / `longest` + 1 parts."""
    return 2 * n_entries // longest(n_entries)


def parts_of(rows: Rows, most: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """(`ITEM` of every whole row and every part, in the order of work; `SPLIT` of every row with parts).

    Args:
        most: largest number of entries of an item; longer rows are split into parts of about equal length.
    """
    lengths = rows.lengths
    n_parts = np.maximum(-(-lengths // most), 1)
    first = np.cumsum(n_parts) - n_parts
    owners = np.repeat(np.arange(len(lengths)), n_parts)
    position = np.arange(len(owners)) - first[owners]
    begins = lengths[owners] * position // n_parts[owners]
    items = np.zeros(len(owners), dtype=ITEM)
    items["begin"], items["row"] = rows.starts[owners] + begins, owners
    items["length"] = lengths[owners] * (position + 1) // n_parts[owners] - begins
    is_part = n_parts[owners] > 1
    items["slot"] = np.where(is_part, np.cumsum(is_part) - 1, WHOLE)
    splits = np.zeros(int(np.count_nonzero(n_parts > 1)), dtype=SPLIT)
    splits["row"] = split = np.flatnonzero(n_parts > 1)
    splits["n_slots"] = n_parts[split]
    splits["first_slot"] = np.cumsum(n_parts[split]) - n_parts[split]
    parts, whole = items[is_part], items[~is_part]
    parts = parts[np.argsort(rows.items[parts["begin"]], kind="stable")]
    return np.concatenate([parts, whole[np.argsort(-whole["length"], kind="stable")]]), splits
