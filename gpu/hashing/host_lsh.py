"""simLSH on the host ([004] eq. 3): Ψ of ratings, sums of signed weights, and the signs of these sums.

Layout. A signature has S = H / 32 half-words of 32 bits. Bit b of half-word s belongs to projection b·S + s. So the
sums of one bit position are adjacent, and vector instructions add a rating to them without unpacking bits: about 9
additions a nanosecond with AVX-512. Φ is computed again for every rating. This takes a small part of the time of the
additions, and needs no table of all users.

Φ of a user. splitmix64, keyed by (seed, user key), draws 256 bits: the half-words s_0 … s_7. Half-word w of Φ is the
exclusive or of three of them, two of which are rotated by whole bytes (see `fill_bits`). No two bits of Φ come from the
same three drawn bits. So any two bits are independent over users, and so are the sums of any two projections.
Agreements of signatures have the same mean and variance as with random bits. Sets of four bits can be dependent: with
2,432 bits 5,376 sets are, half as many as with random triples. A half-word costs one operation instead of twenty for a
hash, and a device transposes 256 bits of a user instead of 2,432.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for
from gpu.data import baselines as host_baselines
from gpu.data.baselines import Baselines
from gpu.data.calibration import origin_of
from gpu.data.host_random import GOLDEN, mix
from gpu.data.ratings import Ratings
from gpu.hashing.fixed_point import WORD_BITS, Scale, in_steps, psi

if TYPE_CHECKING:
    from gpu.descent.params import CulshParams


STATE = 8  # drawn half-words
MOST_HALVES = 512  # half-words of the longest signature, 16,384 bits
TASKS = 256  # pieces of similar size that threads share


def baselines(ratings: Ratings) -> Baselines:
    """See `gpu.data.baselines.baselines`."""
    return host_baselines.baselines(ratings)


def items_of(ratings: Ratings) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """(number of ratings of each item, int64 (I,); keys of the items, uint64 (I,))."""
    return ratings.by_item.lengths, ratings.item_keys


def fetch(array: NDArray[Any]) -> NDArray[Any]:
    """An array of this backend in host memory."""
    return array


def weights(
    ratings: Ratings, fixed: Baselines | None, params: CulshParams, scale: Scale | None = None
) -> NDArray[np.int8]:
    """Ψ of every rating, int8 (N,), in the order of `ratings.by_item`.

    Args:
        fixed: μ, the baselines and the middle of the ratings. None: zeros, and every rating is a like.
        scale: smallest and largest rating of the training. Default: of these ratings.
    """
    columns, zeros = ratings.by_item, Baselines(0.0, *np.zeros((2, 1), np.float32))
    mean, users, items, middle = fixed or zeros
    scale = scale or _scale_of(ratings)
    origin = origin_of(scale, params)
    if fixed is None:
        return psi(params, scale, origin, columns.values, mean, users, items, middle)
    item = np.repeat(np.arange(ratings.n_items), columns.lengths)
    return psi(params, scale, origin, columns.values, mean, users[columns.items], items[item], middle)


def cosine_weights(ratings: Ratings, scale: Scale | None = None) -> NDArray[np.int8]:
    """Every rating as a share of the largest one, in the steps of Ψ; int8 (N,), in the order of `ratings.by_item`.

    `scale`: as in `weights`.
    """
    values = ratings.by_item.values
    low, high = scale or _scale_of(ratings)
    return in_steps(values.astype(np.float64) / (max(abs(low), abs(high)) or 1.0))


def _scale_of(ratings: Ratings) -> Scale:
    return ratings.scale if len(ratings) else (0.0, 1.0)


def project(ratings: Ratings, weights: NDArray[np.int8], n_words: int, seed: int) -> NDArray[np.int32]:
    """Sums of all items, int32 (I, 64·n_words): Σ weight · Φ over the ratings of each item."""
    sums = np.zeros((ratings.n_items, n_words * WORD_BITS), dtype=np.int32)
    n = len(ratings.by_item.values)
    bounds = np.append(ratings.by_item.starts, n)
    chunks = np.searchsorted(bounds, np.linspace(0, n, TASKS + 1))
    chunks[0], chunks[-1] = 0, ratings.n_items
    add_columns(sums, chunks, bounds, ratings.by_item.items, ratings.user_keys, weights, np.uint64(seed))
    return sums


def _turned_from() -> NDArray[np.uint64]:
    """Where the second and the third operand of `fill_bits` start in `drawn`, for each eight half-words; (64, 2)."""
    eights = np.arange(MOST_HALVES // STATE, dtype=np.uint64)
    kind = eights % 7
    turn = (eights // 7 + 15 * kind) % 16
    second, third = np.where(kind < 5, 1, 2), np.where(kind < 5, kind + 2, kind - 1)
    both = [2 * STATE * (turn % 4) + second, 2 * STATE * (turn // 4) + third]
    return np.stack(both, axis=1).astype(np.uint64)


TURNED_FROM = _turned_from()


def _exclusive_or(typing_context: Any, to: Any, at: Any, drawn: Any, second: Any, third: Any) -> Any:
    """Code for eight half-words at once. LLVM would not vectorize a loop, since `to` and `drawn` could overlap."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        eight = ir.VectorType(ir.IntType(32), STATE)

        def pointer(array: int, index: Any) -> Any:
            data = context.make_helper(builder, signature.args[array], arguments[array]).data
            return builder.bitcast(builder.gep(data, [index]), eight.as_pointer())

        def load(index: Any) -> Any:
            return builder.load(pointer(2, index), align=4)

        words = load(ir.Constant(ir.IntType(64), 0))
        for index in arguments[3:]:
            words = builder.xor(words, load(index))
        builder.store(words, pointer(0, arguments[1]), align=4)
        return context.get_dummy_value()

    return types.void(to, types.uint64, drawn, types.uint64, types.uint64), build


