"""Pages of all ids, in an order that nothing changes: that of their keys, which are hashes.

A cursor is the last key of a page. An id that exists throughout is therefore listed exactly once, whatever comes and
goes meanwhile, also after a restart and on another replica.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.base.errors import InvalidRequest

N_KEYS = 2**64
SPARE = 64  # rows more than wanted in the range of keys that is tried first
_CURSOR = re.compile(r"[0-9a-f]{16}")


class Page(NamedTuple):
    """Rows in order of their keys, and the cursor of the next page; None after the last."""

    rows: NDArray[np.int64]
    next: str | None


def page(
    keys: NDArray[np.uint64],
    n_listed: int,
    are_listed: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    n: int,
    cursor: str | None,
) -> Page:
    """The `n` listed rows with the lowest keys after `cursor`.

    Takes about a millisecond per million rows: it looks only at keys in a range that should have enough of them.

    Args:
        keys: of every row, uint64 (R,).
        n_listed: about how many rows are listed.
        are_listed: whether each of some rows is listed.
        n: rows wanted; more if the keys of the last ones are equal.
        cursor: of an earlier page; None begins.

    Raises:
        InvalidRequest: not a cursor.
    """
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise InvalidRequest(f"Invalid cursor: expected `next` of an earlier page, got {cursor[:64]!r}")
    low = 0 if cursor is None else int(cursor, 16) + 1
    width = (n + SPARE) * N_KEYS // max(n_listed, 1)
    rows, high = np.zeros(0, dtype=np.int64), N_KEYS
    while low < N_KEYS:
        high = min(low + width, N_KEYS)
        rows = np.flatnonzero((keys >= np.uint64(low)) & (keys <= np.uint64(high - 1)))
        rows = rows[are_listed(rows)]
        if len(rows) > n or high == N_KEYS:
            break
        width *= 4
    rows = rows[np.argsort(keys[rows], kind="stable")]
    if len(rows) <= n:
        return Page(rows, None)
    last = keys[rows[n - 1]]
    end = int(np.searchsorted(keys[rows], last, side="right"))
    is_last = end == len(rows) and high == N_KEYS
    return Page(rows[:end], None if is_last else f"{int(last):016x}")
