"""Users' ratings of the neighbors of items, as residuals or bit masks, and drawn negatives: inputs of descent kernels.

Kernels and their ownership of data: kernels/descent_neighbors.cu. All calls return before the device is done. Equal
inputs give equal bits.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from gpu.base.device import shared_memory
from gpu.cuda.kernels import kernel
from gpu.cuda.launcher import blocks_at_once
from gpu.cuda.ratings import DeviceRatings
from gpu.data.ratings import NO_MIDDLE

NAME = "descent_neighbors"
CHUNK, WORD = 8, 32  # neighbors in a chunk, and in a word of masks
NARROW = 2**16 - 1  # items, at most, whose rows and one more value fit into 16 bits
BITS_THREADS = 256  # as in kernels/descent_neighbors.cu
MOST_BITS = 2**18  # bits of a bitmap, at most: 32 KB, so that every device runs six blocks or more
LEAST_BITS = 2**10  # bits of a bitmap, at least
# Threads of a block by the bytes of its line: a longer line leaves room for fewer blocks on a multiprocessor.
LINE_THREADS = (256, 512, 1024)
LINE_BYTES = (38_000, 76_000)
HALF = 2  # bytes
STATIC_SHARED = 1024  # bytes, at most; shared memory of a kernel without its line or bitmap
SPARSE = np.dtype([(name, "<u8") for name in ("starts", "lengths", "entries", "values")])
BASE = np.dtype([("user", "<u8"), ("item", "<u8"), ("mean", "<f4"), ("unused", "<i4")])


def residuals(
    rows: DeviceRatings,
    pairs: DeviceRatings,
    neighbors: Any,
    base: tuple[float, Any, Any],
    target: Any | None,
    out: Any,
) -> None:
    """Write r − b̄ of each pair's neighbors to `out`: float16, NaN where the user has not rated the neighbor.

    Args:
        rows: the ratings by user.
        pairs: B (user, item) pairs by user, the ratings themselves or others; their values are not read. An entry of −1
            is no pair: nothing is written for it.
        neighbors: int32 (I, K), K from 1 to 256; −1 for none.
        base: (μ, b̄ of users float32 (U,), b̄ of items float32 (I,)): subtracted as on the host, in float32, then
            rounded. A residual beyond the range of float16 becomes its largest number.
        target: int32 (B,), the row of `out` of each pair; None for pair b in row b.
        out: float16 (at least B, `padded(K)`), C order; columns from K on become NaN.
    """
    n_items, is_wide = len(neighbors), len(neighbors) > NARROW
    mean, of_users, of_items = base
    baselines = np.zeros((), dtype=BASE)
    baselines["user"], baselines["item"], baselines["mean"] = of_users.data.ptr, of_items.data.ptr, mean
    line = HALF * (n_items + 1)
    threads = next(n for n, most in zip(LINE_THREADS, (*LINE_BYTES, line), strict=True) if line <= most)
    macros = _macros(neighbors.shape[1], is_wide, line_threads=threads)
    work = _sparse(pairs), _packed(neighbors, macros), baselines, _pointer(target), out
    if _fits(line):
        _launch("residuals", macros, (threads, line), rows, np.int32(n_items), *work)
    else:
        n_bits = _n_bits(n_items)
        _launch("residuals_by_search", macros, (BITS_THREADS, n_bits // 8), rows, np.uint32(n_bits), *work)


def masks(
    rows: DeviceRatings, pairs: DeviceRatings, neighbors: Any, target: Any | None, out: Any, middle: float = NO_MIDDLE
) -> None:
    """Write a bit for each neighbor of each pair: bit k % 32 of word k // 32 is 1 where the user has rated J(j, k).

    If ratings may be dislikes, a second group of bits, from `padded(K)` on, marks the ratings below `middle`.

    Args:
        rows, pairs, neighbors, target: as in `residuals`.
        out: uint32 (at least B, `mask_words`), C order.
    """
    n_items, n_planes = len(neighbors), _n_planes(middle)
    n_bits = _n_bits(n_items, n_planes)
    macros = _macros(neighbors.shape[1], n_items > NARROW, search=n_bits <= n_items, n_planes=n_planes)
    arguments = _sparse(pairs), _packed(neighbors, macros), _pointer(target), np.float32(middle), out
    _launch("masks", macros, (BITS_THREADS, n_planes * n_bits // 8), rows, np.uint32(n_bits), *arguments)


def draw(rows: DeviceRatings, n_items: int, seed: int, epoch: int, middle: float, out: Any) -> None:
    """Draw items that the user of each rating has not rated, with the same bits as
    `gpu.descent.host_sgd.draw_negatives`.

    Args:
        rows: compact rows: user i's entries follow those of user i − 1.
        out: int32 (N, s) with any stride of rows, such as the second result of `samples`. It gets −1 for users who have
            rated all items, and for ratings below `middle`.
    """
    n_bits = _n_bits(n_items)
    macros = _macros(1, True, search=n_bits <= n_items, n_planes=_n_planes(middle))
    keys, to = (np.uint64(seed), np.uint64(epoch), np.float32(middle)), (np.int32(out.shape[1]), out.data.ptr)
    arguments = np.uint32(n_bits), np.int64(n_items), *keys, *to, np.int64(out.strides[0] // out.itemsize)
    _launch("draw", macros, (BITS_THREADS, n_bits // 8), rows, *arguments)


def samples(rows: DeviceRatings, n_negatives: int) -> tuple[DeviceRatings, Any]:
    """Memory for the samples of an epoch: each rating followed by its negatives.

    Args:
        rows: compact rows.

    Returns:
        (pairs, negatives). The entries of `pairs` are the rated items and −1 for each negative; its values are those of
        the ratings. `negatives`, int32 (N, s), is a view of the latter entries that `draw` fills in each epoch.
    """
    items = cupy.full((len(rows.entries), n_negatives + 1), -1, dtype=cupy.int32)
    items[:, 0] = rows.entries
    per_rating = n_negatives + 1
    return DeviceRatings(rows.starts * per_rating, rows.lengths * per_rating, items.ravel(), rows.values), items[:, 1:]


def padded(n_neighbors: int) -> int:
    """Columns of residuals for `n_neighbors`: whole chunks."""
    return -(-n_neighbors // CHUNK) * CHUNK


def mask_words(n_neighbors: int, has_dislikes: bool) -> int:
    """Words of 32 bits that `masks` writes for a pair."""
    return -(-(padded(n_neighbors) * (1 + has_dislikes)) // WORD)


def _macros(
    n_neighbors: int, is_wide: bool, search: bool = False, n_planes: int = 1, line_threads: int = LINE_THREADS[0]
) -> dict[str, int]:
    """The macros of kernels/descent_neighbors.cu."""
    chunks, flags = padded(n_neighbors) // CHUNK, {"SEARCH": int(search), "DISLIKES": n_planes - 1}
    return {"CHUNKS": chunks, "WIDE": int(is_wide), **flags, "LINE_THREADS": line_threads}


def _n_planes(middle: float) -> int:
    """Bitmaps of a row: one of rated items, and one of disliked items if ratings may be dislikes."""
    return 1 + (middle > NO_MIDDLE)


def _n_bits(n_items: int, n_planes: int = 1) -> int:
    """Bits of a bitmap: one for each item and one that is never set, if they fit into memory."""
    return int(min(max(1 << n_items.bit_length(), LEAST_BITS), MOST_BITS // n_planes))


def _packed(neighbors: Any, macros: dict[str, int]) -> Any:
    """Neighbors in the kernels' form: (I, `padded(K)`), with the value I for none."""
    n_items, n_neighbors = neighbors.shape
    out = cupy.empty((n_items, padded(n_neighbors)), dtype=cupy.int32 if macros["WIDE"] else cupy.uint16)
    arguments = neighbors, np.int64(n_items), np.int32(n_neighbors), out
    kernel(NAME, "pack", macros)((-(-out.size // BITS_THREADS) or 1,), (BITS_THREADS,), arguments)
    return out


def _sparse(ratings: DeviceRatings) -> Any:
    """`Sparse` of the kernels: addresses, passed by value."""
    struct = np.zeros((), dtype=SPARSE)
    for name, array in zip(SPARSE.names or (), ratings, strict=True):
        struct[name] = 0 if array is None else array.data.ptr
    return struct


def _pointer(array: Any | None) -> Any:
    return np.uint64(0 if array is None else array.data.ptr)


def _launch(
    function: str, macros: dict[str, int], block: tuple[int, int], rows: DeviceRatings, *arguments: Any
) -> None:
    """Run a kernel whose blocks share the rows: as many blocks of (threads, bytes) as are resident at once."""
    threads, shared_bytes = block
    n_rows = len(rows.starts)
    if not n_rows:
        return
    run = kernel(NAME, function, macros, shared_memory() - STATIC_SHARED)
    blocks = min(n_rows, blocks_at_once(run, threads, shared_bytes))
    next_row = cupy.zeros(1, dtype=cupy.uint32)
    run((blocks,), (threads,), (_sparse(rows), np.int64(n_rows), *arguments, next_row), shared_mem=shared_bytes)


def _fits(line: int) -> bool:
    """Whether a line of `line` bytes fits into the shared memory of a block."""
    return line <= shared_memory() - STATIC_SHARED
