"""The plan of a product of sparse rows: which rows a warp takes whole, which come in parts, in what order.

Parts go first, in the order of the columns they begin at, so that those at work together gather neighboring rows of
the table, which stay in the cache; then whole rows, longest first. Rows without entries are among them: they become
zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.device.als_forms.plan import ITEM, SPLIT, WHOLE
from gpu.ratings import Rows

N_WARPS = 1 << 14  # a few times those at work: each should have a part of about equal length
LONGEST = 128, 1024  # entries of a part: least, so that sums of parts cost little, and most, so that warps end together


def longest(n_entries: int) -> int:
    """Entries of an item, at most."""
    return min(max(n_entries // N_WARPS, LONGEST[0]), LONGEST[1])


def slots_bound(n_entries: int) -> int:
    """Parts of rows, at most: a row in parts has more than `longest` entries, and one part above its share at most."""
    return 2 * n_entries // longest(n_entries)


def parts_of(rows: Rows, most: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """(`ITEM` of every row or part of one, `SPLIT` of every row with more than `most` entries)."""
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
