"""`keys_of`: the keys of ids by which all random draws about them are seeded.

BLAKE2b with a digest of 8 bytes and without a key (RFC 7693, section 3), read as a little-endian number: what `hashlib`
gives, without a Python object an id and without the GIL.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.data.host_arena import Int
from gpu.data.host_ids import IdColumn

WORDS, WORD_BYTES = 16, 8  # of a block
BLOCK_BYTES = WORDS * WORD_BYTES
ROUNDS = 12
PARAMETERS = np.uint64(0x01010008)  # one lane, no key, a digest of 8 bytes
IV = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    dtype=np.uint64,
)  # fmt: skip
SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    dtype=np.int64,
)
_16, _24, _32, _63 = (np.uint64(n) for n in (16, 24, 32, 63))
_48, _40, _1 = (np.uint64(n) for n in (48, 40, 1))

Four = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


@njit(cache=True, nogil=True, inline="always")
def mixed(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, x: np.uint64, y: np.uint64) -> Four:
    """G of the RFC."""
    a = a + b + x
    d ^= a
    d = (d >> _32) | (d << _32)
    c = c + d
    b ^= c
    b = (b >> _24) | (b << _40)
    a = a + b + y
    d ^= a
    d = (d >> _16) | (d << _48)
    c = c + d
    b ^= c
    b = (b >> _63) | (b << _1)
    return a, b, c, d


@njit(cache=True, nogil=True)
def compress(state: NDArray[np.uint64], block: NDArray[np.uint64], n_bytes: Int, is_last: bool) -> None:
    """F of the RFC: take in a block; `n_bytes` were read up to its end."""
    v0, v1, v2, v3, v4, v5, v6, v7 = state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]
    v8, v9, v10, v11, v12, v13, v14, v15 = IV[0], IV[1], IV[2], IV[3], IV[4], IV[5], IV[6], IV[7]
    v12 ^= np.uint64(n_bytes)
    v14 = ~v14 if is_last else v14
    for n in range(ROUNDS):
        s = SIGMA[n % len(SIGMA)]
        v0, v4, v8, v12 = mixed(v0, v4, v8, v12, block[s[0]], block[s[1]])
        v1, v5, v9, v13 = mixed(v1, v5, v9, v13, block[s[2]], block[s[3]])
        v2, v6, v10, v14 = mixed(v2, v6, v10, v14, block[s[4]], block[s[5]])
        v3, v7, v11, v15 = mixed(v3, v7, v11, v15, block[s[6]], block[s[7]])
        v0, v5, v10, v15 = mixed(v0, v5, v10, v15, block[s[8]], block[s[9]])
        v1, v6, v11, v12 = mixed(v1, v6, v11, v12, block[s[10]], block[s[11]])
        v2, v7, v8, v13 = mixed(v2, v7, v8, v13, block[s[12]], block[s[13]])
        v3, v4, v9, v14 = mixed(v3, v4, v9, v14, block[s[14]], block[s[15]])
    state[0] ^= v0 ^ v8
    state[1] ^= v1 ^ v9
    state[2] ^= v2 ^ v10
    state[3] ^= v3 ^ v11
    state[4] ^= v4 ^ v12
    state[5] ^= v5 ^ v13
    state[6] ^= v6 ^ v14
    state[7] ^= v7 ^ v15


@called_for(Use.READING)
@njit(cache=True, nogil=True)
def keys_of(column: IdColumn) -> NDArray[np.uint64]:
    """The keys of the ids of a column, uint64 (B,)."""
    codes, offsets, text = column
    keys = np.empty(len(codes), dtype=np.uint64)
    state, block = np.empty_like(IV), np.empty(WORDS, dtype=np.uint64)
    for n in range(len(codes)):
        first, end = np.int64(offsets[codes[n]]), np.int64(offsets[codes[n] + 1])
        for word in range(len(IV)):  # an assignment to a slice takes seconds to compile
            state[word] = IV[word]
        state[0] ^= PARAMETERS
        start = first
        while True:
            stop = min(start + BLOCK_BYTES, end)
            for word in range(WORDS):
                block[word] = 0
            for at in range(start, stop):
                place = at - start
                block[place >> 3] |= np.uint64(text[at]) << np.uint64(WORD_BYTES * (place & 7))
            compress(state, block, stop - first, stop == end)
            if stop == end:
                break
            start = stop
        keys[n] = state[0]
    return keys
