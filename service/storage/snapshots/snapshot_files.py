"""Reads and writes the files of a snapshot: arrays (safetensors) and ids (Parquet). Reads check what they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gpu.data.model import NO_SLOT, Model
from service.storage import files
from service.storage.snapshots import array_file
from service.storage.snapshots.array_file import StoredArray
from service.storage.snapshots.array_values import WITHOUT_LISTS, WITHOUT_WEIGHTS, ArrayValues

ARRAYS_FILE, USERS_FILE, ITEMS_FILE = "arrays.safetensors", "users.parquet", "items.parquet"
CONTENT_FILE = "content.safetensors"
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


def read_arrays(path: Path, values: ArrayValues, *, format_: int) -> dict[str, NDArray[Any]]:
    """The arrays of the file, by name; the arrays of item weights are empty if the file has none.

    Args:
        path: path of the file.
        values: what the arrays must be.
        format_: format of the snapshot. Before format 3 one array has another name. Format 1 may lack `item_counts`:
            they are then zero.

    Raises:
        ValueError: an array is missing, or of another size or dtype, or has a value that it must not have.
    """
    with files.open_regular(path) as file:
        arrays = {
            name: array_file.read_array(file, stored, values.checker(name))
            for name, stored in _described(file, values, format_).items()
        }
    n_items = len(arrays["item_bias"])
    arrays.setdefault("item_counts", np.zeros(n_items, dtype=np.int32))
    arrays.setdefault("item_slots", np.full(n_items, NO_SLOT, dtype=np.int32))
    arrays.setdefault("item_weights", np.zeros((0, 0), dtype=np.float32))
    arrays.setdefault("listed", np.zeros((n_items, 0), dtype=np.int32))
    arrays.setdefault("listed_weights", np.zeros((n_items, 0), dtype=np.float32))
    return arrays


def check_arrays(path: Path, values: ArrayValues, *, format_: int) -> None:
    """Check what `read_arrays` would, with the memory of a part of one array."""
    with files.open_regular(path) as file:
        for name, stored in _described(file, values, format_).items():
            array_file.scan_array(file, stored, values.checker(name))


def _described(file: BufferedReader, values: ArrayValues, format_: int) -> dict[str, StoredArray]:
    """The arrays that the header of the file describes, by their present names."""
    names = _NAMES_BEFORE_FORMAT_3 if format_ < 3 else {}
    described = {names.get(name, name): stored for name, stored in array_file.read_header(file)[0].items()}
    values.check_header(described)
    return described


def write_arrays(path: Path, model: Model) -> None:
    """Write the arrays of `model`; those of item weights and of lists only if it has any."""
    from safetensors.numpy import save_file  # noqa: PLC0415

    left_out: set[str] = set() if model.item_weights.size else {*WITHOUT_WEIGHTS}
    left_out |= set() if model.params.has_item_lists else {*WITHOUT_LISTS}
    arrays = {name: array for name, array in model.arrays.items() if name not in left_out}
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    files.sync(path)


def write_ids(path: Path, ids: Sequence[str]) -> None:
    """Write ids in the order of their rows."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    pq.write_table(pa.table({"id": pa.array(list(ids), pa.string())}), path, compression="zstd")
    files.sync(path)


def read_ids(path: Path, n: int | None = None) -> IdColumn:
    """The ids in the order of their rows.

    Args:
        path: path of the file.
        n: how many there must be. None: any number.

    Raises:
        ValueError: there is another number, or they are not distinct strings.
        OSError: the file cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    with files.open_regular(path) as file:
        try:
            table = pq.ParquetFile(file)
            if n is not None and table.metadata.num_rows != n:
                raise ValueError(f"expected {n} ids, got {table.metadata.num_rows}")
            column = table.read(columns=["id"], use_threads=False).column("id")
        except (pa.ArrowException, KeyError, TypeError) as error:
            raise ValueError(f"expected a Parquet file with a column id: {error}") from error
    n_distinct = pc.count_distinct(column, mode="only_valid").as_py()
    if column.type != pa.string() or n_distinct != len(column):
        raise ValueError(f"expected distinct strings, got {n_distinct} among {len(column)} of type {column.type}")
    return IdColumn(column)
