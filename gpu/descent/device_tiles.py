"""Sorts ratings into tiles of users for the learning kernels; see kernels/descent_tiles.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.base.device import shared_memory
from gpu.cuda.kernels import kernel
from gpu.cuda.ratings import DeviceRatings

NAME = "descent_tiles"
THREADS = 1024
# Samples of a tile, at least: with fewer tiles in flight each of them reads fresher parameters of the items.
MIN_TILE_SAMPLES = 100_000
FEW = 3e-3  # part of all ratings
LONGEST = 32  # ratings of a segment, at most: for so long an item's parameters stay private in registers
STATIC_SHARED = 5120  # bytes, at most; shared memory of `build_tiles` without the counts


class Tiling(NamedTuple):
    """How many users each tile gets.

    Attributes:
        n_tiles: number of tiles.
        tile_users: users of a tile, at most.
        n_full: tiles that get all users, or if they are full, those with most ratings. Other tiles share the rest.
    """

    n_tiles: int
    tile_users: int
    n_full: int

    @classmethod
    def even(cls, n_users: int, n_tiles: int) -> Tiling:
        """Tiles with about equally many users."""
        return cls(n_tiles, -(-n_users // n_tiles), n_tiles)


@dataclass(frozen=True)
class Tiles:
    """The users of each tile.

    Attributes:
        users: int32 (n_tiles · tile_users,), the user at each position; −1 at unused positions.
        places: int64 (U,), the position of each user; a tile has `tile_users` consecutive positions.
    """

    users: Any
    places: Any
    n_tiles: int
    tile_users: int


@dataclass(frozen=True)
class Layout:
    """Samples in tiles.

    Attributes:
        records: uint32 (B, 2), the user's position in the tile and the bits of the target, tile by tile.
        tile_begin: int64 (n_tiles + 1,), first record of each tile.
        segments: int32 (S, 4): item, first record relative to the tile's first, length, 0.
        segment_begin: int64 (n_tiles + 1,), first segment of each tile.
        n_segments: int32 (n_tiles,), number of segments of each tile.
        targets: int32 (B,), record of each sample, −1 for none.
        cuts: int64 (n_tiles, n_tiles + 1), first segment of each group of items; only from `in_order`.
    """

    records: Any
    tile_begin: Any
    segments: Any
    segment_begin: Any
    n_segments: Any
    targets: Any
    cuts: Any = None


def tiling_of(lengths: NDArray[np.int64], n_samples: int, room: int, at_once: int) -> Tiling:
    """One tile for each of `at_once` blocks, more if the users exceed the `room` of these tiles, fewer for few samples.

    With several tiles a block, full tiles take less time, because ratings of an item are longer segments there. The
    last tile of each block then has the users who are left. Their ratings are short segments, so they must be `FEW`.
    """
    n_users = len(lengths)
    needed = -(-n_users // room)
    if needed <= at_once:
        return Tiling.even(n_users, max(1, needed, min(at_once, n_samples // MIN_TILE_SAMPLES)))
    n_full = n_users // (room * at_once) * at_once
    n_left = n_users - n_full * room
    if n_full and n_left and np.partition(lengths, n_left - 1)[:n_left].sum() <= FEW * lengths.sum():
        return Tiling(n_full + at_once, room, n_full)
    return Tiling.even(n_users, -(-needed // at_once) * at_once)


def deal(lengths: Any, tiling: Tiling) -> Tiles:
    """Assign users to tiles, most ratings first, in serpentine order, so that tiles have similar numbers of ratings."""
    n_tiles, tile_users, n_full = tiling
    by_length = cupy.argsort(-lengths)
    n_first = min(n_full * tile_users, len(lengths))
    users = cupy.full(n_tiles * tile_users, -1, dtype=cupy.int32)
    places = cupy.empty(len(lengths), dtype=cupy.int64)
    for owners, first, last in ((by_length[:n_first], 0, n_full), (by_length[n_first:], n_full, n_tiles)):
        if len(owners):
            turn, tile = cupy.divmod(cupy.arange(len(owners)), last - first)
            tile = cupy.where(turn % 2 == 0, first + tile, last - 1 - tile)
            places[owners] = tile * tile_users + turn
            users[tile * tile_users + turn] = owners
    return Tiles(users, places, n_tiles, tile_users)


def lay_out(pairs: DeviceRatings, per_rating: int, tiles: Tiles, n_items: int, middle: float) -> Layout:
    """Sort the samples of each tile by item; the order within an item differs from call to call.

    Args:
        pairs: samples by user; an entry of −1 is no sample. Their values are those of the ratings.
        per_rating: 0 if the samples are ratings, with their values as targets. Else the number of samples of each
            rating: the first has the target 1, or 0 for a rating below `middle`; all others have 0.
    """
    n = len(pairs.entries)
    sizes = cupy.where(tiles.users >= 0, pairs.lengths[cupy.maximum(tiles.users, 0)], 0)
    sizes = sizes.reshape(tiles.n_tiles, tiles.tile_users).sum(axis=1)
    tile_begin = _begins(sizes)
    segment_begin = _begins(cupy.minimum(sizes, n_items + sizes // LONGEST))
    records, targets = cupy.empty((n, 2), dtype=cupy.uint32), cupy.empty(n, dtype=cupy.int32)
    segments = cupy.empty((segments_needed(n, tiles.n_tiles, n_items), 4), dtype=cupy.int32)
    n_segments = cupy.empty(tiles.n_tiles, dtype=cupy.int32)
    # Items are counted in shared memory, or in global memory if they are too many.
    n_blocks = min(tiles.n_tiles, 2 * cupy.cuda.Device().attributes["MultiProcessorCount"])
    shared = 4 * (n_items + 1)
    fits = shared + STATIC_SHARED <= shared_memory()
    counts = cupy.empty(0 if fits else n_blocks * (n_items + 1), dtype=cupy.int32)
    build = kernel(NAME, "build_tiles", {"SHARED_COUNTS": int(fits)}, shared_memory() - STATIC_SHARED)
    samples = *pairs, np.int32(per_rating), np.float32(middle)
    begins = tiles.users, tile_begin, segment_begin
    sizes = np.int32(tiles.n_tiles), np.int32(tiles.tile_users), np.int32(n_items), np.int32(LONGEST)
    arguments = *samples, *begins, *sizes, counts, records, targets, segments, n_segments
    build((n_blocks,), (THREADS,), arguments, shared_mem=shared if fits else 0)
    return Layout(records, tile_begin, segments, segment_begin, n_segments, targets)


def segments_needed(n_samples: int, n_tiles: int, n_items: int) -> int:
    """Upper bound of the number of segments for any ratings of this size."""
    return min(n_samples, n_tiles * n_items + n_samples // LONGEST)


def in_order(
    pairs: DeviceRatings, per_rating: int, tiles: Tiles, n_items: int, middle: float, item_bounds: NDArray[np.int64]
) -> Layout:
    """`lay_out` by a stable sort: items ascend, and users of an item by position; equal bits for equal samples.

    Args:
        item_bounds: int64 (n_tiles + 1,), first item of each group of `cuts`.
    """
    edges = cupy.arange(tiles.n_tiles + 1) * n_items
    sample = cupy.arange(len(pairs.entries))
    position = tiles.places[cupy.searchsorted(pairs.starts, sample, side="right") - 1]
    tile, local = cupy.divmod(position, tiles.tile_users)
    key = cupy.where(pairs.entries >= 0, tile * n_items + pairs.entries, edges[-1])
    order = cupy.lexsort(cupy.stack([local, key]))
    key = key[order]
    tile_begin = cupy.searchsorted(key, edges)
    order, key = order[: int(tile_begin[-1])], key[: int(tile_begin[-1])]
    values = pairs.values
    if per_rating:
        is_like = pairs.values[sample // per_rating] >= np.float32(middle)
        values = ((sample % per_rating == 0) & is_like).astype(cupy.float32)
    records = cupy.stack([local[order].astype(cupy.uint32), values[order].view(cupy.uint32)], axis=1)
    targets = cupy.full(len(sample), -1, dtype=cupy.int32)
    targets[order] = cupy.arange(len(order), dtype=cupy.int32)
    segments, keys = _segments_of(key, tile_begin, n_items)
    cut_at = cupy.arange(tiles.n_tiles)[:, None] * n_items + cupy.asarray(item_bounds)
    cuts = cupy.searchsorted(keys, cut_at.ravel()).reshape(cut_at.shape)
    segment_begin = cupy.searchsorted(keys, edges)
    n_segments = cupy.diff(segment_begin).astype(cupy.int32)
    return Layout(records, tile_begin, segments, segment_begin, n_segments, targets, cuts)


def _segments_of(key: Any, tile_begin: Any, n_items: int) -> tuple[Any, Any]:
    """(a segment for each run of equal keys, which is all of an item in a tile; the key of each segment)."""
    begins = cupy.flatnonzero(cupy.diff(key, prepend=cupy.array([-1])))
    lengths = cupy.diff(begins, append=cupy.array([len(key)]))
    tile, item = cupy.divmod(key[begins], n_items)
    segments = cupy.stack([item, begins - tile_begin[tile], lengths, cupy.zeros_like(item)], axis=1)
    return segments.astype(cupy.int32), key[begins]


def _begins(sizes: Any) -> Any:
    begins = cupy.zeros(len(sizes) + 1, dtype=cupy.int64)
    cupy.cumsum(sizes, out=begins[1:])
    return begins
