"""ESGD on a CUDA device, the twin of `gpu.host.esgd`. Kernels, who owns what, which races are meant: kernels/esgd.cu.

Tables are float32. In float16 every addition would be rounded to 11 bits of p, an error of the size of γλp, the
regularization, and there are as many additions as ratings: nobody owns a row and could keep the rest of it.

What limits an epoch is the second-level cache, which adds 2 · 4 F bytes a rating: on an H100, 99 million ratings at
F = 32, 13.9 ms, of which 3.1 are left where nothing is added (docs/performance.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.baselines import Baselines
from gpu.device import compute_capability
from gpu.device.als import WORKSPACE, finish
from gpu.device.cuda.arrays import to_device
from gpu.device.cuda.ratings import rows_of
from gpu.device.kernels import kernel
from gpu.params import EsgdParams
from gpu.ratings import Ratings
from gpu.training.esgd import BLOCK, CHUNK, Order

__all__ = ["finish"]  # a primitive of every family; the others are written here

NAME = "esgd"
PIECE = 4  # factors that a thread moves at once
THREADS = 1024  # th_size; a block takes its ratings in BLOCK / THREADS = 2 steps, st
WARP = 32
VECTOR_FROM = 90  # compute capability, ten times, from which a piece is added by one instruction


class Samples(NamedTuple):
    """What is learned, as one array by user; see `gpu.host.esgd`.

    Attributes:
        users, items: int32 (N,); `items` are those of `gpu.device.cuda.ratings`, shared with whoever reads them.
        targets: float32 (N,).
        visits, stride: see `gpu.training.esgd.Order`.
    """

    users: Any
    items: Any
    targets: Any
    visits: Any
    stride: int


def bytes_needed(ratings: Ratings, params: EsgdParams) -> int:
    """Memory that a training takes on the device, at its peak.

    Counted: ratings (8 bytes, 16 a user) with their users and targets (8); both tables, as copied and as learned in;
    biases; work space of sums.
    """
    n_rows = ratings.n_users + ratings.n_items
    tables = 4 * n_rows * (params.n_factors + _n_pieces(params.n_factors) * PIECE + 1)
    return 16 * len(ratings) + 16 * ratings.n_users + tables + WORKSPACE


def load(ratings: Ratings, biases: Baselines, order: Order) -> Samples:
    """What is left of `ratings` after `biases`."""
    rows = rows_of(ratings)
    users, targets = cupy.empty_like(rows.entries), cupy.empty_like(rows.values)
    blocks = -(-ratings.n_users * WARP // THREADS)
    given = rows.starts, rows.lengths, np.int32(ratings.n_users), rows.entries, rows.values, np.float32(biases.mean)
    biases_there = to_device(biases.user), to_device(biases.item)
    _kernel("place", 1)((blocks,), (THREADS,), (*given, *biases_there, users, targets))
    return Samples(users, rows.entries, targets, to_device(order.visits), order.stride)


def load_factors(factors: NDArray[np.float32]) -> Any:
    """A table (rows, F) to learn in: rows of whole pieces, zeros beyond F, which stay zeros."""
    n, n_factors = factors.shape
    table = cupy.zeros((n, _n_pieces(n_factors) * PIECE), dtype=cupy.float32)
    table[:, :n_factors] = to_device(factors)
    return table


def fetch(table: Any) -> NDArray[np.float32]:
    """The table (rows, F or more) on the host; waits for what writes it."""
    values: NDArray[np.float32] = table.get()
    return values


def is_finite(users: Any, items: Any) -> bool:
    """Whether every factor is."""
    return bool(np.isfinite(float(users.sum(dtype=np.float64)) + float(items.sum(dtype=np.float64))))


def prepare(n_factors: int) -> None:
    """Compile what an epoch calls."""
    _kernel("learn", _n_pieces(n_factors))


def learn_epoch(samples: Samples, users: Any, items: Any, step: np.float32, regularization: np.float32) -> None:
    """One pass over `samples`, in place of `users` and `items`; returns before the work is done: see `finish`.

    Args:
        step, regularization: γ and λ.
    """
    n_ratings = len(samples.targets)
    n_chunks = -(-n_ratings // CHUNK)
    blocks = -(-n_chunks * CHUNK // BLOCK)
    ratings = samples.users, samples.items, samples.targets, samples.visits
    walk = np.int64(n_ratings), np.uint32(n_chunks), np.uint32(samples.stride)
    given = (*ratings, *walk, step, regularization, users, items)
    _kernel("learn", users.shape[1] // PIECE)((blocks,), (THREADS,), given)


def defines(n_pieces: int, capability: int) -> dict[str, int]:
    """Macros of kernels/esgd.cu for rows of so many pieces."""
    return {"PIECES": n_pieces, "THREADS": THREADS, "VECTOR": int(capability >= VECTOR_FROM)}


def _n_pieces(n_factors: int) -> int:
    return -(-n_factors // PIECE)


def _kernel(function: str, n_pieces: int) -> Any:
    return kernel(NAME, function, defines(n_pieces, compute_capability()))
