"""Neighbours of items for training: simLSH, or one of the comparators that show what it is worth.

Comparators run on the host only; they are for `train` and `bench` and are not kept up to date online.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu import simlsh
from gpu.backend import HOST, Backend
from gpu.baselines import Baselines, baselines
from gpu.model import NO_NEIGHBOUR
from gpu.params import CulshParams
from gpu.ratings import Ratings, Rows

GSM_SHRINKAGE = 100.0  # [004]: Pearson on n common raters counts n / (n + 100)


class Neighbours(NamedTuple):
    """Neighbour lists, and what is saved to keep hashing.

    Attributes:
        neighbours: int32 (I, K) item rows, best first; `NO_NEIGHBOUR` where there are fewer than K.
        projections: int32 (I, H), sums of simLSH; H = 0 for the comparators.
        filled: share of the neighbours that were drawn at random.
        seconds: wall time of finding them.
    """

    neighbours: NDArray[np.int32]
    projections: NDArray[np.int32]
    filled: float
    seconds: float


def neighbours(
    ratings: Ratings, params: CulshParams, backend: Backend = HOST, known: Baselines | None = None
) -> Neighbours:
    """The K = `params.n_neighbours` neighbours of every item, by `params.similarity`.

    * `simlsh`: agreement of signatures ([004] eq. 3), see `gpu.simlsh`.
    * `gsm`: exact Pearson correlation on common raters, shrunk by n/(n + 100); the matrix is never stored.
    * `minhash`: Jaccard similarity of the raters, by one-bit minHash of `params.n_bits` bits.
    * `rp_cos`: cosine of the columns of ratings, by the signs of `params.n_bits` random projections.
    * `random`: any items with ratings.

    Args:
        known: baselines of these ratings if the caller has them. Default: computed here.
    """
    began = time.perf_counter()
    none = np.zeros((ratings.n_items, 0), dtype=np.int32)
    if params.n_neighbours == 0:
        return Neighbours(none, none, 0.0, 0.0)
    if params.similarity == "simlsh":
        sums = simlsh.projections(ratings, known or baselines(ratings), params, backend)
        ranking = _by_signature(ratings, simlsh.signatures(sums, backend), params, backend)
    else:
        sums, ranking = none, _COMPARATORS[params.similarity](ratings, params)
    return Neighbours(ranking.neighbours, sums, ranking.filled, time.perf_counter() - began)


def _by_signature(
    ratings: Ratings, packed: NDArray[np.uint64], params: CulshParams, backend: Backend = HOST
) -> simlsh.Ranking:
    counts = ratings.by_item.lengths
    return simlsh.top_k(packed, counts, params.n_neighbours, params.seed, ratings.item_keys, backend=backend)


def _gsm(ratings: Ratings, params: CulshParams) -> simlsh.Ranking:
    from gpu.host.similarity import gsm  # noqa: PLC0415 - compiled only where a comparator is asked for

    best = np.full((ratings.n_items, params.n_neighbours), NO_NEIGHBOUR, dtype=np.int32)
    rows, columns = ratings.by_user, ratings.by_item
    means = baselines(ratings)
    row_values = rows.values - (means.mean + means.item[rows.items].astype(np.float64))
    owner = np.repeat(np.arange(ratings.n_items), columns.lengths)
    column_values = columns.values - (means.mean + means.item[owner].astype(np.float64))
    gsm(
        best, _bounds(rows), rows.items, row_values, _bounds(columns), columns.items, column_values,
        GSM_SHRINKAGE, simlsh.TASKS,
    )  # fmt: skip
    return _completed(ratings, best, params)


def minhash_signatures(ratings: Ratings, n_bits: int, seed: int) -> NDArray[np.uint64]:
    """One-bit minHash of the raters of every item, uint64 (I, W), W = `n_bits` / 64."""
    from gpu.host.similarity import minhash  # noqa: PLC0415 - compiled only where a comparator is asked for

    packed = np.empty((ratings.n_items, n_bits // simlsh.WORD_BITS), dtype=np.uint64)
    columns = ratings.by_item
    minhash(packed, _bounds(columns), columns.items, ratings.user_keys, np.uint64(seed), simlsh.TASKS)
    return packed


def _minhash(ratings: Ratings, params: CulshParams) -> simlsh.Ranking:
    n_bits = simlsh.n_words(params) * simlsh.WORD_BITS
    return _by_signature(ratings, minhash_signatures(ratings, n_bits, params.seed), params)


def _rp_cos(ratings: Ratings, params: CulshParams) -> simlsh.Ranking:
    largest = float(np.abs(ratings.by_item.values).max(initial=0.0)) or 1.0
    weights = np.rint(ratings.by_item.values / largest * simlsh.PSI_STEPS).astype(np.int32)
    sums = simlsh.weighted_sums(ratings, weights, simlsh.n_words(params), params.seed)
    return _by_signature(ratings, simlsh.signatures(sums), params)


def _random(ratings: Ratings, params: CulshParams) -> simlsh.Ranking:
    return _completed(ratings, np.full((ratings.n_items, params.n_neighbours), NO_NEIGHBOUR, np.int32), params)


_COMPARATORS = {"gsm": _gsm, "minhash": _minhash, "rp_cos": _rp_cos, "random": _random}


def _completed(ratings: Ratings, lists: NDArray[np.int32], params: CulshParams) -> simlsh.Ranking:
    counts, queries = ratings.by_item.lengths, np.arange(ratings.n_items)
    return simlsh.completed(lists, counts, queries, params.seed, ratings.item_keys)


def _bounds(rows: Rows) -> NDArray[np.int64]:
    return np.append(rows.starts, rows.starts[-1:] + rows.lengths[-1:])
