"""The files of a snapshot: arrays (safetensors) and ids (Parquet), written to the disk, read in parts.

Libraries hold Python's lock while they copy: a whole model at once would stop every other thread for as long as that
takes, 70 ms for 140 MB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gpu.model import NO_SLOT, Model
from service.storage import files

PART_BYTES = 4 * 2**20  # what is read between two moments at which other threads can go on
PART_IDS = 5_000  # strings that are made at once
_NAMES_BEFORE_FORMAT_3 = {"neighbours": "neighbors"}


class IdColumn(Sequence[str]):
    """Ids in the order of their rows, in Arrow's memory; strings are made of them as they are asked for.

    While two million were made at once, requests waited for up to a tenth of a second.
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
        """The id of a row, or a list of those of several."""
        found: str | list[str] = self._column[row].to_pylist() if isinstance(row, slice) else self._column[row].as_py()
        return found

    def __iter__(self) -> Iterator[str]:
        """All of them, some at a time."""
        for first in range(0, len(self), PART_IDS):
            yield from self[first : first + PART_IDS]


def read_arrays(path: Path, *, format_: int) -> dict[str, NDArray[Any]]:
    """The arrays of the file, by name; those of item weights are empty where it has none.

    Args:
        format_: of the snapshot. Before 3 a name is another; in 1, zeros stand for `item_counts` where there are none.
    """
    from safetensors import safe_open  # noqa: PLC0415 (only a process that loads a model pays for it)

    with safe_open(path, framework="numpy") as file:
        names = _NAMES_BEFORE_FORMAT_3 if format_ < 3 else {}
        found = {names.get(name, name): _read_array(file, name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    if "item_bias" in found:
        n_items = len(found["item_bias"])
        if format_ == 1:
            found.setdefault("item_counts", np.zeros(n_items, dtype=np.int32))
        found.setdefault("item_slots", np.full(n_items, NO_SLOT, dtype=np.int32))
        found.setdefault("item_weights", np.zeros((0, 0), dtype=np.float32))
    return found


def _read_array(file: Any, name: str) -> NDArray[Any]:
    stored = file.get_slice(name)
    shape = stored.get_shape()
    if 0 in shape:  # all users are forgotten, say: the library refuses slices of nothing
        empty: NDArray[Any] = file.get_tensor(name)
        return empty
    whole = np.empty(shape, dtype=stored[:0].dtype)
    rows = max(1, PART_BYTES // max(1, whole[:1].nbytes))
    for first in range(0, len(whole), rows):
        end = min(first + rows, len(whole))  # the library refuses an end beyond the array
        whole[first:end] = stored[first:end]
    return whole


def write_arrays(path: Path, model: Model) -> None:
    """Write the arrays of `model`; those of item weights only where there are any."""
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
