"""simLSH ([004] eq. 3): hash items by their ratings so that items rated alike by the same users agree in many bits.

Item j keeps the sums A_j = Σ_{i∈Ω̂_j} Ψ(r_ij) Φ(H_i) over H projections; its signature is their signs. A counter-based
generator keyed by (seed, user key) draws Φ(H_i), ±1 for each projection. So all processes agree, and nothing is stored
per user. Ψ is fixed point and A_j int32, so sums are exact in any order, and a rating can be subtracted again.
Neighbors are the items whose signatures agree in most bits.

The code serves both backends: the host processes arrays of NumPy, and `backend` processes arrays of a device. Results
are in the same memory as the arguments. Both give the same integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.data.baselines import Baselines
from gpu.data.ratings import Ratings
from gpu.hashing import host_hamming as hamming
from gpu.hashing import host_lsh as lsh
from gpu.hashing.fixed_point import WORD_BITS, Scale
from gpu.ranks.exchange import ALONE, Exchange

if TYPE_CHECKING:
    from gpu.descent.params import CulshParams


ALL_PAIRS_LIMIT = 50_000  # candidates; up to this number all pairs are compared, above it only bucket mates
BUCKET_SIZE = 32  # items; target mean of a bucket, which decides the width of keys
BUCKET_WINDOW = 32  # bucket mates compared on each side
REFINEMENTS = 3  # recall on 100,000 hard items: .18, then .34, .50, .57 (best eight: .26, .55, .82, .90)


def n_words(params: CulshParams) -> int:
    """W, 64-bit words of a signature: `params.n_bits` rounded up to whole words."""
    return -(-params.n_bits // WORD_BITS)


def projections(
    ratings: Ratings,
    baselines: Baselines | None,
    params: CulshParams,
    backend: Backend = HOST,
    scale: Scale | None = None,
) -> NDArray[np.int32]:
    """Sums A_j of all items, int32 (I, H), H = 64·W, in the memory of `backend`.

    It costs N·H signed additions: with vector instructions on the host, as products of bits on a device.

    Args:
        baselines: of these ratings; only Ψ = `residual` needs them.
        scale: smallest and largest rating of the training. Default: of these ratings.
    """
    weights = backend.twin(lsh.weights)(ratings, baselines, params, scale)
    return weighted_sums(ratings, weights, n_words(params), params.seed, backend)


def weighted_sums(
    ratings: Ratings, weights: NDArray[np.int8], words: int, seed: int, backend: Backend = HOST
) -> NDArray[np.int32]:
    """Σ weights · Φ of every column, int32 (I, 64·words); `weights` in the order of `ratings.by_item`."""
    return backend.twin(lsh.project)(ratings, weights, words, seed)


def update(
    sums: NDArray[np.int32],
    items: NDArray[np.integer],
    user_keys: NDArray[np.uint64],
    weights: NDArray[np.int32],
    seed: int,
    backend: Backend = HOST,
) -> None:
    """Add `weights[n]` · Φ(user_keys[n]) to the sums of item `items[n]`, in place.

    A new rating has the weight Ψ(new), a changed one Ψ(new) − Ψ(old), a deleted one −Ψ(old).
    """
    add = _home(sums, backend).twin(lsh.update)
    add(sums, items.astype(np.int64), user_keys, weights.astype(np.int32), np.uint64(seed))


def signatures(sums: NDArray[np.int32], backend: Backend = HOST) -> NDArray[np.uint64]:
    """Signs of the sums, packed: uint64 (I, W); a bit is 1 where its sum is ≥ 0."""
    packed = np.empty_like(sums, dtype=np.uint64, shape=(len(sums), sums.shape[1] // WORD_BITS))
    refresh(packed, sums, np.arange(len(sums), like=sums), backend)
    return packed


def refresh(
    packed: NDArray[np.uint64], sums: NDArray[np.int32], items: NDArray[np.integer], backend: Backend = HOST
) -> None:
    """Recompute the signatures of `items` in place."""
    _home(sums, backend).twin(lsh.sign)(packed.view(np.uint32), sums, items.astype(np.int64))


class Ranking(NamedTuple):
    """Neighbor lists.

    Attributes:
        neighbors: int32 (B, K) item rows, best first; padded with `NO_NEIGHBOR` if fewer than K other items have
            ratings. The list of an item without ratings is all padding.
        filled: share of the neighbors that were drawn at random.
    """

    neighbors: NDArray[np.int32]
    filled: float


def top_k(
    packed: NDArray[np.uint64],
    counts: NDArray[np.int64],
    k: int,
    seed: int,
    item_keys: NDArray[np.uint64],
    queries: NDArray[np.integer] | None = None,
    backend: Backend = HOST,
    exchange: Exchange = ALONE,
) -> Ranking:
    """The K items whose signatures agree best with each query's; ties to the lower row, never the item itself.

    Only items with ratings are neighbors. With `queries`, or with up to `ALL_PAIRS_LIMIT` items with ratings, all pairs
    are compared, which is exact and takes W popcounts a pair. Otherwise candidates come from buckets
    (`rank_in_buckets`), and empty slots are filled at random.

    Args:
        packed: signatures, uint64 (I, W).
        counts: ratings of each item, (I,).
        item_keys: uint64 (I,); random filling is drawn by (seed, item key).
        queries: item rows to make lists for, (B,). Default: every item.
        exchange: ranks that divide the search in buckets among them; all get all lists.
    """
    candidates = np.flatnonzero(counts)
    rows = np.arange(len(packed), like=packed) if queries is None else queries.astype(np.int64)
    if queries is None and len(candidates) > ALL_PAIRS_LIMIT:
        best = rank_in_buckets(packed, candidates, k, backend, exchange)
    else:
        best = _no_ranks(packed, len(rows), k)
        rated = np.flatnonzero(counts[rows])
        best[rated] = rank_all_pairs(packed, candidates, rows[rated], k, backend)
    neighbors = _home(packed, backend).twin(hamming.rows_of)(best)
    return completed(neighbors, counts, rows, seed, item_keys, backend)


def rank_all_pairs(
    packed: NDArray[np.uint64], candidates: NDArray[np.int64], queries: NDArray[np.int64], k: int, backend: Backend
) -> NDArray[np.int64]:
    """Rank keys (B, K), descending, of the candidates that agree best with each query; padded with −1."""
    best = _no_ranks(packed, len(queries), k)
    if k and len(candidates):
        _home(packed, backend).twin(hamming.rank_all)(best, packed, candidates, queries)
    return best


def rank_in_buckets(
    packed: NDArray[np.uint64], candidates: NDArray[np.int64], k: int, backend: Backend, exchange: Exchange = ALONE
) -> NDArray[np.int64]:
    """Rank keys (I, K) of the best among each candidate's bucket mates.

    There is one table for each 16 bits of the signature, sorted by these and the next 48 bits. Items with the same key
    share a bucket; the length of a key is chosen for `BUCKET_SIZE` items a bucket on average. The mates of all
    tables, at most `BUCKET_WINDOW` on each side, are ranked by the whole signature. Then neighbors of neighbors are
    ranked too, `REFINEMENTS` times, since keys alone miss most pairs that agree in 60 % of their bits. The cost is 4·W
    sorts and at most I·(8·W·`BUCKET_WINDOW` + `REFINEMENTS`·K²) pairs.

    Ranks divide the tables, then the candidates, among them. A list is the best of all ranked pairs in any order, so
    all ranks get the lists of one.
    """
    best = _no_ranks(packed, len(packed), k)
    n_key_bits = np.int64(max(1, np.log2(max(len(candidates), 1) / BUCKET_SIZE)))
    twin = _home(packed, backend).twin
    for table in range(exchange.rank, 4 * packed.shape[1] if k else 0, exchange.size):
        words = twin(hamming.coarse_words)(packed, candidates, table)
        order = np.argsort(words, kind="stable")
        twin(hamming.rank_buckets)(best, packed, candidates[order], words[order], n_key_bits, np.int64(BUCKET_WINDOW))
    _merge(best, exchange)
    bounds = np.arange(exchange.size + 1) * len(packed) // exchange.size
    first, last = bounds[exchange.rank : exchange.rank + 2].tolist()
    own = candidates[(candidates >= first) & (candidates < last)]
    for _ in range(REFINEMENTS if k else 0):
        twin(hamming.rank_second_hand)(best, packed, own, twin(hamming.rows_of)(best))
        exchange.gather(best, bounds)
    return best


def _merge(best: NDArray[np.int64], exchange: Exchange) -> None:
    """Replace lists (I, K) of rank keys by the best different keys of those of all ranks."""
    passed = best.copy() if exchange.size > 1 else best
    for _ in range(exchange.size - 1):
        received = np.empty_like(passed)
        exchange.shift(passed, received)
        passed, both = received, np.sort(np.hstack([best, received]), axis=1)
        both[:, 1:][both[:, 1:] == both[:, :-1]] = -1
        best[:] = np.sort(both, axis=1)[:, : -1 - best.shape[1] : -1]


def completed(
    neighbors: NDArray[np.int32],
    counts: NDArray[np.int64],
    queries: NDArray[np.int64],
    seed: int,
    item_keys: NDArray[np.uint64],
    backend: Backend = HOST,
) -> Ranking:
    """Fill the empty slots of lists (B, K) in place with random items that have ratings."""
    rated = np.flatnonzero(counts[queries])
    lists = neighbors[rated]
    fill = _home(neighbors, backend).twin(hamming.fill_at_random)
    n_filled = fill(lists, np.flatnonzero(counts), queries[rated], item_keys, np.uint64(seed))
    neighbors[rated] = lists
    return Ranking(neighbors, n_filled / max(1, int(np.count_nonzero(lists >= 0))))


def outdated(
    neighbors: NDArray[np.int32],
    owners: NDArray[np.integer],
    changed: NDArray[np.integer],
    packed: NDArray[np.uint64],
    counts: NDArray[np.int64],
    backend: Backend = HOST,
) -> NDArray[np.bool_]:
    """Which lists a new `top_k` could change after items got new signatures; all other lists are still exact.

    A list is outdated if its owner or a member changed, or if a changed item now ranks before its last member.

    Args:
        neighbors: int32 (B, K), exact before the change.
        owners: item rows that the lists belong to, (B,).
        changed: item rows whose signature is new, or that have gained their first or lost their last rating.
        packed, counts: signatures and numbers of ratings after the change, (I, W) and (I,).

    Returns:
        bool (B,). It compares at most B·|changed| pairs.
    """
    stale: NDArray[np.bool_] = _home(packed, backend).twin(hamming.outdated)(
        neighbors, owners.astype(np.int64), changed.astype(np.int64), packed, counts > 0
    )
    return stale


def _home(array: NDArray[Any], backend: Backend) -> Backend:
    """The backend whose memory has `array`."""
    return HOST if isinstance(array, np.ndarray) else backend


def _no_ranks(packed: NDArray[np.uint64], n: int, k: int) -> NDArray[np.int64]:
    """Empty lists (n, k) of rank keys, in the memory of `packed`."""
    return np.full_like(packed, -1, dtype=np.int64, shape=(n, k))
