"""Comparators of simLSH on a CUDA device: exact Pearson similarity (GSM) and one-bit minHash.

Twins of `gpu.hashing.host_similarity`: minHash has the same bits, and GSM agrees within the rounding of float32 sums.
Kernels and their ownership of data: kernels/similarity.cu.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
from cupy_backends.cuda.libs import cublas as libcublas

from gpu.base.backend import WORKSPACE
from gpu.base.device import free_bytes
from gpu.cuda.kernels import kernel
from gpu.cuda.ratings import columns_of, keys_of, rows_of
from gpu.cuda.structures import structure
from gpu.data.ratings import Ratings
from gpu.hashing import device_hamming as hamming
from gpu.hashing import device_lsh as lsh

if TYPE_CHECKING:
    from gpu.descent.params import CulshParams


NAME = "similarity"
THREADS = 256
ROW_UNIT = 8  # columns; dense rows are padded to a multiple of it, pieces of 16 bytes for tensor cores
USERS_BYTES = 512 * 2**20  # bytes; dense rows of a batch of users in the three matrices
MOMENTS = (("M", "M"), ("X", "M"), ("M", "X"), ("Q", "M"), ("M", "Q"), ("X", "X"))  # n, Σx, Σy, Σx², Σy², Σxy
DATA_TYPES = {2: 2, 4: 0}  # cudaDataType of float16 and float32, by their bytes
ANY_ALGORITHM = -1  # cublasGemmAlgo_t: the library chooses
MOMENTS_SHARE = 4  # moments may take one in `MOMENTS_SHARE` of the free bytes


def bytes_needed(ratings: Ratings, params: CulshParams) -> int:
    """Peak bytes of device memory for finding neighbors.

    Ratings by user and by item take 16 bytes, and 16 a user and an item; keys and baselines 12. Ψ and its inputs take
    8, or for `gsm` the test of float16 24. Drawn bits of a user take 32. Then come pieces of columns, sums and
    signatures, ranks and lists (32 a neighbor), and work space of ranking (64 an item). Last are the agreements of a
    batch, or for `gsm` dense rows and the moments of one item, since a batch of moments takes only free memory.
    """
    n_users, n_items, n_bits = ratings.n_users, ratings.n_items, params.n_bits
    to_device = (40 if params.similarity == "gsm" else 24) * len(ratings) + 28 * (n_users + n_items)
    ranking = (32 * params.n_neighbors + 64) * n_items
    stride = -(-max(n_items, 1) // ROW_UNIT) * ROW_UNIT
    if params.similarity == "gsm":
        work = max(min(USERS_BYTES, 12 * n_users * stride), 12 * stride) + 4 * len(MOMENTS) * stride
    else:
        hashed = {"minhash": 8 * n_bits, "random": 0}.get(params.similarity, 4 * n_bits)
        at_once = max(hamming.AT_ONCE_BYTES, 2 * hamming.TILE * stride)
        work = (hashed + n_bits // 8) * n_items + lsh.STATE_BYTES * n_users + min(at_once, 2 * n_items * stride)
    return to_device + ranking + work + WORKSPACE


def gsm(ratings: Ratings, k: int, shrinkage: float) -> Any:
    """The k items of largest positive shrunk Pearson correlation, best first, padded with −1; (I, k).

    It costs 12·U·I² operations on tensor cores, in float16 if ratings and their squares are exact in it (stars are),
    else in float32, with sums in float32. It takes 24·I bytes for each item of a batch, in a quarter of the free
    memory.
    """
    n_items = ratings.n_items
    best = cupy.full((n_items, k), -1, dtype=cupy.int64)
    stride = -(-max(n_items, 1) // ROW_UNIT) * ROW_UNIT
    batch = max(1, min(n_items, free_bytes() // MOMENTS_SHARE // (len(MOMENTS) * 4 * stride)))
    for first in range(0, n_items if len(ratings) else 0, batch):
        moments = _moments(ratings, first, min(batch, n_items - first), stride)
        pointers = structure(*moments)
        arguments = pointers, np.int32(stride), np.int32(n_items), np.int32(first), np.float64(shrinkage), np.int32(k)
        shared = hamming.RANK_BYTES * k
        _kernel("select_correlated")((moments.shape[1],), (hamming.WARP,), (*arguments, best), shared_mem=shared)
    return hamming.rows_of(best)


def minhash(ratings: Ratings, n_words: int, seed: int) -> Any:
    """One-bit minHash of the raters of every item, uint64 (I, W), W = `n_words`."""
    n_bits, columns, work = 64 * n_words, columns_of(ratings), lsh.pieces_of(columns_of(ratings))
    smallest = cupy.full((ratings.n_items, n_bits), 2**64 - 1, dtype=cupy.uint64)
    packed = cupy.empty((ratings.n_items, n_words), dtype=cupy.uint64)
    if work.bound:
        hashes = -(-n_bits // THREADS)
        arguments = work.pieces, work.count, columns.entries, keys_of(ratings).users, np.uint64(seed), np.int32(n_bits)
        _kernel("hash_columns", hashes)((work.bound,), (THREADS,), (*arguments, smallest))
        _kernel("pack_bits")((-(-packed.size // THREADS),), (THREADS,), (smallest, np.int64(packed.size), packed))
    return packed


def no_lists(ratings: Ratings, k: int) -> Any:
    """Empty lists of all items, (I, k)."""
    return cupy.full((ratings.n_items, k), -1, dtype=cupy.int32)


def _moments(ratings: Ratings, first: int, n: int, stride: int) -> Any:
    """`MOMENTS` of items `first` … `first + n − 1` with all items, float32 (6, n, stride)."""
    rows = rows_of(ratings)
    shift = float(cupy.rint(2 * rows.values.mean(dtype=cupy.float64)) / 2)  # stars less half stars are exact too
    moved = rows.values - np.float32(shift)
    is_half = all(bool((x.astype(cupy.float16).astype(cupy.float32) == x).all()) for x in (moved, moved * moved))
    dtype = cupy.dtype(cupy.float16 if is_half else cupy.float32)
    users = max(1, min(ratings.n_users, USERS_BYTES // (3 * dtype.itemsize * stride)))
    dense = cupy.empty((3, users, stride), dtype=dtype)
    moments = cupy.zeros((len(MOMENTS), n, stride), dtype=cupy.float32)
    for begin in range(0, ratings.n_users, users):
        held = min(users, ratings.n_users - begin)
        dense.fill(0)
        given = *rows, np.int64(begin), np.float32(shift), np.int32(stride), *dense
        _kernel("spread", is_half=is_half)((held,), (THREADS,), given)
        for moment, (left, right) in zip(moments, MOMENTS, strict=True):
            _multiply(dense["MXQ".index(left)][:held, first:], dense["MXQ".index(right)][:held], moment)
    return moments


def _multiply(left: Any, right: Any, to: Any) -> None:
    """Add leftᵀ right to `to`, with sums in float32; of `left` only as many columns as `to` has rows."""
    kind, one = DATA_TYPES[left.dtype.itemsize], np.ones(1, dtype=np.float32)
    n, stride = to.shape
    how = libcublas.CUBLAS_OP_N, libcublas.CUBLAS_OP_T, stride, n, len(left), one.ctypes.data
    operands = right.data.ptr, kind, stride, left.data.ptr, kind, stride
    result = one.ctypes.data, to.data.ptr, DATA_TYPES[4], stride, libcublas.CUBLAS_COMPUTE_32F, ANY_ALGORITHM
    libcublas.gemmEx(cupy.cuda.device.get_cublas_handle(), *how, *operands, *result)


def _kernel(function: str, hashes: int = 1, is_half: bool = True) -> Any:
    return kernel(NAME, function, {"HASHES": hashes, "HALF": int(is_half)})
