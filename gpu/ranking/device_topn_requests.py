"""Requests for lists on devices: the user side in one copy, room for work, the answer in one copy back.

The user side is laid out once, in pinned memory, however many devices share the items. Each device gets all of it by
one copy, into one piece of memory that also holds its work and its answer. So what a device adds to a call is an
allocation, two copies and its launches.
"""

from __future__ import annotations

from collections.abc import Sequence
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
ALIGNED, MEBI = 256, 1 << 20  # bytes: starts of arrays in the memory of a part, and the unit of its size
FLAGS, FLAGGED = (
    np.arange(2, dtype=np.int32),
    24,
)  # the last argument of kernels that have one; bytes to the list with the next
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
    """A batch of requests as all parts of the items have it.

    Attributes:
        n_users, n: B, and the length of the lists.
        sizes: those of the longest part. All have them: others have room for as many tiles, perhaps without items.
        n_tiles, words: of the longest part; words of `touched`, 0 without neighbors.
        given: int32, pinned: the user side.
        tasks: uint64 (P, 24), `TASK` of each part; until its upload with positions in its memory, not addresses.
        positions: the same, in bytes, of arrays that are worked on.
        arguments: uint64 (P, 2, 3), addresses of the arguments of a kernel, of which the last is a flag, by its value.
        n_bytes: memory of a part.
        choices: hold the arrays that filters and candidates lie in.
    """

    n_users: int
    n: int
    sizes: Sizes
    n_tiles: int
    words: int
    given: NDArray[np.int32]
    tasks: NDArray[np.uint64]
    positions: dict[str, int]
    arguments: NDArray[np.uint64]
    n_bytes: int
    choices: Sequence[Choice]


class Work(NamedTuple):
    """A batch on the device of one part.

    Attributes:
        batch: what all parts share.
        memory: of the device; it holds the user side, the work and the answer.
        arguments: address of the part's `Batch.arguments`.
        stream: address of the stream of all copies and launches.
        answer: int32, pinned: counts of rows and keys (B, 2), items (B, n), scores (B, n), when the stream is done.
    """

    batch: Batch
    memory: Any
    arguments: int
    stream: int
    answer: NDArray[np.int32]


def laid_out(
    parts: Sequence[RankedPart], requests: RankingRequests, choices: Sequence[Choice], n: int, sizes: Sizes
) -> Batch:
    """The user side in pinned memory, which the next batch overwrites, and where each array of a part will lie.

    Args:
        parts: the longest one first.
        choices: one for each part, or one for all if it has no address.
    """
    n_users, n_tiles = len(requests.biases), -(-parts[0].n_items // TILE)
    words = n_tiles if parts[0].n_slots else 0
    columns = _columns_of(parts[0], requests, choices)
    positions, end = dict[str, int](), 0
    for name, column in columns.items():
        positions[name], end = end, end + column.nbytes
    given = _pinned("to all parts", end // 4)[: end // 4]
    np.concatenate([column.ravel().view(np.int32) for column in columns.values()], out=given)
    for name, n_bytes in {
        "keys": 8 * n_users * sizes.room,
        "rows": 4 * n_users * sizes.room if sizes.stride > 1 else 0,
        "sample": 4 * n_users * sizes.n_sampled,
        "touched": 4 * n_users * words,
        "floors": 4 * n_users,
        "counts": 8 * n_users * (1 + n),  # with the lists behind them
    }.items():
        positions[name] = -(-end // ALIGNED) * ALIGNED
        end = positions[name] + n_bytes
    positions["items"] = positions["counts"] + 8 * n_users
    positions["scores"] = positions["items"] + 4 * n_users * n
    tasks = np.zeros((len(parts), TASK.itemsize // 8), dtype=np.uint64)
    tasks[:, : len(POINTERS)] = [positions[name] for name in POINTERS]
    if len(choices) > 1:
        for name in ("candidates", "filters"):
            tasks[:, POINTERS.index(name)] += 8 * n_users * np.arange(len(parts), dtype=np.uint64)
    numbers = n_users, n, not requests.include_seen, sizes.stride, sizes.n_sampled, words, sizes.room, n_tiles
    tasks.view(np.int32)[:, -len(NUMBERS) :] = numbers
    arguments, flags = np.empty((len(parts), 2, 3), dtype=np.uint64), FLAGS.ctypes.data
    arguments[:, :, 0] = [[part.structure.ctypes.data] for part in parts]
    arguments[:, :, 1] = tasks.ctypes.data + TASK.itemsize * np.arange(len(parts))[:, None]
    arguments[:, :, 2] = flags, flags + FLAGS.itemsize
    # Whole mebibytes: the pool finds memory of the last batch again, though that had a few ratings less.
    n_bytes = -(-end // MEBI) * MEBI
    return Batch(n_users, n, sizes, n_tiles, words, given, tasks, positions, arguments, n_bytes, choices)


def upload(part: RankedPart, batch: Batch, number: int) -> Work:
    """Copy the user side to the current device, that of `part`, the one with this number among those of the batch."""
    memory = cupy.cuda.alloc(batch.n_bytes)
    memory.copy_from_host_async(batch.given.ctypes.data, batch.given.nbytes)
    batch.tasks[number, : len(POINTERS)] += np.uint64(memory.ptr)
    arguments, size = (
        batch.arguments.ctypes.data + number * batch.arguments.strides[0],
        batch.n_users * (2 + 2 * batch.n),
    )
    answer = _pinned("from all parts", len(batch.tasks) * size)[number * size : (number + 1) * size]
    return Work(batch, memory, arguments, cupy.cuda.get_current_stream().ptr, answer)


def fetch(work: Work) -> None:
    """Copy the answer to the host when all earlier work is done, without waiting for it."""
    (work.memory + work.batch.positions["counts"]).copy_to_host_async(work.answer.ctypes.data, work.answer.nbytes)


def _columns_of(part: RankedPart, requests: RankingRequests, choices: Sequence[Choice]) -> dict[str, NDArray[Any]]:
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
        "candidates": np.concatenate([choice.candidates for choice in choices]),
        "filters": np.concatenate([choice.filters for choice in choices]),
        "factors": factors,
        "biases": requests.biases.astype(np.float32, copy=False),
        "baselines": requests.baselines.astype(np.float32, copy=False),
        "seen_starts": seen_starts,
        "seen": requests.items[places],
        "values": values,
        "excluded_starts": (excluded_starts - excluded_starts[0]).astype(np.int32),
        "excluded": requests.excluded[excluded_starts[0] : excluded_starts[-1]].astype(np.int32),
        "n_candidates": choices[0].n_candidates,
        "filter_words": choices[0].filter_words,
    }


_pinned_memory: dict[str, NDArray[np.int32]] = {}


def _pinned(name: str, n: int) -> NDArray[np.int32]:
    """Pinned host buffer, int32, at least (n,). Not thread-safe: only the engine thread ranks."""
    held = _pinned_memory.get(name)
    if held is None or len(held) < n:
        size = max(2 * n, 1 << 16)
        held = _pinned_memory[name] = np.frombuffer(cupy.cuda.alloc_pinned_memory(4 * size), np.int32, size)
    return held
