"""Tables of factors in contiguous blocks of `BLOCK` columns, and VᵀV of such a table.

A pass over one block reads contiguous memory. In a table with rows of 4 KiB (1,024 factors), the same columns of all
rows would compete for few sets of the cache. One thread multiplies each pair of blocks, in a fixed order, so VᵀV does
not depend on the number of threads.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from gpu.als.objective import BLOCK
from gpu.base.host import njit, prange
from gpu.base.host.declared import Use, called_for

GROUP = 8  # rows whose products are added in one pass
RUN = 1024  # rows whose products are summed in float32 before they are added in float64
_SHIFT = np.uintp(4)
_1, _2, _3, _4, _5, _6, _7, _8 = (np.uintp(n) for n in range(1, 9))


def blocks_of(table: NDArray[np.float32], n_columns: int) -> NDArray[np.float32]:
    """The first `n_columns` columns of `table` in blocks, float32 (B, rows, W), W = `BLOCK`.

    Zeros fill the last block, and the rows up to a multiple of `GROUP`.
    """
    blocks = np.zeros((-(-n_columns // BLOCK), len(table) + -len(table) % GROUP, BLOCK), dtype=np.float32)
    for block, first in enumerate(range(0, n_columns, BLOCK)):
        last = min(first + BLOCK, n_columns)
        blocks[block, : len(table), : last - first] = table[:, first:last]
    return blocks


def gram_of(blocks: NDArray[np.float32]) -> NDArray[np.float32]:
    """VᵀV of a table in blocks, float32 (B, B W, W): entry [c, k, f] belongs to columns k and c W + f."""
    n = len(blocks)
    gram = np.empty((n, n * BLOCK, BLOCK), dtype=np.float32)
    _add_grams(blocks, gram)
    return gram


def square(gram: NDArray[np.float32], n_columns: int) -> NDArray[np.float64]:
    """The result of `gram_of` as a matrix, float64 (n_columns, n_columns)."""
    whole = gram.transpose(1, 0, 2).reshape(gram.shape[1], -1)
    return whole[:n_columns, :n_columns].astype(np.float64)


def bytes_needed(n_rows: int, n_columns: int, has_gram: bool) -> int:
    """Bytes of a table in blocks; with `has_gram` also of VᵀV in blocks, two square matrices and their product."""
    return 4 * (n_rows + GROUP) * n_columns + (4 + 3 * 8) * n_columns**2 * has_gram


@called_for(Use.TRAINING)
@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _add_grams(blocks: Annotated[NDArray[np.float32], 3], gram: Annotated[NDArray[np.float32], 3]) -> None:
    n = len(blocks)
    for pair in prange(n * n):
        one, other = pair // n, pair % n
        if other <= one:
            whole = _products(blocks[one], blocks[other])
            for i in range(BLOCK):
                for j in range(BLOCK):
                    gram[other, one * BLOCK + i, j] = gram[one, other * BLOCK + j, i] = whole[i, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _products(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """Σ of the outer products of the rows of two blocks, float64 (W, W)."""
    whole = np.zeros((BLOCK, BLOCK))
    for first in range(0, len(one), RUN):
        part = np.zeros((BLOCK, BLOCK), np.float32)
        _add_products(one, other, first, min(first + RUN, len(one)), part)
        whole += part
    return whole


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _add_products(
    one: NDArray[np.float32], other: NDArray[np.float32], first: int, last: int, out: NDArray[np.float32]
) -> None:
    """Add the outer products of rows `first` to `last` (excluded) to `out`; their number is a multiple of 8."""
    n = np.uintp(out.shape[1]) >> _SHIFT << _SHIFT
    for k in range(np.uintp(first), np.uintp(last), _8):
        for a in range(n):
            s0, s1, s2, s3 = one[k, a], one[k + _1, a], one[k + _2, a], one[k + _3, a]
            s4, s5, s6, s7 = one[k + _4, a], one[k + _5, a], one[k + _6, a], one[k + _7, a]
            for f in range(n):
                half = s0 * other[k, f] + s1 * other[k + _1, f] + s2 * other[k + _2, f] + s3 * other[k + _3, f]
                rest = s4 * other[k + _4, f] + s5 * other[k + _5, f] + s6 * other[k + _6, f] + s7 * other[k + _7, f]
                out[a, f] += half + rest
