"""Reads files of arrays in the format of safetensors, and believes nothing in them.

A file is the length of a header (8 bytes, little endian), the header (JSON: dtype, shape and place of each array, and
text by name under `__metadata__`), and the arrays one after the other. The header is compared with the file before
memory is taken for any array, and arrays are read in parts: other threads run meanwhile, and a file that is cut short
while it is read is an error, where a mapped one would end the process.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from io import BufferedReader
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

PART_BYTES = 4 * 2**20  # bytes read at once
MAX_HEADER_BYTES = 2**16  # of a file without metadata; ours have 2 kB
MAX_AXES, MAX_LENGTH = 2, 2**40
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_DTYPES: dict[str, type[np.generic]] = {"F32": np.float32, "I32": np.int32, "BOOL": np.bool_}

OnPart = Callable[[NDArray[Any], int], None]  # gets a part of an array and its first row


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    dtype: str
    shape: Annotated[list[Annotated[int, Meta(ge=0, le=MAX_LENGTH)]], Meta(min_length=1, max_length=MAX_AXES)]
    data_offsets: tuple[int, int]


class StoredArray(NamedTuple):
    """Dtype and shape of an array, and where its first byte is in the file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int


def read_header(
    file: BufferedReader, max_bytes: int = MAX_HEADER_BYTES
) -> tuple[dict[str, StoredArray], dict[str, str]]:
    """The arrays of a file by name, and its metadata.

    Args:
        file: open at its start.
        max_bytes: longest header.

    Raises:
        ValueError: it is no such file, or its header does not describe what is in it.
    """
    n_bytes = file.seek(0, 2)
    file.seek(0)
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if not 0 < length <= min(n_bytes - _LENGTH_BYTES, max_bytes):
        raise ValueError(
            f"expected a header of 1 to {max_bytes:,} bytes in a file of {n_bytes:,}, got one of {length:,}"
        )
    try:
        fields = msgspec.json.decode(file.read(length), type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(fields.pop(_METADATA, msgspec.Raw(b"{}")), type=dict[str, str])
        entries = {name: msgspec.json.decode(raw, type=_Entry) for name, raw in fields.items()}
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"expected a header with dtype, shape and place of each array: {error}") from error
    end = 0
    arrays: dict[str, StoredArray] = {}
    for name, entry in sorted(entries.items(), key=lambda pair: pair[1].data_offsets):
        if entry.dtype not in _DTYPES:
            raise ValueError(
                f"expected the dtype of {name[:64]!r} to be one of {', '.join(_DTYPES)}, got {entry.dtype[:16]!r}"
            )
        dtype = np.dtype(_DTYPES[entry.dtype])
        place = end, end + math.prod(entry.shape) * dtype.itemsize
        if entry.data_offsets != place:
            raise ValueError(f"expected {name[:64]!r} at bytes {place[0]:,} to {place[1]:,}, got {entry.data_offsets}")
        arrays[name] = StoredArray(dtype, tuple(entry.shape), _LENGTH_BYTES + length + end)
        end = place[1]
    if (expected := _LENGTH_BYTES + length + end) != n_bytes:
        raise ValueError(f"expected {expected:,} bytes by its header, got {n_bytes:,}")
    return arrays, metadata


def read_array(file: BufferedReader, stored: StoredArray, on_part: OnPart) -> NDArray[Any]:
    """The whole array; `on_part` gets each part as soon as it has been read. Raises `ValueError` if the file is cut."""
    whole = np.empty(stored.shape, dtype=stored.dtype)
    _read(file, stored, on_part, lambda first, end: whole[first:end])
    return whole


def scan_array(file: BufferedReader, stored: StoredArray, on_part: OnPart) -> None:
    """Like `read_array`, in the memory of one part."""
    part = np.empty((min(rows_at_once(stored), stored.shape[0]), *stored.shape[1:]), dtype=stored.dtype)
    _read(file, stored, on_part, lambda first, end: part[: end - first])


def _read(
    file: BufferedReader, stored: StoredArray, on_part: OnPart, place: Callable[[int, int], NDArray[Any]]
) -> None:
    if 0 in stored.shape:  # for example, all users are forgotten
        return
    file.seek(stored.start)
    rows = rows_at_once(stored)
    for first in range(0, stored.shape[0], rows):
        part = place(first, min(first + rows, stored.shape[0]))
        if file.readinto(part.view(np.uint8).reshape(-1).data) != part.nbytes:
            raise ValueError("the file has been cut while it was read")
        on_part(part, first)


def rows_at_once(stored: StoredArray) -> int:
    """Rows of a part of an array."""
    row_bytes = math.prod(stored.shape[1:]) * stored.dtype.itemsize
    return max(1, PART_BYTES // max(1, row_bytes))
