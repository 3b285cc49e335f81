"""Exact top-N of any model: scores every item by eq. 1 of [004], applies masks, and returns the best in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import InvalidInput
from gpu.data.model import Model
from gpu.data.ratings import Rows, are_likes
from gpu.data.views import arrays_of
from gpu.ranking import host_estimate, host_lists, host_topn
from gpu.ranking.eligible import Eligible
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.requests import RankingRequests, Users
from gpu.ranking.weighted import heard

MAX_N = 1000  # items of a list
USERS_AT_ONCE = 8192  # users whose parameters and ratings are copied together
NO_ROWS = Rows(  # of one who has rated nothing
    np.zeros(1, dtype=np.int64),
    np.zeros(1, dtype=np.int64),
    np.zeros(0, dtype=np.int32),
    np.zeros(0, dtype=np.float32),
)


def users_of(model: Model, users: NDArray[np.integer]) -> Users:
    """The parameters of rows `users` (B,) of `model`."""
    return Users(model.user_factors[users], model.user_bias[users], model.user_baseline[users])


def rows_of(rows: Rows, users: NDArray[np.integer]) -> Rows:
    """The rows `users` (B,) of `rows`, over the same flat arrays."""
    return type(rows)(rows.starts[users], rows.lengths[users], rows.items, rows.values)


def recommend(
    index: ItemIndex,
    users: Users,
    rows: Rows,
    n: int,
    *,
    include_seen: bool = False,
    exclude: Sequence[NDArray[np.integer]] | None = None,
    candidates: Sequence[NDArray[np.integer] | None] | None = None,
    eligible: Sequence[Eligible | None] | None = None,
    offset: int = 0,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The `n` best items for each of B users, after the `offset` best; ties to the lower row.

    The lists are exact: no other item has a higher score. A score is eq. 1 of [004] in float32: the estimate before
    clipping, or log-odds if `Params.is_logit`. Explicit models deduct an amount for items with few ratings, and
    `ItemIndex.lift` may add one (`gpu.ranking.item_terms`). A user's answer has the same bits whatever else is in the
    batch. Host and device agree within rounding, so near ties may differ in order.

    Args:
        index: the model's items, laid out on a backend; `ItemIndex.hide` keeps items out of every list.
        users: parameters, see `users_of`.
        rows: their ratings, `Rows` of length B (`rows_of`).
        n: 1 to `MAX_N`.
        include_seen: whether items that the user has rated may appear.
        exclude: B arrays of item rows that must not appear.
        candidates: B arrays of the only item rows that may appear; None for all.
        eligible: B filters: items that may appear, and None for all. Users may share one object. An item must pass
            all of a user's conditions.

    Returns:
        int32 (B, n) item rows and float32 (B, n) scores; padded with −1 and −inf.

    Raises:
        InvalidInput: n or offset is out of range, or lengths differ.
    """
    n_users, n_items = len(users.biases), index.model.n_items
    if not 1 <= n <= MAX_N:
        raise InvalidInput(f"Invalid n: expected 1 to {MAX_N}, got {n}")
    if offset < 0:
        raise InvalidInput(f"Invalid offset: expected 0 or more, got {offset}")
    if len(rows.starts) != n_users:
        raise InvalidInput(f"Invalid length of rows: expected one per user ({n_users}), got {len(rows.starts)}")
    eligible, candidates = _one_condition(eligible, candidates, n_users)
    rows = heard(index.model, rows)
    has_candidates = np.zeros(n_users, dtype=np.bool_)
    if candidates is not None:
        has_candidates[:] = [allowed is not None for allowed in candidates]
    exclude_starts, excluded = _flat(exclude, n_users, n_items)
    candidate_starts, rows_allowed = _flat(candidates, n_users, n_items)
    requests = RankingRequests(
        factors=users.factors,
        biases=users.biases,
        baselines=users.baselines,
        starts=rows.starts,
        lengths=rows.lengths,
        items=rows.items,
        values=rows.values,
        exclude_starts=exclude_starts,
        excluded=excluded,
        candidate_starts=candidate_starts,
        candidates=rows_allowed,
        has_candidates=has_candidates,
        include_seen=include_seen,
    )
    width = min(offset + n, n_items)
    items, best = index.backend.twin(host_topn.rank)(index.ranked_items, requests, eligible, width)
    return _page(items, -1, offset, n), _page(best, -np.inf, offset, n)


