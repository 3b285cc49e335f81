"""Exact top-N on a device: a scan on tensor cores finds what may be in a list, and only that is scored exactly.

The twin of `gpu.host.topn`. Scores of all items never exist:

1. A sample of the items, every so many tiles, is scored with a lower bound. Of each user, what is masked drops out of
   it, and what has to do with neighbours gets its exact score. The n-th best of it is a floor: n items reach it.
2. The scan scores every item with an upper bound and keeps the rows that may reach the floor, some hundred a user. It
   reads the factors once, which is what it takes.
3. These rows, and whatever is touched by neighbours of a user's rated items, are scored exactly in float32, masked
   ones dropped, the rest sorted.

So lists are those of the exact scores, ties to the lower row. Bounds: kernels/topn_scan.cu. A user whose rows do not
fit (equal scores in great number, say) is ranked by the exact scores of all items, which are sorted; so are long lists,
and all where there are no tensor cores. Few items are all scored exactly at once.

What a batch must move: I G 4 bytes for up to 64 users, at 3 TB/s 85 µs for a million items of 64 factors.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.device import TENSOR_CORES, compute_capability
from gpu.device.item_index import NAME, TILE, Catalogue
from gpu.device.kernels import kernel, module
from gpu.scoring import Requests

SCAN = "topn_scan"
MOST_USERS = 256  # a batch; more come in further batches
FEW_USERS, MANY_USERS = 16, 64  # users of a block of the scan, as MT says
FEW_ITEMS = 4096  # that are all scored exactly
LEAST_SAMPLE, SAMPLE_SHARE = 2048, 5  # the sample has 5 √(n I) items: then its scores cost about as much as its slack
MARGIN = 1.5  # what room for rows there is beyond the expected, for the bounds' width
MOST_MASKED = 1 << 16  # masked rows that room is kept for
THREADS, WIDE = 256, 1024  # as in kernels/topn.cu
ALIGNED = 256  # bytes

POINTERS = (
    "factors", "biases", "baselines", "seen_starts", "seen", "values", "excluded_starts", "excluded",
    "candidate_starts", "candidates", "has_candidates", "sample", "touched", "floors", "counts", "rows", "keys",
    "items", "scores",
)  # fmt: skip
NUMBERS = "n_users", "n", "mask_seen", "stride", "n_sampled", "words", "room", "n_tiles"
TASK = np.dtype([(name, "<u8") for name in POINTERS] + [(name, "<i4") for name in NUMBERS], align=True)

Answer = tuple[NDArray[np.int32], NDArray[np.float32]]


class Sizes(NamedTuple):
    """Attributes:
    stride: one tile in so many is sampled; 1: every item is scored exactly.
    n_sampled: items of these tiles.
    room: rows, and keys, of a user.
    """

    stride: int
    n_sampled: int
    room: int


def rank(catalogue: Catalogue, requests: Requests, n: int) -> Answer:
    """The `n` best items of every user, best first; ties to the lower row.

    Returns:
        int32 (B, n) rows and float32 (B, n) scores; −1 and −inf where there are no more.
    """
    n_users = len(requests.biases)
    if not n or not n_users:
        return np.empty((n_users, n), dtype=np.int32), np.empty((n_users, n), dtype=np.float32)
    if n_users > MOST_USERS:
        parts = [
            rank(catalogue, _part(requests, first, first + MOST_USERS), n) for first in range(0, n_users, MOST_USERS)
        ]
        return np.concatenate([items for items, _ in parts]), np.concatenate([scores for _, scores in parts])
    if n > WIDE or (compute_capability() < TENSOR_CORES and catalogue.n_items > FEW_ITEMS):
        items, scores = np.full((n_users, n), -1, dtype=np.int32), np.full((n_users, n), -np.inf, dtype=np.float32)
        overflowed = np.arange(n_users)
    else:
        items, scores, overflowed = _rank(catalogue, requests, n)
    for user in overflowed.tolist():
        items[user], scores[user] = _sorted(catalogue, _part(requests, user, user + 1), n)
    return items, scores


def sizes_of(n_items: int, n: int, longest_mask: int) -> Sizes:
    """How much is sampled, and room for what the scan may find, all but certainly."""
    wanted = max(SAMPLE_SHARE * (n * n_items) ** 0.5, LEAST_SAMPLE)
    stride = int(n_items // wanted)
    if n_items <= FEW_ITEMS or stride < 2:
        return Sizes(1, 0, n_items)
    n_tiles = -(-n_items // TILE)
    n_sampled = -(-n_tiles // stride) * TILE
    room = MARGIN * stride * (n + 6 * n**0.5 + 20) + min(longest_mask, MOST_MASKED)
    return Sizes(stride, n_sampled, min(-(-int(room) // WIDE) * WIDE, n_items))


def _part(requests: Requests, first: int, last: int) -> Requests:
    users, bounds = slice(first, last), slice(first, last + 1)
    return requests._replace(
        factors=requests.factors[users], biases=requests.biases[users], baselines=requests.baselines[users],
        starts=requests.starts[users], lengths=requests.lengths[users],
        exclude_starts=requests.exclude_starts[bounds], candidate_starts=requests.candidate_starts[bounds],
        has_candidates=requests.has_candidates[users],
    )  # fmt: skip


def _rank(catalogue: Catalogue, requests: Requests, n: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows and scores (B, n), and the users whose rows did not fit."""
    n_users = len(requests.biases)
    masks = requests.lengths + np.diff(requests.exclude_starts)
    sizes = sizes_of(catalogue.n_items, n, int(masks.max()))
    n_out = n_users * (2 + 2 * n)
    task, held = _task(catalogue, requests, n, sizes, n_out)
    if sizes.stride == 1:
        _launch(catalogue, "reset", (-(-n_users // WIDE),), WIDE, task)
        _touch(catalogue, task)
        _launch(catalogue, "score_rows", (_parts(8 * catalogue.n_items), n_users), THREADS, task, np.int32(1))
    else:
        _touch(catalogue, task)
        _scan(catalogue, "sample_scores", task, sizes.n_sampled // TILE)
        _score_touched(catalogue, task, sizes.n_sampled, is_sampled=True)
        _launch(catalogue, "set_floors", (n_users,), WIDE, task)
        _scan(catalogue, "scan", task, int(task["n_tiles"]))
        _launch(catalogue, "score_rows", (_parts(8 * sizes.room), n_users), THREADS, task, np.int32(0))
        _score_touched(catalogue, task, catalogue.n_items, is_sampled=False)
    _launch(catalogue, "list_best", (n_users,), WIDE, task)
    out = _fetched(held[-1], n_out)
    counts, found = out[: 2 * n_users].reshape(n_users, 2), out[2 * n_users :].reshape(2, n_users, n)
    return found[0].copy(), found[1].view(np.float32).copy(), np.flatnonzero(counts.max(axis=1) > sizes.room)


def _sorted(catalogue: Catalogue, requests: Requests, n: int) -> Answer:
    """The list (n,) of one user, by the exact scores of all items."""
    room = max(catalogue.n_items, 1)
    task, held = _task(catalogue, requests, n, Sizes(1, 0, room), 2 * (1 + n))
    _launch(catalogue, "reset", (1,), WIDE, task)
    _touch(catalogue, task)
    _launch(catalogue, "score_rows", (_parts(8 * room), 1), THREADS, task, np.int32(1))
    n_keys = int(held[-1][1])
    first = int(task["keys"]) - held[0].data.ptr
    keys = cupy.sort(held[0][first : first + 8 * n_keys].view(cupy.uint64))[::-1][:n].get()
    items, scores = np.full(n, -1, dtype=np.int32), np.full(n, -np.inf, dtype=np.float32)
    items[: len(keys)] = ~(keys & 0xFFFFFFFF).astype(np.uint32)
    bits = (keys >> 32).astype(np.uint32)
    scores[: len(keys)] = np.where(bits >> 31, bits & 0x7FFFFFFF, ~bits).astype(np.uint32).view(np.float32)
    return items, scores


def _touch(catalogue: Catalogue, task: Any) -> None:
    """Mark what has to do with neighbours of rated items."""
    if task["words"]:
        n_bytes = 4 * int(task["words"]) * int(task["n_users"])
        cupy.cuda.runtime.memsetAsync(int(task["touched"]), 0, n_bytes, cupy.cuda.get_current_stream().ptr)
        _launch(catalogue, "touch", (16, int(task["n_users"])), THREADS, task)


def _score_touched(catalogue: Catalogue, task: Any, n_items: int, *, is_sampled: bool) -> None:
    if task["words"]:
        grid = _parts(-(-n_items // TILE)), int(task["n_users"])
        _launch(catalogue, "score_touched", grid, THREADS, task, np.int32(is_sampled))


def _parts(n_threads: int) -> int:
    """Blocks a user for so much work; a hundred fill the device for any batch that is worth it."""
    return min(-(-n_threads // THREADS), 128)


def _launch(catalogue: Catalogue, function: str, grid: tuple[int, ...], threads: int, *arguments: Any) -> None:
    found = catalogue.kernels.get((function, 0))
    if found is None:
        found = catalogue.kernels[function, 0] = kernel(NAME, function, {"G": catalogue.width})
    found(grid, (threads,), (catalogue.structure, *arguments))


def _scan(catalogue: Catalogue, function: str, task: Any, n_tiles: int) -> None:
    n_users = int(task["n_users"])
    tiles = (FEW_USERS if n_users <= FEW_USERS else MANY_USERS) // 16
    threads, users, shared, blocks = _geometry(catalogue.width, tiles, cupy.cuda.Device().id)
    chunks = -(-n_users // users)
    grid = min(-(-n_tiles * 32 // threads), max(blocks // chunks, 1)), chunks
    found = catalogue.kernels.get((function, tiles))
    if found is None:
        found = catalogue.kernels[function, tiles] = kernel(SCAN, function, {"G": catalogue.width, "MT": tiles}, shared)
    found(grid, (threads,), (catalogue.structure, task), shared_mem=shared)


@functools.cache
def _geometry(width: int, tiles: int, device: int) -> tuple[int, int, int, int]:
    """Threads, users and shared memory of a block, and how many blocks the device has at once."""
    loaded = module(SCAN, {"G": width, "MT": tiles})
    found = cupy.ndarray(3, cupy.int32, loaded.get_global("geometry")).get().tolist()
    threads, users, shared = found
    attributes = cupy.cuda.Device(device).attributes
    fitting = min(2, attributes["MaxSharedMemoryPerMultiprocessor"] // (shared + 1024))
    return threads, users, shared, max(fitting, 1) * attributes["MultiProcessorCount"]


# --- what a task is made of


def _task(catalogue: Catalogue, requests: Requests, n: int, sizes: Sizes, n_out: int) -> tuple[Any, tuple[Any, ...]]:
    """`Task` of the kernels, and the arrays that it points to: work space, requests, and the answer, int32 (n_out,)."""
    n_users, n_tiles = len(requests.biases), -(-catalogue.n_items // TILE)
    task = np.zeros((), dtype=TASK)
    words = n_tiles if catalogue.n_slots else 0
    given = _uploaded(catalogue, requests, task)
    numbers = n_users, n, not requests.include_seen, sizes.stride, sizes.n_sampled, words, sizes.room, n_tiles
    for name, number in zip(NUMBERS, numbers, strict=True):
        task[name] = number
    work = {
        "keys": 8 * n_users * sizes.room, "rows": 4 * n_users * sizes.room, "sample": 4 * n_users * sizes.n_sampled,
        "touched": 4 * n_users * words, "floors": 4 * n_users,
    }  # fmt: skip
    ends = np.cumsum([-(-size // ALIGNED) * ALIGNED for size in work.values()]).tolist()
    space = cupy.empty(ends[-1], dtype=cupy.uint8)
    for name, start in zip(work, [0, *ends], strict=False):
        task[name] = space.data.ptr + start
    out = cupy.empty(n_out, dtype=cupy.int32)
    task["counts"], task["items"] = out.data.ptr, out.data.ptr + 8 * n_users
    task["scores"] = out.data.ptr + 8 * n_users + 4 * n_users * n
    return task, (space, given, out)


def _uploaded(catalogue: Catalogue, requests: Requests, task: Any) -> Any:
    """The user side, copied in one piece; `task` learns where its parts lie."""
    parts = _parts_of(catalogue, requests)
    ends = np.cumsum([part.size for part in parts.values()]).tolist()
    pinned = _pinned("up", ends[-1])
    given = cupy.empty(ends[-1], dtype=cupy.int32)
    for (name, part), start, end in zip(parts.items(), [0, *ends], ends, strict=False):
        pinned[start:end] = part.ravel().view(np.int32)
        task[name] = given.data.ptr + 4 * start
    given.data.copy_from_host_async(pinned.ctypes.data, 4 * ends[-1], cupy.cuda.get_current_stream())
    return given


def _parts_of(catalogue: Catalogue, requests: Requests) -> dict[str, NDArray[Any]]:
    """The arrays of `Task` that hold the user side, of four-byte numbers each."""
    n_users, width = requests.factors.shape
    factors = np.zeros((n_users, catalogue.width), dtype=np.float32)
    factors[:, :width] = requests.factors
    is_read = catalogue.n_slots > 0 or not requests.include_seen
    lengths = requests.lengths if is_read else np.zeros(n_users, dtype=np.int64)
    seen_starts = np.zeros(n_users + 1, dtype=np.int64)
    np.cumsum(lengths, out=seen_starts[1:])
    places = np.arange(seen_starts[-1]) + np.repeat(requests.starts - seen_starts[:-1], lengths)
    has_values = catalogue.n_slots and not catalogue.is_implicit
    return {
        "factors": factors, "biases": requests.biases.astype(np.float32),
        "baselines": requests.baselines.astype(np.float32), "seen_starts": seen_starts.astype(np.int32),
        "seen": requests.items[places],
        "values": requests.values[places] if has_values else np.zeros(0, dtype=np.float32),
        **_flat("excluded", requests.exclude_starts, requests.excluded),
        **_flat("candidate", requests.candidate_starts, requests.candidates),
        "has_candidates": requests.has_candidates.astype(np.int32),
    }  # fmt: skip


def _flat(name: str, starts: NDArray[np.int64], rows: NDArray[np.int64]) -> dict[str, NDArray[np.int32]]:
    own = rows[starts[0] : starts[-1]].astype(np.int32)
    flat = {"excluded": "excluded", "candidate": "candidates"}[name]
    return {f"{name}_starts": (starts - starts[0]).astype(np.int32), flat: own}


def _fetched(array: Any, n: int) -> NDArray[np.int32]:
    """The int32 array (n,) on the host, in memory that the next answer takes over; waits for what writes it."""
    pinned, stream = _pinned("down", n), cupy.cuda.get_current_stream()
    array.data.copy_to_host_async(pinned.ctypes.data, 4 * n, stream)
    stream.synchronize()
    return pinned[:n]


_pinned_memory: dict[str, NDArray[np.int32]] = {}


def _pinned(name: str, n: int) -> NDArray[np.int32]:
    """Memory of the host that copies need not go around; int32, at least (n,). One thread ranks, and waits."""
    held = _pinned_memory.get(name)
    if held is None or len(held) < n:
        size = max(2 * n, 1 << 16)
        held = _pinned_memory[name] = np.frombuffer(cupy.cuda.alloc_pinned_memory(4 * size), np.int32, size)
    return held
