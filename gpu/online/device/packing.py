"""Rows of several arrays side by side, so that one copy moves them between host and device; kernels/packing.cu."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.arrays import to_device
from gpu.cuda.kernels import kernel
from gpu.cuda.structures import structure
from gpu.online.protocols import Part

NAME, THREADS, WARP, MOST_COLUMNS = "packing", 256, 32, 5  # as in kernels/packing.cu

Columns = dict[str, Any]  # name -> array on the device, (rows, …) of four-byte entries; at most MOST_COLUMNS arrays


def fetched(*sides: tuple[Any, Columns]) -> list[Part]:
    """Copy rows of the arrays of each side to the host; waits for it. Rows (B,) are int32 or int64 on the device."""
    widths = [1 + sum(map(_width, columns.values())) for _, columns in sides]
    ends = np.cumsum([len(rows) * width for (rows, _), width in zip(sides, widths, strict=True)]).tolist()
    out = cupy.empty(ends[-1], dtype=cupy.int32)
    starts = [0, *ends[:-1]]
    for (rows, columns), width, start in zip(sides, widths, starts, strict=True):
        is_long = np.int32(rows.dtype.itemsize == 8)
        _launch("pack_rows", columns, len(rows), rows, is_long, np.int32(len(rows)), np.int32(width), out[start:])
    packed: NDArray[np.int32] = out.get()
    parts: list[Part] = []
    for (_, columns), width, start, end in zip(sides, widths, starts, ends, strict=True):
        lines, arrays, at = packed[start:end].reshape(-1, width), {}, 1
        for name, array in columns.items():
            entries = lines[:, at : at + _width(array)]
            arrays[name] = entries.view(array.dtype).reshape(len(lines), *array.shape[1:])
            at += _width(array)
        parts.append((lines[:, 0].astype(np.int64), arrays))
    return parts


def write(columns: Columns, rows: NDArray[np.int64], values: dict[str, NDArray[Any]]) -> None:
    """Write `values`, host arrays (B, …), into distinct `rows` (B,) of the device arrays of the same names."""
    n = len(rows)
    if not n:
        return
    entries = [values[name].view(np.int32).reshape(n, -1) for name in columns]
    packed = to_device(np.concatenate([rows.astype(np.int32)[:, None], *entries], axis=1))
    _launch("unpack_rows", columns, n, packed, np.int32(n), np.int32(packed.shape[1]))


def _launch(function: str, columns: Columns, n_rows: int, *arguments: Any) -> None:
    """Run a kernel that gives each row one warp."""
    if not n_rows:
        return
    n_unused = MOST_COLUMNS - len(columns)
    widths = [np.int32(_width(array)) for array in columns.values()] + [np.int32(0)] * (n_unused + 1)
    side = structure(*columns.values(), *[np.uint64(0)] * n_unused, *widths)
    kernel(NAME, function, {})((-(-n_rows * WARP // THREADS),), (THREADS,), (side, *arguments))


def _width(array: Any) -> int:
    return int(array.shape[1]) if array.ndim > 1 else 1