def estimate(model: Model, users: Users, rows: Rows, items: NDArray[np.integer]) -> NDArray[np.float32]:
    """Estimated rating of each of n items by each of B users; computed on the host.

    The estimate of a pair has the same bits whatever else is in the call.

    Args:
        users, rows: as in `recommend`.
        items: (B, n) item rows; those below 0 are padding.

    Returns:
        float32 (B, n): a rating within `model.scale`; for implicit models the probability of a like, or a preference
        of 0 to 1. NaN for padding.
    """
    return _as_estimates(model, scores(model, users, rows, items))


def scores(model: Model, users: Users, rows: Rows, items: NDArray[np.integer]) -> NDArray[np.float64]:
    """Eq. 1 of [004] for each of n items by each of B users, float64 (B, n): what `estimate` clips; see there."""
    scores = np.empty(items.shape)
    host_estimate.score_pairs(users, heard(model, rows), items.astype(np.int64), arrays_of(model), scores)
    return scores


def scores_of_item(
    model: Model, item: int, users: NDArray[np.int64], rows_of_users: Callable[[NDArray[np.int64]], Rows]
) -> NDArray[np.float64]:
    """`scores` of one item by each of `users` (B,), float64 (B,).

    Args:
        rows_of_users: the ratings of some of them, for models whose scores need them.
    """
    found = np.empty(len(users))
    if not (model.neighbors.shape[1] or model.params.has_item_weights):
        # The same with the tables swapped: the item asks, and users are what it may get. Nothing is copied.
        one, arrays = np.array([item]), arrays_of(model)
        asking = Users(model.item_factors[one], model.item_bias[one], np.zeros(1, dtype=np.float32))
        swapped = arrays._replace(item_factors=arrays.user_factors, item_bias=arrays.user_bias)
        host_estimate.score_pairs(asking, NO_ROWS, users[None], swapped, found[None])
        return found
    for first in range(0, len(users), USERS_AT_ONCE):
        part = users[first : first + USERS_AT_ONCE]
        items = np.full((len(part), 1), item, dtype=np.int64)
        found[first : first + len(part)] = scores(model, users_of(model, part), rows_of_users(part), items)[:, 0]
    return found


def estimate_unknown(model: Model, users: Users) -> NDArray[np.float32]:
    """Estimated rating of an unknown item by each of B users: μ + b_i, as in `estimate`."""
    return _as_estimates(model, model.mean + users.biases)


def nobody(model: Model) -> Users:
    """Parameters of one unknown user: zeros."""
    return Users(np.zeros((1, model.params.width), dtype=np.float32), *np.zeros((2, 1), dtype=np.float32))


def residuals_of(
    model: Model, items: NDArray[np.integer], values: NDArray[np.float32], baseline: float
) -> NDArray[np.float32]:
    """Residual of each rating in neighbor terms, float32 (B,).

    It is r − b_ij with the fixed baselines; for implicit models 1 for a like, −1 for a dislike.
    """
    if model.is_implicit:
        return np.where(are_likes(values, model.middle, model.lift), np.float32(1), np.float32(-1))
    expected = np.float32(model.mean) + model.item_baseline[items] + np.float32(baseline)
    residuals: NDArray[np.float32] = np.subtract(np.clip(values, *model.learned_scale), expected, dtype=np.float32)
    return residuals


