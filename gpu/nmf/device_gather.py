"""Products of sparse rows with a table of factors on a CUDA device. Kernels and ownership: kernels/hals_gather.cu.

A warp computes an item: a row, or a part of a long row (`gpu.nmf.device_parts`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np

from gpu.cuda.arrays import to_device
from gpu.cuda.kernels import kernel
from gpu.cuda.work import WHOLE
from gpu.data.ratings import Rows
from gpu.nmf.device_parts import longest, parts_of

NAME = "hals_gather"
PIECE_BYTES = 16  # bytes of one read of a lane
WARP, THREADS = 32, 256


class Entries(NamedTuple):
    """Sparse rows on the device.

    Attributes:
        columns, values: int32 and float32 (N,), in the order of the rows.
        items, splits: arrays of `ITEM` and `SPLIT` structures, as bytes.
        n_rows, n_items, n_splits, n_slots: numbers of rows, of items, of rows in parts, and of these parts.
    """

    columns: Any
    values: Any
    items: Any
    splits: Any
    n_rows: int
    n_items: int
    n_splits: int
    n_slots: int


def entries_of(rows: Rows, n_entries: int) -> Entries:
    """Copy sparse rows and their plan to the device.

    Args:
        n_entries: entries of all ranks; the length of parts, and so the order of sums, depends on it.
    """
    items, splits = parts_of(rows, longest(n_entries))
    n_slots = int(np.count_nonzero(items["slot"] != WHOLE))
    ratings = to_device(rows.items), to_device(rows.values)
    work = to_device(items.view(np.uint8)), to_device(splits.view(np.uint8))
    return Entries(*ratings, *work, len(rows.starts), len(items), len(splits), n_slots)


def multiply(entries: Entries, table: Any, to: Any) -> None:
    """Write the product with `table` (columns, width) to the first `n_rows` rows of `to` (n_rows or more, width).

    Equal inputs give equal bits.

    Args:
        table, to: float32 or float64, both the same; a row of `width` numbers is a multiple of 16 bytes (`width_of`).
    """
    if not entries.n_items:
        return
    width, count = np.int32(table.shape[1]), np.int32(entries.n_items)
    slots = cupy.empty((entries.n_slots, table.shape[1]), dtype=table.dtype)
    arguments = entries.items, count, entries.columns, entries.values, table, width, to, slots
    _launch("gather", table, entries.n_items, arguments)
    if entries.n_splits:
        count = np.int32(entries.n_splits)
        _launch("add_slots", table, entries.n_splits, (entries.splits, count, slots, width, to))


def _launch(function: str, table: Any, n_warps: int, arguments: tuple[Any, ...]) -> None:
    blocks = -(-n_warps * WARP // THREADS)
    kernel(NAME, function, defines(table.dtype, table.shape[1]))((blocks,), (THREADS,), arguments)


def width_of(n_factors: int, dtype: np.dtype[Any]) -> int:
    """Numbers in a row of a table for `multiply`: `n_factors`, rounded up to whole pieces of 16 bytes."""
    per_piece = PIECE_BYTES // dtype.itemsize
    return -(-n_factors // per_piece) * per_piece


def defines(dtype: np.dtype[Any], width: int) -> dict[str, int]:
    """The macros of `kernels/hals_gather.cu` for tables of `dtype` with `width` numbers in a row."""
    return {"DOUBLE": int(dtype.itemsize == 8), "HELD": -(-width * dtype.itemsize // (PIECE_BYTES * WARP))}
