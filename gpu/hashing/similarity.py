"""Finds neighbors of items for training: by simLSH, or by one of the methods that it is compared with.

These comparators are for `train` and the benchmarks; online learning does not update their lists.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.data.baselines import Baselines
from gpu.data.ratings import Ratings
from gpu.data.views import part_of, weighted_bounds
from gpu.hashing import host_lsh as lsh
from gpu.hashing import host_similarity as comparators
from gpu.hashing import simlsh
from gpu.hashing.fixed_point import Scale, psi_of
from gpu.ranks.exchange import ALONE, Exchange

if TYPE_CHECKING:
    from gpu.descent.params import CulshParams


Row = TypeVar("Row", np.int32, np.uint64)
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


class BackendLists(NamedTuple):
    """Neighbor lists on the backend: arrays of NumPy, or of CuPy on a device.

    Attributes:
        neighbors, filled, projections: as in `Neighbors`; `projections` is None for the comparators.
    """

    neighbors: NDArray[np.int32]
    filled: float
    projections: NDArray[np.int32] | None = None


def neighbors(
    ratings: Ratings,
    params: CulshParams,
    backend: Backend = HOST,
    fixed: Baselines | None = None,
    exchange: Exchange = ALONE,
) -> Neighbors:
    """The K = `params.n_neighbors` neighbors of every item, by `params.similarity`; see `find`."""
    began = time.perf_counter()
    on_backend = find(ratings, params, backend, fixed, exchange)
    fetch = backend.twin(lsh.fetch)
    lists, seconds = fetch(on_backend.neighbors), time.perf_counter() - began
    none = np.zeros((ratings.n_items, 0), dtype=np.int32)
    return Neighbors(
        lists, none if on_backend.projections is None else fetch(on_backend.projections), on_backend.filled, seconds
    )


def find(
    ratings: Ratings,
    params: CulshParams,
    backend: Backend = HOST,
    fixed: Baselines | None = None,
    exchange: Exchange = ALONE,
) -> BackendLists:
    """The K neighbors of every item, in the memory of `backend`.

    * `simlsh`: agreement of signatures ([004] eq. 3), see `gpu.hashing.simlsh`.
    * `keys`: the signature cut into keys of `params.key_bits`; items that share most keys, as in [004]. On the host.
    * `gsm`: exact Pearson correlation on common raters, shrunk by n/(n + 100).
    * `minhash`: Jaccard similarity of the raters, by one-bit minHash of `params.n_bits` bits.
    * `rp_cos`: cosine of the columns of ratings, by the signs of `params.n_bits` random projections.
    * `random`: any items with ratings.

    Args:
        fixed: baselines of these ratings if the caller has them. Default: computed here, by `backend`.
        exchange: ranks that divide the work among them; the result has equal bits for any number of them. For `gsm`
            each rank finds all neighbors.
    """
    k = params.n_neighbors
    if k == 0 or params.similarity not in HASHING:
        exact = k > 0 and params.similarity == "gsm"
        twin = backend.twin
        lists = twin(comparators.gsm)(ratings, k, GSM_SHRINKAGE) if exact else twin(comparators.no_lists)(ratings, k)
        return BackendLists(*_completed(ratings, lists, params, backend))
    sums, packed = HASHING[params.similarity](ratings, params, backend, fixed, exchange)
    counts, keys = backend.twin(lsh.items_of)(ratings)
    if params.similarity == "keys":
        fetch = backend.twin(lsh.fetch)
        shared = comparators.by_keys(fetch(packed), fetch(counts), k, params.n_bits, params.key_bits)
        return BackendLists(*_completed(ratings, np.asarray(shared, like=packed), params, backend))
    if exchange.size == 1 or np.count_nonzero(counts) > simlsh.ALL_PAIRS_LIMIT:  # buckets mix all items
        ranking = simlsh.top_k(packed, counts, k, params.seed, keys, backend=backend, exchange=exchange)
    else:
        ranking = _ranked_by_all(packed, counts, k, params.seed, keys, backend, exchange)
    return BackendLists(ranking.neighbors, ranking.filled, sums)


def _simlsh(
    ratings: Ratings, params: CulshParams, backend: Backend, fixed: Baselines | None, exchange: Exchange
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    if fixed is None and psi_of(params) == "residual":
        fixed = backend.twin(lsh.baselines)(ratings)
    part = _part(ratings, exchange)
    fixed = None if fixed is None else fixed._replace(item=fixed.item[part.own])
    sums = _of_all(simlsh.projections(part.ratings, fixed, params, backend, part.scale), part, exchange)
    return sums, simlsh.signatures(sums, backend)


class _Part(NamedTuple):
    """The items of a rank.

    Attributes:
        ratings: their ratings by item; all ratings by user.
        own: their rows.
        bounds: int64 (P + 1,), first item of each rank.
        scale: smallest and largest rating of all items; None: those of `ratings`.
    """

    ratings: Ratings
    own: slice
    bounds: NDArray[np.int64]
    scale: Scale | None


def _part(ratings: Ratings, exchange: Exchange) -> _Part:
    """The items of this rank: about as many ratings as other ranks have. A single rank has all."""
    if exchange.size == 1:
        return _Part(ratings, slice(None), np.array([0, ratings.n_items]), None)
    bounds = weighted_bounds(ratings.by_item.lengths, exchange.weights)
    own = _own(bounds, exchange)
    columns, _ = part_of(ratings.by_item, own)
    part = Ratings(ratings.by_user, columns, ratings.user_keys, ratings.item_keys[own])
    return _Part(part, own, bounds, ratings.scale)


def _of_all(rows: NDArray[Row], part: _Part, exchange: Exchange) -> NDArray[Row]:
    """Rows of all items, of which this rank has those of its own."""
    if exchange.size == 1:
        return rows
    whole = np.empty_like(rows, shape=(int(part.bounds[-1]), rows.shape[1]))
    whole[part.own] = rows
    exchange.gather(whole, part.bounds)
    return whole


def _ranked_by_all(
    packed: NDArray[np.uint64],
    counts: NDArray[np.int64],
    k: int,
    seed: int,
    keys: NDArray[np.uint64],
    backend: Backend,
    exchange: Exchange,
) -> simlsh.Ranking:
    """`simlsh.top_k` of all pairs: each rank makes the lists of its items, then all get all."""
    is_rated = backend.twin(lsh.fetch)(counts) > 0
    bounds = weighted_bounds(is_rated.astype(np.int64), exchange.weights)
    own = _own(bounds, exchange)
    queries = np.arange(own.start, own.stop, like=packed)
    part = simlsh.top_k(packed, counts, k, seed, keys, queries, backend)
    lists = np.empty_like(packed, dtype=np.int32, shape=(len(packed), k))
    lists[own] = part.neighbors
    exchange.gather(lists, bounds)
    n = int(np.count_nonzero(part.neighbors >= 0))
    n_filled, n_all = exchange.totals(part.filled * n, n)
    return simlsh.Ranking(lists, n_filled / max(1, n_all))


def _own(bounds: NDArray[np.int64], exchange: Exchange) -> slice:
    """The rows of this rank."""
    return slice(*bounds[exchange.rank : exchange.rank + 2].tolist())


def _rp_cos(
    ratings: Ratings, params: CulshParams, backend: Backend, fixed: Baselines | None, exchange: Exchange
) -> tuple[None, NDArray[np.uint64]]:
    del fixed
    part = _part(ratings, exchange)
    weights = backend.twin(lsh.cosine_weights)(part.ratings, part.scale)
    sums = simlsh.weighted_sums(part.ratings, weights, simlsh.n_words(params), params.seed, backend)
    return None, _of_all(simlsh.signatures(sums, backend), part, exchange)


def _minhash(
    ratings: Ratings, params: CulshParams, backend: Backend, fixed: Baselines | None, exchange: Exchange
) -> tuple[None, NDArray[np.uint64]]:
    del fixed
    part = _part(ratings, exchange)
    packed = backend.twin(comparators.minhash)(part.ratings, simlsh.n_words(params), params.seed)
    return None, _of_all(packed, part, exchange)


HASHING = {"simlsh": _simlsh, "keys": _simlsh, "rp_cos": _rp_cos, "minhash": _minhash}


def _completed(ratings: Ratings, lists: NDArray[np.int32], params: CulshParams, backend: Backend) -> simlsh.Ranking:
    counts, keys = backend.twin(lsh.items_of)(ratings)
    queries = np.arange(len(lists), like=lists)
    return simlsh.completed(lists, counts, queries, params.seed, keys, backend)
