"""`Lists` of users whose later choices are known, and measures of how good they are.

Every item that a user has not rated competes. Items are in the order of lists: explicit models rank them below their
estimates (`gpu.ranking.item_terms`). Ties go to the lower row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.data.model import Model
from gpu.data.ratings import Ratings, Rows, are_likes

if TYPE_CHECKING:
    from gpu.ranking.item_index import ItemIndex

USERS_AT_ONCE = 2048
MEASURES = ("ndcg", "recall", "map", "mrr", "hit_rate")  # of each user
N_SAMPLES, CONFIDENCE = 1000, 0.95  # of a bootstrap, and of its interval
MOST_DRAWS = 50_000_000  # of a bootstrap: more users than make them in all samples get fewer samples
LEAST_SAMPLES = 100

Listing = Callable[[NDArray[np.int64], int], NDArray[np.int32]]  # rows of users (B,) and k -> rows of items (B, k)


class Lists(NamedTuple):
    """Lists of B users who have a relevant item, of k items each.

    Attributes:
        items: int32 (B, k) rows, the best first; −1 where a list is shorter.
        are_hits: bool (B, k), whether an item is relevant.
        n_relevant: int64 (B,), relevant items of each user, listed or not; at least 1.
    """

    items: NDArray[np.int32]
    are_hits: NDArray[np.bool_]
    n_relevant: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        model: Model,
        rows: Rows,
        test: Ratings,
        relevant_from: float | None,
        k: int,
        backend: Backend = HOST,
        index: ItemIndex | None = None,
        listing: Listing | None = None,
    ) -> Lists:
        """The lists of all users with a relevant item.

        Args:
            rows: training ratings by user; these items do not compete.
            test: held-out ratings, with the rows of the model. Pairs that are also in `rows` are ignored.
            relevant_from: smallest rating that makes a test item relevant. Default: every rating that is not a dislike
                for the model (`Calibration.middle`).
            k: items of a list.
            index: the items of `model`, which may have lifts. Default: laid out here.
            listing: gives lists in which the items of `rows` may be; these are relevant too then. Default: by `index`.
        """
        from gpu.ranking import item_index, topn  # noqa: PLC0415 - `import gpu` loads no kernel

        users, items, values = test.coo()
        likes = are_likes(values, model.middle, model.lift) if relevant_from is None else values >= relevant_from
        relevant = (users.astype(np.int64) << 32 | items)[likes]
        if listing is None:
            relevant = relevant[~_are_rated(rows, relevant)]
        ranked, firsts, n_relevant = np.unique(relevant >> 32, return_index=True, return_counts=True)
        listed, are_hits = np.full((len(ranked), k), -1, dtype=np.int32), np.zeros((len(ranked), k), dtype=np.bool_)
        index, bounds = index or item_index.ItemIndex(model, backend), np.append(firsts, len(relevant))
        for first in range(0, len(ranked), USERS_AT_ONCE):
            part = slice(first, min(first + USERS_AT_ONCE, len(ranked)))
            some = ranked[part]
            if listing is None:
                of_users, own = topn.users_of(model, some), topn.rows_of(rows, some)
                listed[part] = topn.recommend(index, of_users, own, k)[0]
            else:
                listed[part] = listing(some, k)
            pairs = some[:, None] << 32 | listed[part].astype(np.int64)
            are_hits[part] = np.isin(pairs, relevant[bounds[part.start] : bounds[part.stop]]) & (listed[part] >= 0)
        return cls(listed, are_hits, n_relevant)

    def of_users(self, measure: str, k: int) -> NDArray[np.float64]:
        """A measure of the first `k` items of each user, float64 (B,).

        `ndcg`: gain 1, discount 1 / log2(place + 1), ideal over min(k, relevant) items. `recall`: hits of all relevant
        items. `map`: the mean of the precision at each hit, over min(k, relevant) items. `mrr`: 1 / place of the first
        hit, 0 without one. `hit_rate`: whether there is a hit.
        """
        hits = self.are_hits[:, :k]
        places = np.arange(1, hits.shape[1] + 1)
        ideal = np.minimum(self.n_relevant, k)
        if measure == "ndcg":
            discounts = 1 / np.log2(places + 1)
            found = hits @ discounts / np.append(np.inf, np.cumsum(1 / np.log2(np.arange(1, k + 1) + 1)))[ideal]
        elif measure == "recall":
            found = hits.sum(axis=1) / self.n_relevant
        elif measure == "map":
            found = (hits * np.cumsum(hits, axis=1) / places).sum(axis=1) / ideal
        elif measure == "mrr":
            found = np.max(hits / places, axis=1, initial=0.0)
        else:
            found = hits.any(axis=1).astype(np.float64)
        return np.asarray(found, dtype=np.float64)

    def coverage(self, k: int, n_ratings: NDArray[np.integer]) -> float:
        """Share of the items with ratings that are in the first `k` places of a list; `n_ratings` (I,), of each."""
        listed = np.unique(self.items[:, :k])
        listed = listed[listed >= 0]
        return _share(int(np.count_nonzero(n_ratings[listed])), int(np.count_nonzero(n_ratings)))

    def popularity(self, k: int, n_ratings: NDArray[np.integer]) -> float:
        """Mean over the first `k` places of the share of items that have fewer ratings, those with as many counting
        half: .5 for items drawn at random, 1 for the one with the most.
        """
        counts = np.sort(n_ratings[n_ratings > 0])
        own = n_ratings[self.items[:, :k][self.items[:, :k] >= 0]]
        below = np.searchsorted(counts, own) + np.searchsorted(counts, own, side="right")
        return _share(below.sum() / 2, len(own) * len(counts))


def interval(values: NDArray[np.float64], seed: int = 0, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Bounds of the mean of `values` (B,), one of each of at least one user: the middle `confidence` of the means of
    samples of B users, drawn with replacement (bootstrap).
    """
    rng, n_samples = np.random.default_rng(seed), max(min(N_SAMPLES, MOST_DRAWS // len(values)), LEAST_SAMPLES)
    means = [values[rng.integers(0, len(values), len(values))].mean() for _ in range(n_samples)]
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _are_rated(rows: Rows, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which pairs (B,), users << 32 | items in ascending order, are in `rows`, whose items ascend."""
    users = np.unique(pairs >> 32)
    lengths = rows.lengths[users]
    positions = np.arange(lengths.sum()) + np.repeat(rows.starts[users] - (np.cumsum(lengths) - lengths), lengths)
    rated = np.repeat(users << 32, lengths) | rows.items[positions]
    found = np.searchsorted(rated, pairs)
    are_rated: NDArray[np.bool_] = found < len(rated)
    are_rated[are_rated] = rated[found[are_rated]] == pairs[are_rated]
    return are_rated


def _share(part: float, whole: float) -> float:
    return float(part) / whole if whole else float("nan")
