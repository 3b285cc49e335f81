"""ESGD on a CUDA device, the twin of `gpu.descent.host_esgd`. Kernels, ownership and intended races: kernels/esgd.cu.

Tables are float32. In float16 each addition would be rounded to 11 bits of p, an error as large as γλp, the
regularization. There are as many additions as ratings, and no thread owns a row and could keep the remainder.

The second-level cache limits an epoch: it adds 2 · 4 F bytes a rating. On an H100, 99 million ratings at F = 32 take
13.9 ms, and 3.1 ms without the additions (docs/performance.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import WORKSPACE
from gpu.base.device import compute_capability
from gpu.cuda.arrays import finish, to_device
from gpu.cuda.kernels import kernel
from gpu.cuda.ratings import rows_of
from gpu.data.baselines import Baselines
from gpu.data.ratings import Ratings
from gpu.descent.order import BLOCK, CHUNK, Order
from gpu.descent.params import EsgdParams

__all__ = ["finish"]  # a primitive of every family; the others are written here

NAME = "esgd"
PIECE = 4  # factors that a thread moves at a time
THREADS = 1024  # threads of a block, th_size; it takes its ratings in BLOCK / THREADS = 2 steps, st
WARP = 32
VECTOR_FROM = 90  # compute capability times ten; from here on one instruction adds a piece


class Samples(NamedTuple):
    """Samples to learn, as one array by user; see `gpu.descent.host_esgd`.

    Attributes:
        users, items: int32 (N,); `items` is the array of `gpu.cuda.ratings`, shared with its other readers.
        targets: float32 (N,).
        visits, stride: see `gpu.descent.order.Order`.
    """

    users: Any
    items: Any
    targets: Any
    visits: Any
    stride: int


def bytes_needed(ratings: Ratings, params: EsgdParams) -> int:
    """Peak bytes of device memory that a training takes.

    They count ratings (8 bytes, 16 a user) with their users and targets (8), both tables twice (copied and padded),
    biases, and work space of sums.
    """
    n_rows = ratings.n_users + ratings.n_items
    tables = 4 * n_rows * (params.n_factors + _n_pieces(params.n_factors) * PIECE + 1)
    return 16 * len(ratings) + 16 * ratings.n_users + tables + WORKSPACE


def load(ratings: Ratings, biases: Baselines, order: Order) -> Samples:
    """The samples of `ratings`, whose targets are the residuals of `biases`."""
    rows = rows_of(ratings)
    users, targets = cupy.empty_like(rows.entries), cupy.empty_like(rows.values)
    blocks = -(-ratings.n_users * WARP // THREADS)
    given = rows.starts, rows.lengths, np.int32(ratings.n_users), rows.entries, rows.values, np.float32(biases.mean)
    biases_there = to_device(biases.user), to_device(biases.item)
    _kernel("place", 1)((blocks,), (THREADS,), (*given, *biases_there, users, targets))
    return Samples(users, rows.entries, targets, to_device(order.visits), order.stride)


def load_factors(factors: NDArray[np.float32]) -> Any:
    """A trainable table (rows, F): rows of whole pieces, with zeros beyond F that stay zeros."""
    n, n_factors = factors.shape
    table = cupy.zeros((n, _n_pieces(n_factors) * PIECE), dtype=cupy.float32)
    table[:, :n_factors] = to_device(factors)
    return table


def fetch(table: Any) -> NDArray[np.float32]:
    """The table (rows, F or more) on the host; waits for the device."""
    values: NDArray[np.float32] = table.get()
    return values


def is_finite(users: Any, items: Any) -> bool:
    """Whether every factor is finite."""
    return bool(np.isfinite(float(users.sum(dtype=np.float64)) + float(items.sum(dtype=np.float64))))


def prepare(n_factors: int) -> None:
    """Compile the kernels of an epoch."""
    _kernel("learn", _n_pieces(n_factors))


def learn_epoch(
    samples: Samples,
    users: Any,
    items: Any,
    step: np.float32,
    regularization: np.float32,
    item_regularization: np.float32,
) -> None:
    """One pass over `samples`, in place of `users` and `items`; returns before the work is done: see `finish`.

    Args:
        step, regularization, item_regularization: γ, λ_p and λ_q.
    """
    n_ratings = len(samples.targets)
    n_chunks = -(-n_ratings // CHUNK)
    blocks = -(-n_chunks * CHUNK // BLOCK)
    ratings = samples.users, samples.items, samples.targets, samples.visits
    walk = np.int64(n_ratings), np.uint32(n_chunks), np.uint32(samples.stride)
    given = (*ratings, *walk, step, regularization, item_regularization, users, items)
    _kernel("learn", users.shape[1] // PIECE)((blocks,), (THREADS,), given)


def defines(n_pieces: int, capability: int) -> dict[str, int]:
    """Macros of kernels/esgd.cu for rows of `n_pieces`."""
    return {"PIECES": n_pieces, "THREADS": THREADS, "VECTOR": int(capability >= VECTOR_FROM)}


def _n_pieces(n_factors: int) -> int:
    return -(-n_factors // PIECE)


def _kernel(function: str, n_pieces: int) -> Any:
    return kernel(NAME, function, defines(n_pieces, compute_capability()))
