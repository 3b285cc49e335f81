"""Requests for lists on the device: the user side in one copy, room for work, the answer in one copy back."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.data.ratings import NO_MIDDLE
from gpu.ranking.device_filters import Choice
from gpu.ranking.device_item_index import RankedPart
from gpu.ranking.partition import TILE
from gpu.ranking.requests import RankingRequests

POINTERS = (
    "factors", "biases", "baselines", "seen_starts", "seen", "values", "excluded_starts", "excluded",
    "candidates", "n_candidates", "filters", "filter_words", "sample", "touched", "floors", "counts", "rows", "keys",
    "items", "scores",
)  # fmt: skip
NUMBERS = "n_users", "n", "mask_seen", "stride", "n_sampled", "words", "room", "n_tiles"
TASK = np.dtype([(name, "<u8") for name in POINTERS] + [(name, "<i4") for name in NUMBERS], align=True)


class Sizes(NamedTuple):
    """Attributes:
    stride: one in `stride` tiles is sampled; with 1 every item is scored exactly.
    n_sampled: items of these tiles.
    room: rows, and keys, of a user, at most.
    """

    stride: int
    n_sampled: int
    room: int


class Batch(NamedTuple):
    """Attributes:
    structure: `Task` of the kernels, passed by value.
    n_users: B.
    touched: uint32 (B, words).
    keys: uint64 (B, room).
    out: int32: counts of rows and keys (B, 2), items (B, n), scores (B, n).
    held: the other arrays that `structure` points to.
    """

    structure: Any
    n_users: int
    touched: Any
    keys: Any
    out: Any
    held: tuple[Any, ...]


def upload(part: RankedPart, requests: RankingRequests, choice: Choice, n: int, sizes: Sizes) -> Batch:
    """Copy the requests to the device and allocate memory for work and answer."""
    n_users, n_tiles = len(requests.biases), -(-part.n_items // TILE)
    task, words = np.zeros((), dtype=TASK), n_tiles if part.n_slots else 0
    # One transfer for the user side.
    columns = _columns_of(part, requests, choice)
    ends = list(itertools.accumulate(column.nbytes // 4 for column in columns.values()))
    pinned, given = _pinned(f"to part {part.part}", ends[-1]), cupy.empty(ends[-1], dtype=cupy.int32)
    np.concatenate([column.ravel().view(np.int32) for column in columns.values()], out=pinned[: ends[-1]])
    for name, start in zip(columns, [0, *ends], strict=False):
        task[name] = given.data.ptr + 4 * start
    given.data.copy_from_host_async(pinned.ctypes.data, 4 * ends[-1])
    work = {
        "keys": cupy.empty((n_users, sizes.room), dtype=cupy.uint64),
        "rows": cupy.empty((n_users, sizes.room if sizes.stride > 1 else 0), dtype=cupy.int32),
        "sample": cupy.empty((n_users, sizes.n_sampled), dtype=cupy.float32),
        "touched": cupy.empty((n_users, words), dtype=cupy.uint32),
        "floors": cupy.empty(n_users, dtype=cupy.float32),
    }
    for name, array in work.items():
        task[name] = array.data.ptr
    out = cupy.empty(n_users * (2 + 2 * n), dtype=cupy.int32)
    task["counts"], task["items"] = out.data.ptr, out.data.ptr + 8 * n_users
    task["scores"] = out.data.ptr + 8 * n_users + 4 * n_users * n
    numbers = n_users, n, not requests.include_seen, sizes.stride, sizes.n_sampled, words, sizes.room, n_tiles
    for name, number in zip(NUMBERS, numbers, strict=True):
        task[name] = number
    held = given, work["rows"], work["sample"], work["floors"], choice.held
    return Batch(task.view(f"V{TASK.itemsize}"), n_users, work["touched"], work["keys"], out, held)


def _columns_of(part: RankedPart, requests: RankingRequests, choice: Choice) -> dict[str, NDArray[Any]]:
    """The arrays of `Task` that hold the user side, of numbers of four bytes or addresses, which come first."""
    # Ratings in a compact copy, if they are read: the start of each user's, and their present places.
    seen_starts, places = np.zeros(len(requests.lengths) + 1, dtype=np.int32), np.zeros(0, dtype=np.int64)
    if part.n_slots or not requests.include_seen:
        np.cumsum(requests.lengths, out=seen_starts[1:])
        places = np.arange(seen_starts[-1]) + np.repeat(requests.starts - seen_starts[:-1], requests.lengths)
    values = np.zeros(0, dtype=np.float32)
    if part.n_slots and not (part.is_implicit and part.middle == NO_MIDDLE):
        values = np.clip(requests.values[places], *part.learned_scale).astype(np.float32, copy=False)
    factors = np.ascontiguousarray(requests.factors)
    if factors.shape[1] < part.width:
        factors = np.zeros((len(factors), part.width), dtype=np.float32)
        factors[:, : requests.factors.shape[1]] = requests.factors
    excluded_starts = requests.exclude_starts
    return {
        "candidates": choice.candidates,
        "filters": choice.filters,
        "factors": factors,
        "biases": requests.biases.astype(np.float32, copy=False),
        "baselines": requests.baselines.astype(np.float32, copy=False),
        "seen_starts": seen_starts,
        "seen": requests.items[places],
        "values": values,
        "excluded_starts": (excluded_starts - excluded_starts[0]).astype(np.int32),
        "excluded": requests.excluded[excluded_starts[0] : excluded_starts[-1]].astype(np.int32),
        "n_candidates": choice.n_candidates,
        "filter_words": choice.filter_words,
    }


def fetched(array: Any) -> NDArray[np.int32]:
    """The int32 array on the host, in a buffer that the next answer overwrites; waits for the device."""
    pinned = _pinned("from any part", array.size)
    array.data.copy_to_host_async(pinned.ctypes.data, array.nbytes)
    cupy.cuda.get_current_stream().synchronize()
    return pinned[: array.size]


_pinned_memory: dict[str, NDArray[np.int32]] = {}


def _pinned(name: str, n: int) -> NDArray[np.int32]:
    """Pinned host buffer, int32, at least (n,). Not thread-safe: only the engine thread ranks."""
    held = _pinned_memory.get(name)
    if held is None or len(held) < n:
        size = max(2 * n, 1 << 16)
        held = _pinned_memory[name] = np.frombuffer(cupy.cuda.alloc_pinned_memory(4 * size), np.int32, size)
    return held
