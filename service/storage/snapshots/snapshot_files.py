"""Reads and writes the files of a snapshot: arrays (safetensors) and ids (Parquet). Reads in parts.

The libraries hold the GIL while they copy: reading a whole model of 140 MB at once would stop all other threads for 70
ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gpu.model import NO_SLOT, Model
from service.storage import files

PART_BYTES = 4 * 2**20  # bytes read at once; other threads can run between two parts
PART_IDS = 5_000  # strings made at once
_NAMES_BEFORE_FORMAT_3 = {"neighbours": "neighbors"}


class IdColumn(Sequence[str]):
    """Ids in the order of their rows, in Arrow memory; makes Python strings only when they are read.

    Making two million strings at once delayed requests by up to a tenth of a second.
    """

    def __init__(self, column: Any) -> None:
        """`column`: Arrow strings, whole or in chunks."""
        self._column = column

    def __len__(self) -> int:
        """Number of ids."""
        return len(self._column)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        """The id of a row, or the list of ids of a slice."""
        ids: str | list[str] = self._column[row].to_pylist() if isinstance(row, slice) else self._column[row].as_py()
        return ids

    def __iter__(self) -> Iterator[str]:
        """All ids, read in parts."""
        for first in range(0, len(self), PART_IDS):
            yield from self[first : first + PART_IDS]


def read_arrays(path: Path, *, format_: int) -> dict[str, NDArray[Any]]:
    """The arrays of the file, by name; the arrays of item weights are empty if the file has none.

    Args:
        path: path of the file.
        format_: format of the snapshot. Before format 3 one array has another name. Format 1 may lack `item_counts`:
            they are then zero.
    """
    from safetensors import safe_open  # noqa: PLC0415 (only a process that loads a model pays for it)

    with safe_open(path, framework="numpy") as file:
        names = _NAMES_BEFORE_FORMAT_3 if format_ < 3 else {}
        arrays = {names.get(name, name): _read_array(file, name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    if "item_bias" in arrays:
        n_items = len(arrays["item_bias"])
        if format_ == 1:
            arrays.setdefault("item_counts", np.zeros(n_items, dtype=np.int32))
        arrays.setdefault("item_slots", np.full(n_items, NO_SLOT, dtype=np.int32))
        arrays.setdefault("item_weights", np.zeros((0, 0), dtype=np.float32))
    return arrays


def _read_array(file: Any, name: str) -> NDArray[Any]:
    stored = file.get_slice(name)
    shape = stored.get_shape()
    if 0 in shape:  # for example, all users are forgotten; the library refuses empty slices
        empty: NDArray[Any] = file.get_tensor(name)
        return empty
    whole = np.empty(shape, dtype=stored[:0].dtype)
    rows = max(1, PART_BYTES // max(1, whole[:1].nbytes))
    for first in range(0, len(whole), rows):
        end = min(first + rows, len(whole))  # the library refuses an end beyond the array
        whole[first:end] = stored[first:end]
    return whole


def write_arrays(path: Path, model: Model) -> None:
    """Write the arrays of `model`; those of item weights only if it has any."""
    from safetensors.numpy import save_file  # noqa: PLC0415

    left_out = () if model.item_weights.size else ("item_slots", "item_weights")
    arrays = {name: array for name, array in model.arrays.items() if name not in left_out}
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    files.sync(path)


def write_ids(path: Path, ids: Sequence[str]) -> None:
    """Write ids in the order of their rows."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    pq.write_table(pa.table({"id": pa.array(list(ids), pa.string())}), path, compression="zstd")
    files.sync(path)


def read_ids(path: Path) -> IdColumn:
    """The ids in the order of their rows."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    with files.open_regular(path) as file:
        return IdColumn(pq.read_table(file, columns=["id"], use_threads=False).column("id"))