# to[at + x] = drawn[x] ^ drawn[second + x] ^ drawn[third + x], x = 0 … 7; contiguous uint32 arrays, uint64 indices.
_xor_eight: Any = intrinsic(_exclusive_or)


@njit(cache=True, nogil=True)
def fill_bits(bits: NDArray[np.uint32], drawn: NDArray[np.uint32], seed: np.uint64, key: np.uint64) -> None:
    """Write Φ(H_i) of the user with `key` to `bits`, as half-words.

    Half-words w = 8·o + x, x = 0 … 7, combine s_x, s_{x+d} and s_{x+e} (indices mod 8). o mod 7 selects (d, e), one of
    the seven ways to choose three of eight on a circle. The rotations of the second and third operand depend on o.

    Args:
        bits: uint32 (S rounded up to a multiple of 8,), overwritten.
        drawn: uint32 (64,), work space: the drawn half-words twice in a row, then rotated right by one, two and three
            bytes.
    """
    state = mix(key ^ mix(seed))
    for n in range(STATE // 2):
        two = mix(state + np.uint64(n + 1) * GOLDEN)
        drawn[2 * n] = drawn[2 * n + STATE] = np.uint32(two)
        drawn[2 * n + 1] = drawn[2 * n + 1 + STATE] = np.uint32(two >> np.uint64(32))
    for r in range(1, 4):
        for n in range(2 * STATE):
            drawn[2 * STATE * r + n] = (drawn[n] >> np.uint32(8 * r)) | (drawn[n] << np.uint32(32 - 8 * r))
    for o in range(len(bits) // STATE):
        _xor_eight(bits, np.uint64(STATE * o), drawn, TURNED_FROM[o, 0], TURNED_FROM[o, 1])


@njit(cache=True, nogil=True)
def add_signed(sums: NDArray[np.int32], bits: NDArray[np.uint32], weight: np.int32) -> None:
    """Add `weight` to sums[b·S + s] if bit b of bits[s] is set, else subtract it."""
    n_words = len(bits)
    twice = np.int32(2) * weight
    for b in range(32):
        shift = np.uint32(b)
        row = sums[b * n_words : (b + 1) * n_words]
        for s in range(n_words):
            is_set = -np.int32((bits[s] >> shift) & np.uint32(1))
            row[s] += (twice & is_set) - weight


@called_for(Use.HASHED)
@njit(cache=True, nogil=True)
def update(
    projections: Annotated[NDArray[np.int32], 2],
    items: NDArray[np.int64],
    keys: NDArray[np.uint64],
    weights: NDArray[np.int32],
    seed: np.uint64,
) -> None:
    """Add weights[n] · Φ(keys[n]) to projections[items[n]] for each n, in place; items may repeat."""
    n_halves = projections.shape[1] // 32
    bits, drawn = np.empty(n_halves + STATE - 1, dtype=np.uint32), np.empty(8 * STATE, dtype=np.uint32)
    for n in range(len(items)):
        fill_bits(bits, drawn, seed, keys[n])
        add_signed(projections[items[n]], bits[:n_halves], weights[n])


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True)
def add_columns(
    projections: Annotated[NDArray[np.int32], 2],
    chunks: NDArray[np.int64],
    starts: NDArray[np.int64],
    users: NDArray[np.int32],
    user_keys: NDArray[np.uint64],
    weights: NDArray[np.int8],
    seed: np.uint64,
) -> None:
    """Add Σ weight · Φ over the ratings starts[j] to starts[j + 1] to projections[j], for every item j.

    Args:
        chunks: ascending item rows, the last one I; they bound pieces of similar size, one for each task.
        starts: int64 (I + 1,), first rating of each item.
    """
    for c in prange(len(chunks) - 1):
        n_halves = projections.shape[1] // 32
        bits, drawn = np.empty(n_halves + STATE - 1, dtype=np.uint32), np.empty(8 * STATE, dtype=np.uint32)
        for j in range(chunks[c], chunks[c + 1]):
            for n in range(starts[j], starts[j + 1]):
                fill_bits(bits, drawn, seed, user_keys[users[n]])
                add_signed(projections[j], bits[:n_halves], np.int32(weights[n]))


@called_for(Use.HASHED, Use.TRAINING)
@njit(cache=True, nogil=True)
def sign(
    signatures: Annotated[NDArray[np.uint32], 2], projections: Annotated[NDArray[np.int32], 2], items: NDArray[np.int64]
) -> None:
    """Write the signatures of `items` to `signatures`, half-words (I, S): a bit is 1 if its sum is ≥ 0."""
    n_words = signatures.shape[1]
    for j in items:
        signatures[j, :] = 0
        for b in range(32):
            sums = projections[j, b * n_words : (b + 1) * n_words]
            for s in range(n_words):
                signatures[j, s] |= np.uint32(sums[s] >= 0) << np.uint32(b)
