"""Reads ratings from a folder of raw arrays in the layout of cuMF, and takes parts of them.

A folder holds little-endian arrays without headers, int32 or float32: `R_train_csc.*` (by user) and `R_train_csr.*` (by
item), each `indptr`, `indices` and `data`, `R_test_coo.*` (`row` an item, `col` a user), and `meta.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from gpu.errors import InvalidInput
from gpu.training.evaluate import is_held_out

META = "meta.json"
CHUNK = 1 << 22  # ratings per step: the keys of 10⁸ pairs at once would take gigabytes


def read(folder: Path) -> tuple[gpu.Ratings, gpu.Ratings]:
    """(train, test) of a folder. It does not sort, so 10⁸ ratings take a few seconds.

    Raises:
        InvalidInput: a file's length differs from `meta.json`, or its columns are out of range or order.
    """
    meta = json.loads((folder / META).read_text("utf-8"))
    n_users, n_items, n_train, n_test = (int(meta[name]) for name in ("m_users", "n_items", "nnz_train", "nnz_test"))
    by_user = _rows(folder, "R_train_csc", n_users, n_items, n_train)
    by_item = _rows(folder, "R_train_csr", n_items, n_users, n_train)
    items = _array(folder / "R_test_coo.row.bin", np.int32, n_test)
    users = _array(folder / "R_test_coo.col.bin", np.int32, n_test)
    values = _array(folder / "R_test_coo.data.bin", np.float32, n_test)
    return gpu.Ratings(by_user, by_item), gpu.Ratings.from_coo(users, items, values, (n_users, n_items))


def sampled(ratings: gpu.Ratings, share: float) -> gpu.Ratings:
    """About `share` of the ratings; equal ratings and shares give equal pairs.

    Raises:
        InvalidInput: `share` is not one over a whole number.
    """
    modulus = round(1 / share) if share > 0 else 0
    if modulus < 1 or abs(modulus * share - 1) > 1e-6:
        raise InvalidInput(f"Invalid share: expected one over a whole number, such as 0.25, got {share:g}")
    users, items = ratings.user_keys, ratings.item_keys

    def is_drawn(user_rows: NDArray[np.int32], item_rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        return is_held_out(users[user_rows], items[item_rows], modulus)

    by_user = _filtered(ratings.by_user, is_drawn)
    by_item = _filtered(ratings.by_item, lambda item_rows, user_rows: is_drawn(user_rows, item_rows))
    return gpu.Ratings(by_user, by_item, users, items)


def first_users(ratings: gpu.Ratings, share: float) -> gpu.Ratings:
    """All ratings of the first `share` of the users; the number of items stays."""
    n_users = round(share * ratings.n_users)
    starts, lengths, items, values = ratings.by_user
    n = int(lengths[:n_users].sum())  # rows of `Ratings` follow one another
    by_user = gpu.Rows(starts[:n_users], lengths[:n_users], items[:n], values[:n])
    by_item = _filtered(ratings.by_item, lambda _, users: users < n_users)
    return gpu.Ratings(by_user, by_item, ratings.user_keys[:n_users], ratings.item_keys)


def _rows(folder: Path, name: str, n_rows: int, n_columns: int, n: int) -> gpu.Rows:
    bounds = _array(folder / f"{name}.indptr.bin", np.int32, n_rows + 1).astype(np.int64)
    columns = _array(folder / f"{name}.indices.bin", np.int32, n)
    values = _array(folder / f"{name}.data.bin", np.float32, n)
    lengths = np.diff(bounds)
    if bounds[0] != 0 or bounds[-1] != n or (lengths < 0).any():
        raise InvalidInput(f"Invalid {name}.indptr.bin of {folder}: expected to ascend from 0 to {n:,}")
    ascends = columns[1:] > columns[:-1]
    ascends[bounds[(bounds > 0) & (bounds < n)] - 1] = True
    if n and (columns.min() < 0 or columns.max() >= n_columns or not ascends.all()):
        raise InvalidInput(
            f"Invalid {name}.indices.bin of {folder}: "
            f"expected columns from 0 to {n_columns - 1:,} that ascend in each row"
        )
    if not np.isfinite(values).all():
        raise InvalidInput(f"Invalid {name}.data.bin of {folder}: expected finite ratings")
    return gpu.Rows(bounds[:-1], lengths, columns, values)


def _array(path: Path, dtype: type[np.generic], n: int) -> NDArray[Any]:
    array = np.fromfile(path, dtype=dtype)
    if len(array) != n:
        raise InvalidInput(f"Invalid length of {path}: expected {n:,} as {META} says, got {len(array):,}")
    return array


def _filtered(rows: gpu.Rows, is_kept: Any) -> gpu.Rows:
    """The entries for which `is_kept(rows, columns)` is true; both arguments are arrays."""
    row_of = np.repeat(np.arange(len(rows.lengths), dtype=np.int32), rows.lengths)
    keep = np.empty(len(row_of), dtype=np.bool_)
    for first in range(0, len(keep), CHUNK):
        part = slice(first, first + CHUNK)
        keep[part] = is_kept(row_of[part], rows.items[part])
    lengths = np.bincount(row_of[keep], minlength=len(rows.lengths)).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    return gpu.Rows(starts, lengths, rows.items[keep], rows.values[keep])
