"""What users gave the neighbors of items, for kernels that learn: residuals, or a bit each, and negatives.

Kernels, and who owns what in them: kernels/descent_neighbors.cu. All calls return before the work is done; equal
inputs give equal bits.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.api import driver

from gpu.device import shared_memory
from gpu.device.cuda.ratings import DeviceRatings
from gpu.device.kernels import kernel
from gpu.ratings import NO_MIDDLE

NAME = "descent_neighbors"
EIGHT, WORD = 8, 32  # neighbors of a chunk, and of a word of masks
NARROW = 2**16 - 1  # items whose rows, and one more, fit 16 bits
BITS_THREADS = 256  # as in kernels/descent_neighbors.cu
MOST_BITS = 2**18  # of a bitmap: 32 KB, which every device has for six blocks or more
LEAST_BITS = 2**10
# Threads of a block with a line: the more memory it takes, the fewer blocks share a multiprocessor.
LINE_THREADS = (256, 512, 1024)
LINE_BYTES = (38_000, 76_000)
HALF = 2  # bytes
STATIC_SHARED = 1024  # bytes, at most, of a kernel beside its line or bitmap
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
        pairs: (user, item) pairs by user, the ratings themselves or others; their values are not read. An entry of −1
            is no pair: nothing is written.
        neighbors: int32 (N, K), K from 1 to 256; −1 is none.
        base: (μ, b̄ of users float32 (M,), b̄ of items float32 (N,)): subtracted as on the host, in float32, then
            rounded; what float16 cannot hold becomes its largest number.
        target: int32 (P,), the row of `out` of each pair; None for pair p in row p.
        out: float16 (at least P, `padded(K)`), C order; columns from K on become NaN.
    """
    n_items, is_wide = len(neighbors), len(neighbors) > NARROW
    mean, of_users, of_items = base
    given = np.zeros((), dtype=BASE)
    given["user"], given["item"], given["mean"] = of_users.data.ptr, of_items.data.ptr, mean
    line = HALF * (n_items + 1)
    threads = next(n for n, most in zip(LINE_THREADS, (*LINE_BYTES, line), strict=True) if line <= most)
    macros = _macros(neighbors.shape[1], is_wide, line_threads=threads)
    work = _sparse(pairs), _packed(neighbors, macros), given, _pointer(target), out
    if _fits(line):
        _launch("residuals", macros, (threads, line), rows, np.int32(n_items), *work)
    else:
        n_bits = _n_bits(n_items)
        _launch("residuals_by_search", macros, (BITS_THREADS, n_bits // 8), rows, np.uint32(n_bits), *work)


def masks(
    rows: DeviceRatings, pairs: DeviceRatings, neighbors: Any, target: Any | None, out: Any, middle: float = NO_MIDDLE
) -> None:
    """Write a bit for each neighbor of each pair: bit k % 32 of word k // 32 is 1 where the user has rated J(j, k).

    Where ratings may be dislikes, bits from `padded(K)` on say which of these are: ratings below `middle`.

    Args:
        rows, pairs, neighbors, target: as of `residuals`.
        out: uint32 (at least P, `mask_words`), C order.
    """
    n_items, n_planes = len(neighbors), _n_planes(middle)
    n_bits = _n_bits(n_items, n_planes)
    macros = _macros(neighbors.shape[1], n_items > NARROW, search=n_bits <= n_items, n_planes=n_planes)
    given = _sparse(pairs), _packed(neighbors, macros), _pointer(target), np.float32(middle), out
    _launch("masks", macros, (BITS_THREADS, n_planes * n_bits // 8), rows, np.uint32(n_bits), *given)


def draw(rows: DeviceRatings, n_items: int, seed: int, epoch: int, middle: float, out: Any) -> None:
    """Items that the user of each rating has not rated, as `gpu.host.sgd.draw_negatives` draws them, bit for bit.

    Args:
        rows: compact rows: user i's entries follow those of user i − 1.
        out: int32 (ratings, s), rows at any distance: a slice of `samples` too. −1 where the user has rated all items,
            and beside a rating below `middle`.
    """
    n_bits = _n_bits(n_items)
    macros = _macros(1, True, search=n_bits <= n_items, n_planes=_n_planes(middle))
    keys, to = (np.uint64(seed), np.uint64(epoch), np.float32(middle)), (np.int32(out.shape[1]), out.data.ptr)
    given = np.uint32(n_bits), np.int64(n_items), *keys, *to, np.int64(out.strides[0] // out.itemsize)
    _launch("draw", macros, (BITS_THREADS, n_bits // 8), rows, *given)


def samples(rows: DeviceRatings, n_negatives: int) -> tuple[DeviceRatings, Any]:
    """Room for the ratings, each followed by its negatives.

    Args:
        rows: compact rows.

    Returns:
        (pairs by user whose entries are the ratings and, until drawn, −1, beside the values of the ratings; the part of
        the entries that `draw` fills in each epoch, int32 (ratings, s)).
    """
    items = cupy.full((len(rows.entries), n_negatives + 1), -1, dtype=cupy.int32)
    items[:, 0] = rows.entries
    per_rating = n_negatives + 1
    return DeviceRatings(rows.starts * per_rating, rows.lengths * per_rating, items.ravel(), rows.values), items[:, 1:]


def padded(n_neighbors: int) -> int:
    """Columns of residuals of so many neighbors: whole chunks."""
    return -(-n_neighbors // EIGHT) * EIGHT


def mask_words(n_neighbors: int, has_dislikes: bool) -> int:
    """Words of 32 bits that `masks` writes for a pair."""
    return -(-(padded(n_neighbors) * (1 + has_dislikes)) // WORD)


def _macros(
    n_neighbors: int, is_wide: bool, search: bool = False, n_planes: int = 1, line_threads: int = LINE_THREADS[0]
) -> dict[str, int]:
    """The macros of `kernels/descent_neighbors.cu`."""
    chunks, flags = padded(n_neighbors) // EIGHT, {"SEARCH": int(search), "DISLIKES": n_planes - 1}
    return {"CHUNKS": chunks, "WIDE": int(is_wide), **flags, "LINE_THREADS": line_threads}


def _n_planes(middle: float) -> int:
    """Bitmaps of a row: what is rated, and what is disliked where anything may be."""
    return 1 + (middle > NO_MIDDLE)


def _n_bits(n_items: int, n_planes: int = 1) -> int:
    """Bits of a bitmap: one for each item and one that is never set, where memory allows."""
    return int(min(max(1 << n_items.bit_length(), LEAST_BITS), MOST_BITS // n_planes))


def _packed(neighbors: Any, macros: dict[str, int]) -> Any:
    """Neighbors as the kernels read them: (N, whole chunks), N for none."""
    n_items, n_neighbors = neighbors.shape
    out = cupy.empty((n_items, padded(n_neighbors)), dtype=cupy.int32 if macros["WIDE"] else cupy.uint16)
    given = neighbors, np.int64(n_items), np.int32(n_neighbors), out
    kernel(NAME, "pack", macros)((-(-out.size // BITS_THREADS) or 1,), (BITS_THREADS,), given)
    return out


def _sparse(ratings: DeviceRatings) -> Any:
    """`Sparse` of the kernels: addresses, passed by value."""
    given = np.zeros((), dtype=SPARSE)
    for name, array in zip(SPARSE.names or (), ratings, strict=True):
        given[name] = 0 if array is None else array.data.ptr
    return given


def _pointer(array: Any | None) -> Any:
    return np.uint64(0 if array is None else array.data.ptr)


def _launch(function: str, macros: dict[str, int], block: tuple[int, int], rows: DeviceRatings, *given: Any) -> None:
    """Run a kernel whose blocks, (threads, bytes) each, share the rows: as many as are on the device at once."""
    threads, shared_bytes = block
    n_rows = len(rows.starts)
    if not n_rows:
        return
    found = kernel(NAME, function, macros, shared_memory() - STATIC_SHARED)
    blocks = min(n_rows, _resident(found, threads, shared_bytes))
    taken = cupy.zeros(1, dtype=cupy.uint32)
    found((blocks,), (threads,), (_sparse(rows), np.int64(n_rows), *given, taken), shared_mem=shared_bytes)


def _fits(line: int) -> bool:
    """Whether the shared memory of a block has room for a line of so many bytes."""
    return line <= shared_memory() - STATIC_SHARED


@functools.cache
def _resident(found: Any, threads: int, shared_bytes: int) -> int:
    fit = driver.occupancyMaxActiveBlocksPerMultiprocessor(found.kernel.ptr, threads, shared_bytes)
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"] * fit)