def similar(
    factors: NDArray[np.float32], row: int, n: int, allowed: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The rows of `factors` (R, F) with the largest cosine to `row`, best first; ties to the lower row. On the host.

    Args:
        n: rows to return, at most.
        allowed: bool (R,), rows that may appear. Rows of zeros have no direction and never appear.

    Returns:
        int32 rows and float32 cosines, at most n.
    """
    found = np.empty(len(factors), dtype=np.float32)
    cosines(factors, direction(factors, np.array([row])), found)
    return others(found, row, n, allowed)


class Direction(NamedTuple):
    """What a mean of cosines to several vectors is computed by.

    Attributes:
        vector: float32 (F,), the mean of the vectors, each divided by its length; or the one vector as it is.
        length: of the mean; 1 for one vector.
    """

    vector: NDArray[np.float32]
    length: np.float32


def direction(factors: NDArray[np.float32], rows: NDArray[np.integer]) -> Direction:
    """The direction of distinct `rows` of `factors`. Rows of zeros have none, and do not count for it."""
    chosen = factors[rows[factors[rows].any(axis=1)]]
    if len(chosen) == 1:
        return Direction(chosen[0], np.float32(1))
    normalized = chosen / np.linalg.norm(chosen.astype(np.float64), axis=1)[:, None]
    mean = (normalized.sum(axis=0) / max(len(chosen), 1)).astype(np.float32)
    return Direction(mean, np.float32(np.linalg.norm(mean)))


def cosines(factors: NDArray[np.float32], towards: Direction, found: NDArray[np.float32]) -> None:
    """Write the mean cosine of each row of `factors` (R, F) to `found` (R,); −inf for rows of zeros.

    All are −inf if there is no direction.
    """
    if not towards.vector.any():
        found[:] = -np.inf
        return
    host_lists.cosines(factors, towards.vector, found)
    found *= towards.length


def others(
    scores: NDArray[np.float32], rows: int | NDArray[np.integer], n: int, allowed: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The rows with the highest `scores` (R,), without `rows`, as in `similar`; overwrites `scores`."""
    unfit = ~allowed
    unfit[rows] = True
    best = np.empty(min(n, len(scores)), dtype=np.float32)
    listed = np.empty(len(best), dtype=np.int32)
    host_lists.best_of_all(scores, unfit, best, listed)
    return listed[listed >= 0], best[listed >= 0]


def _as_estimates(model: Model, scores: NDArray[np.floating]) -> NDArray[np.float32]:
    if model.params.is_logit:
        scores = 1 / (1 + np.exp(-scores))
    bounded: NDArray[np.float32] = np.clip(scores, *model.scale).astype(np.float32)
    return bounded


def _one_condition(
    eligible: Sequence[Eligible | None] | None, candidates: Sequence[NDArray[np.integer] | None] | None, n_users: int
) -> tuple[Sequence[Eligible | None], Sequence[NDArray[np.integer] | None] | None]:
    """Filters of users without candidates, and the eligible candidates of the others."""
    if eligible is None:
        return [None] * n_users, candidates
    if len(eligible) != n_users:
        raise InvalidInput(f"Invalid length of eligible: expected one per user ({n_users}), got {len(eligible)}")
    if candidates is None:
        return eligible, None
    pairs = list(zip(eligible, candidates, strict=True))
    filters = [one if rows is None else None for one, rows in pairs]
    return filters, [rows if one is None or rows is None else one.among(rows) for one, rows in pairs]


def _flat(
    lists: Sequence[NDArray[np.integer] | None] | None, n_users: int, n_items: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(starts, ascending distinct rows below `n_items`) of one list per user; empty for users without a list."""
    starts = np.zeros(n_users + 1, dtype=np.int64)
    if lists is None:
        return starts, np.zeros(0, dtype=np.int64)
    unique = [np.zeros(0, dtype=np.int64) if rows is None else np.unique(rows).astype(np.int64) for rows in lists]
    unique = [rows[: np.searchsorted(rows, n_items)] for rows in unique]
    starts[1:] = np.cumsum([len(rows) for rows in unique])
    return starts, np.concatenate(unique) if unique else np.zeros(0, dtype=np.int64)


def _page(ranked: NDArray[Any], padding: float, offset: int, n: int) -> NDArray[Any]:
    page = ranked[:, offset : offset + n]
    if page.shape[1] == n:
        return page
    return np.pad(page, ((0, 0), (0, n - page.shape[1])), constant_values=padding)
