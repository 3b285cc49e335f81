"""Products of sparse rows with a table of factors on a CUDA device; kernels, and who owns what: kernels/hals_gather.cu.

A warp takes an item: a row, or a part of a long one (`gpu.device.hals_parts`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np

from gpu.device.als_forms.plan import WHOLE
from gpu.device.cuda.arrays import to_device
from gpu.device.hals_parts import longest, parts_of
from gpu.device.kernels import kernel
from gpu.ratings import Rows

NAME = "hals_gather"
PIECE_BYTES = 16  # what a lane reads at once
WARP, THREADS = 32, 256


class Entries(NamedTuple):
    """Sparse rows on the device.

    Attributes:
        columns, values: int32 and float32 (N,), in the order of the rows.
        items, splits: `ITEM` and `SPLIT` as bytes.
        n_rows, n_items, n_splits, n_slots: how many rows, items, rows in parts, and parts of them.
    """

    columns: Any
    values: Any
    items: Any
    splits: Any
    n_rows: int
    n_items: int
    n_splits: int
    n_slots: int


def entries_of(rows: Rows) -> Entries:
    """Place sparse rows with their plan."""
    items, splits = parts_of(rows, longest(len(rows.values)))
    n_slots = int(np.count_nonzero(items["slot"] != WHOLE))
    ratings = to_device(rows.items), to_device(rows.values)
    work = to_device(items.view(np.uint8)), to_device(splits.view(np.uint8))
    return Entries(*ratings, *work, len(rows.starts), len(items), len(splits), n_slots)


def multiply(entries: Entries, table: Any, to: Any) -> None:
    """Write the product with `table` (columns, width) to the first rows of `to` (rows or more, width).

    Both in float32 or float64, `width` whole pieces of 16 bytes. Equal inputs give equal bits.
    """
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
    """Numbers of a table's row with its zeros: whole pieces."""
    per_piece = PIECE_BYTES // dtype.itemsize
    return -(-n_factors // per_piece) * per_piece


def defines(dtype: np.dtype[Any], width: int) -> dict[str, int]:
    """The macros of `kernels/hals_gather.cu` for tables of rows of `width` numbers."""
    return {"DOUBLE": int(dtype.itemsize == 8), "HELD": -(-width * dtype.itemsize // (PIECE_BYTES * WARP))}
