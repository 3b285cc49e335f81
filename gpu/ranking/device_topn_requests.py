"""Requests for lists on devices: the user side in one copy, room for work, the answer in one copy back.

The user side is laid out once, in pinned memory, however many devices share the items. Each device gets all of it by
one copy, into one piece of memory that also holds its work and its answer. So what a device adds to a call is an
allocation, two copies and its launches.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.calls import Calls
from gpu.data.ratings import NO_MIDDLE
from gpu.ranking.batch_layout import Layout, Sizes, laid_out
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
FLAGS, FLAGGED = (
    np.arange(2, dtype=np.int32),
    24,
)  # the last argument of kernels that have one; bytes to the list with the next
TASK = np.dtype([(name, "<u8") for name in POINTERS] + [(name, "<i4") for name in NUMBERS], align=True)


class Batch(NamedTuple):
    """A batch of requests as all parts of the items have it.

    Attributes:
        n_users, n: B, and the length of the lists.
        sizes: those of the longest part. All have them: others have room for as many tiles, perhaps without items.
        n_tiles, words: of the longest part; words of `touched`, 0 without neighbors.
        layout: of the memory of a part; its user side is pinned.
        tasks: uint64 (P, 24), `TASK` of each part; until its upload with positions in its memory, not addresses.
        arguments: uint64 (P, 2, 3), addresses of the arguments of a kernel, by the value of the flag, the last one.
        choices: hold the arrays that filters and candidates lie in.
    """

    n_users: int
    n: int
    sizes: Sizes
    n_tiles: int
    words: int
    layout: Layout
    tasks: NDArray[np.uint64]
    arguments: NDArray[np.uint64]
    choices: Sequence[Choice]


class Work(NamedTuple):
    """A batch on the device of one part.

    Attributes:
        batch: what all parts share.
        memory: of the device; it holds the user side, the work and the answer.
        arguments: address of the part's `Batch.arguments`.
        answer: int32, pinned: counts of rows and keys (B, 2), items (B, n), scores (B, n), after all calls.
    """

    batch: Batch
    memory: Any
    arguments: int
    answer: NDArray[np.int32]


def batch_of(
    parts: Sequence[RankedPart], requests: RankingRequests, choices: Sequence[Choice], n: int, sizes: Sizes
) -> Batch:
    """The user side in pinned memory, which the next batch overwrites, and where each array of a part will lie.

    Args:
        parts: the longest one first.
        choices: one for each part, or one for all if it has no address.
    """
    part, n_users, n_tiles = parts[0], len(requests.biases), -(-parts[0].n_items // TILE)
    words = n_tiles if part.n_slots else 0
    layout = laid_out(
        requests,
        (np.concatenate([one.candidates for one in choices]), np.concatenate([one.filters for one in choices])),
        (choices[0].n_candidates, choices[0].filter_words),
        n,
        sizes,
        words,
        part.width,
        part.learned_scale,
        functools.partial(_pinned, "to all parts"),
        reads_seen=part.n_slots > 0 or not requests.include_seen,
        reads_values=part.n_slots > 0 and not (part.is_implicit and part.middle == NO_MIDDLE),
    )
    tasks = np.zeros((len(parts), TASK.itemsize // 8), dtype=np.uint64)
    tasks[:, : len(POINTERS)] = [layout.positions[name] for name in POINTERS]
    if len(choices) > 1:
        for name in ("candidates", "filters"):
            tasks[:, POINTERS.index(name)] += 8 * n_users * np.arange(len(parts), dtype=np.uint64)
    numbers = n_users, n, not requests.include_seen, sizes.stride, sizes.n_sampled, words, sizes.room, n_tiles
    tasks.view(np.int32)[:, -len(NUMBERS) :] = numbers
    arguments, flags = np.empty((len(parts), 2, 3), dtype=np.uint64), FLAGS.ctypes.data
    arguments[:, :, 0] = [[part.structure.ctypes.data] for part in parts]
    arguments[:, :, 1] = tasks.ctypes.data + TASK.itemsize * np.arange(len(parts))[:, None]
    arguments[:, :, 2] = flags, flags + FLAGS.itemsize
    return Batch(n_users, n, sizes, n_tiles, words, layout, tasks, arguments, choices)


def upload(calls: Calls, batch: Batch, number: int) -> Work:
    """Copy the user side to the current device, that of the part with this number among those of the batch."""
    memory = cupy.cuda.alloc(batch.layout.n_bytes)
    calls.copy_in(memory.ptr, batch.layout.given)
    batch.tasks[number, : len(POINTERS)] += np.uint64(memory.ptr)
    arguments = batch.arguments.ctypes.data + number * batch.arguments.strides[0]
    size = batch.n_users * (2 + 2 * batch.n)
    answer = _pinned("from all parts", len(batch.tasks) * size)[number * size : (number + 1) * size]
    return Work(batch, memory, arguments, answer)


def fetch(calls: Calls, work: Work) -> None:
    """Copy the answer to the host when all earlier work is done."""
    calls.copy_out(work.answer, work.memory.ptr + work.batch.layout.positions["counts"])


_pinned_memory: dict[str, NDArray[np.int32]] = {}


def _pinned(name: str, n: int) -> NDArray[np.int32]:
    """Pinned host buffer, int32, at least (n,). Not thread-safe: only the engine thread ranks."""
    held = _pinned_memory.get(name)
    if held is None or len(held) < n:
        size = max(2 * n, 1 << 16)
        held = _pinned_memory[name] = np.frombuffer(cupy.cuda.alloc_pinned_memory(4 * size), np.int32, size)
    return held
