"""Finds neighbors of items for training: by simLSH, or by one of the methods that it is compared with.

These comparators are for `train` and the benchmarks; online learning does not update their lists.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.backend import HOST, Backend
from gpu.baselines import Baselines
from gpu.exchange import ALONE, Exchange
from gpu.params import CulshParams
from gpu.ratings import Ratings
from gpu.training import simlsh
from gpu.views import balanced_bounds, part_of

GSM_SHRINKAGE = 100.0  # [004]: Pearson on n common raters counts n / (n + 100)


class Neighbors(NamedTuple):
    """Neighbor lists in host memory, and the sums that online hashing needs.

    Attributes:
        neighbors: int32 (I, K) item rows, best first; padded with `NO_NEIGHBOR`.
        projections: int32 (I, H), sums of simLSH; H = 0 for the comparators.
        filled: share of the neighbors that were drawn at random.
        seconds: wall time of finding them, without copying sums from a device.
    """

    neighbors: NDArray[np.int32]
    projections: NDArray[np.int32]
    filled: float
    seconds: float


class Found(NamedTuple):
    """Neighbor lists on the backend: arrays of NumPy, or of CuPy on a device.

    Attributes:
        neighbors, filled, projections: as in `Neighbors`; `projections` is None for the comparators.
    """

    neighbors: Any
    filled: float
    projections: Any = None


def neighbors(
    ratings: Ratings,
    params: CulshParams,
    backend: Backend = HOST,
    known: Baselines | None = None,
    exchange: Exchange = ALONE,
) -> Neighbors:
    """The K = `params.n_neighbors` neighbors of every item, by `params.similarity`; see `find`."""
    began = time.perf_counter()
    found = find(ratings, params, backend, known, exchange)
    fetch = backend.primitives("lsh").fetch
    lists, seconds = fetch(found.neighbors), time.perf_counter() - began
    none = np.zeros((ratings.n_items, 0), dtype=np.int32)
    return Neighbors(lists, none if found.projections is None else fetch(found.projections), found.filled, seconds)


def find(
    ratings: Ratings,
    params: CulshParams,
    backend: Backend = HOST,
    known: Baselines | None = None,
    exchange: Exchange = ALONE,
) -> Found:
    """The K neighbors of every item, in the memory of `backend`.

    * `simlsh`: agreement of signatures ([004] eq. 3), see `gpu.training.simlsh`.
    * `gsm`: exact Pearson correlation on common raters, shrunk by n/(n + 100).
    * `minhash`: Jaccard similarity of the raters, by one-bit minHash of `params.n_bits` bits.
    * `rp_cos`: cosine of the columns of ratings, by the signs of `params.n_bits` random projections.
    * `random`: any items with ratings.

    Args:
        known: baselines of these ratings if the caller has them. Default: computed here, by `backend`.
        exchange: ranks that divide the items among them, on the host; the result has equal bits for any number of them.
            On a device, which needs milliseconds, each rank finds all neighbors.
    """
    exchange = exchange if backend.name == "host" else ALONE
    k, hashing = params.n_neighbors, {"simlsh": _simlsh, "rp_cos": _rp_cos, "minhash": _minhash}
    if k == 0 or params.similarity not in hashing:
        comparators = backend.primitives("similarity")
        exact = k > 0 and params.similarity == "gsm"
        lists = comparators.gsm(ratings, k, GSM_SHRINKAGE) if exact else comparators.no_lists(ratings, k)
        return Found(*_completed(ratings, lists, params, backend))
    sums, packed = hashing[params.similarity](ratings, params, backend, known, exchange)
    counts, keys = backend.primitives("lsh").items_of(ratings)
    if exchange.size == 1 or np.count_nonzero(counts) > simlsh.ALL_PAIRS_LIMIT:  # buckets mix all items
        ranking = simlsh.top_k(packed, counts, k, params.seed, keys, backend=backend)
    else:
        ranking = _ranked_by_all(packed, counts, k, params.seed, keys, exchange)
    return Found(ranking.neighbors, ranking.filled, sums)


def _simlsh(
    ratings: Ratings, params: CulshParams, backend: Backend, known: Baselines | None, exchange: Exchange
) -> tuple[Any, Any]:
    if known is None and simlsh.psi_of(params) == "residual":
        known = backend.primitives("lsh").baselines(ratings)
    if exchange.size == 1:
        sums = simlsh.projections(ratings, known, params, backend)
    else:
        sums = _summed_by_all(ratings, known, params, exchange)
    return sums, simlsh.signatures(sums, backend)


def _summed_by_all(
    ratings: Ratings, known: Baselines | None, params: CulshParams, exchange: Exchange
) -> NDArray[np.int32]:
    """`simlsh.projections` on the host: each rank adds up the sums of its items, then all get all."""
    bounds = balanced_bounds(ratings.by_item.lengths, exchange.size)
    own = _own(bounds, exchange)
    columns, _ = part_of(ratings.by_item, own)
    known = None if known is None else known._replace(item=known.item[own])
    part = Ratings(ratings.by_user, columns, ratings.user_keys, ratings.item_keys[own])
    sums = np.empty((ratings.n_items, simlsh.n_words(params) * simlsh.WORD_BITS), dtype=np.int32)
    sums[own] = simlsh.projections(part, known, params)
    exchange.gather(sums, bounds)
    return sums


def _ranked_by_all(
    packed: NDArray[np.uint64],
    counts: NDArray[np.int64],
    k: int,
    seed: int,
    keys: NDArray[np.uint64],
    exchange: Exchange,
) -> simlsh.Ranking:
    """`simlsh.top_k` of all pairs on the host: each rank makes the lists of its items, then all get all."""
    bounds = balanced_bounds((counts > 0).astype(np.int64), exchange.size)
    own = _own(bounds, exchange)
    part = simlsh.top_k(packed, counts, k, seed, keys, np.arange(own.start, own.stop))
    lists = np.empty((len(packed), k), dtype=np.int32)
    lists[own] = part.neighbors
    exchange.gather(lists, bounds)
    n = int(np.count_nonzero(part.neighbors >= 0))
    n_filled, n_all = exchange.totals(part.filled * n, n)
    return simlsh.Ranking(lists, n_filled / max(1, n_all))


def _own(bounds: NDArray[np.int64], exchange: Exchange) -> slice:
    """The rows of this rank."""
    return slice(*bounds[exchange.rank : exchange.rank + 2].tolist())


def _rp_cos(
    ratings: Ratings, params: CulshParams, backend: Backend, known: Baselines | None, exchange: Exchange
) -> tuple[None, Any]:
    del known, exchange
    weights = backend.primitives("lsh").cosine_weights(ratings)
    sums = simlsh.weighted_sums(ratings, weights, simlsh.n_words(params), params.seed, backend)
    return None, simlsh.signatures(sums, backend)


def _minhash(
    ratings: Ratings, params: CulshParams, backend: Backend, known: Baselines | None, exchange: Exchange
) -> tuple[None, Any]:
    del known, exchange
    return None, backend.primitives("similarity").minhash(ratings, simlsh.n_words(params), params.seed)


def _completed(ratings: Ratings, lists: Any, params: CulshParams, backend: Backend) -> simlsh.Ranking:
    counts, keys = backend.primitives("lsh").items_of(ratings)
    queries = np.arange(len(lists), like=lists)
    return simlsh.completed(lists, counts, queries, params.seed, keys, backend)
