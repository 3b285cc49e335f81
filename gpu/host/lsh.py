"""simLSH on the host ([004] eq. 3): sums of signed weights and their signs.

Layout. A signature has S = H / 32 half-words of 32 bits. Bit b of half-word s belongs to projection b·S + s: then the
sums of one bit position lie side by side and a rating is added to a whole vector of them at once, without ever
spreading a word over its bits: about 9 additions a nanosecond with AVX-512. Φ is drawn anew for every rating, which
takes a seventh of the time of adding it and saves a table of all users.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True, inline="always")
def mix(word: np.uint64) -> np.uint64:
    """Finaliser of splitmix64: a bijection of uint64 whose every output bit depends on every input bit."""
    word = (word ^ (word >> np.uint64(30))) * MIX_1
    word = (word ^ (word >> np.uint64(27))) * MIX_2
    return word ^ (word >> np.uint64(31))


@njit(cache=True, nogil=True)
def fill_bits(words: NDArray[np.uint64], seed: np.uint64, key: np.uint64) -> None:
    """Φ(H_i) of the user with `key`: splitmix64 as a counter-based generator keyed by (seed, key)."""
    state = mix(key ^ mix(seed))
    for w in range(len(words)):
        words[w] = mix(state + np.uint64(w + 1) * GOLDEN)


@njit(cache=True, nogil=True)
def add_signed(sums: NDArray[np.int32], bits: NDArray[np.uint32], weight: np.int32) -> None:
    """sums[b·S + s] += weight where bit b of bits[s] is set, −weight where it is not."""
    n_words = len(bits)
    twice = np.int32(2) * weight
    for b in range(32):
        shift = np.uint32(b)
        row = sums[b * n_words : (b + 1) * n_words]
        for s in range(n_words):
            is_set = -np.int32((bits[s] >> shift) & np.uint32(1))
            row[s] += (twice & is_set) - weight


@njit(cache=True, nogil=True)
def update(
    projections: NDArray[np.int32],
    items: NDArray[np.int64],
    keys: NDArray[np.uint64],
    weights: NDArray[np.int32],
    seed: np.uint64,
) -> None:
    """projections[items[n]] += weights[n] · Φ(keys[n]), in place; an item may occur any number of times."""
    words = np.empty(projections.shape[1] // 64, dtype=np.uint64)
    bits = words.view(np.uint32)
    for n in range(len(items)):
        fill_bits(words, seed, keys[n])
        add_signed(projections[items[n]], bits, weights[n])


@njit(cache=True, nogil=True, parallel=True)
def project(
    projections: NDArray[np.int32],
    chunks: NDArray[np.int64],
    starts: NDArray[np.int64],
    users: NDArray[np.int32],
    user_keys: NDArray[np.uint64],
    weights: NDArray[np.int32],
    seed: np.uint64,
) -> None:
    """Sums of all columns: projections[j] += Σ weights · Φ over ratings starts[j] to starts[j + 1].

    Args:
        chunks: item rows that bound pieces of like size, ascending, the last one N; one task each.
        starts: (N + 1,) first rating of each column.
    """
    for c in prange(len(chunks) - 1):
        words = np.empty(projections.shape[1] // 64, dtype=np.uint64)
        bits = words.view(np.uint32)
        for j in range(chunks[c], chunks[c + 1]):
            for n in range(starts[j], starts[j + 1]):
                fill_bits(words, seed, user_keys[users[n]])
                add_signed(projections[j], bits, weights[n])


@njit(cache=True, nogil=True)
def sign(signatures: NDArray[np.uint32], projections: NDArray[np.int32], items: NDArray[np.int64]) -> None:
    """Refresh the signatures of `items`: a bit is 1 where its sum is ≥ 0. `signatures` as half-words (I, S)."""
    n_words = signatures.shape[1]
    for j in items:
        signatures[j, :] = 0
        for b in range(32):
            sums = projections[j, b * n_words : (b + 1) * n_words]
            for s in range(n_words):
                signatures[j, s] |= np.uint32(sums[s] >= 0) << np.uint32(b)
