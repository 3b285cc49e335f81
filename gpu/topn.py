"""Exact top-N of any model: every item is scored by eq. 1 of [004], masks apply, the best come out in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.backend import HOST, Backend
from gpu.errors import InvalidInput
from gpu.item_index import ItemIndex
from gpu.model import Model
from gpu.ratings import Rows
from gpu.scoring import LANE, PANEL, Catalogue, Requests

MAX_N = 1000
PARALLEL_FROM = 2**28  # multiplications, ten milliseconds: on a busy machine, waking threads can cost as much
SCORES_BYTES = 2**25  # scores held at once; users beyond that follow in another block


class Users(NamedTuple):
    """Parameters of B users, whether they have rows in a model or are passing through.

    Attributes:
        factors: float32 (B, F).
        biases: float32 (B,).
        baselines: float32 (B,), b̄_i of the neighbour residuals r − (μ + b̄_i + b̄_j).
    """

    factors: NDArray[np.float32]
    biases: NDArray[np.float32]
    baselines: NDArray[np.float32]


def users_of(model: Model, users: NDArray[np.integer]) -> Users:
    """The parameters of rows `users` (B,) of `model`."""
    return Users(model.user_factors[users], model.user_bias[users], model.user_baseline[users])


def rows_of(rows: Rows, users: NDArray[np.integer]) -> Rows:
    """The rows `users` (B,) of `rows`, over the same flat arrays."""
    return Rows(rows.starts[users], rows.lengths[users], rows.items, rows.values)


def recommend(
    model: Model,
    users: Users,
    rows: Rows,
    n: int,
    *,
    hidden: NDArray[np.bool_],
    index: ItemIndex | None = None,
    include_seen: bool = False,
    exclude: Sequence[NDArray[np.integer]] | None = None,
    candidates: Sequence[NDArray[np.integer] | None] | None = None,
    offset: int = 0,
    backend: Backend = HOST,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The `n` best items for each of B users, after the `offset` best; ties to the lower row.

    Exact: all items are scored. A score is eq. 1 of [004], the estimate before clipping, or log-odds where
    `Params.is_logit`. Each user's answer is the same, bit for bit, whoever else is in the batch.

    Args:
        users: parameters, see `users_of`.
        rows: what they have rated, `Rows` of length B (`rows_of`).
        n: 1 to `MAX_N`.
        hidden: bool, at least (I,): items that never appear.
        index: the index of `model`, kept up to date. Default: built for this call.
        include_seen: whether items that the user has rated may appear.
        exclude: B arrays of item rows that must not appear.
        candidates: B arrays of the only item rows that may appear; None for all.

    Returns:
        int32 (B, n) item rows and float32 (B, n) scores; −1 and −inf where there are no more.

    Raises:
        InvalidInput: n or offset out of range, or lengths that do not fit.
    """
    n_users = len(users.biases)
    _check(model, n_users, n, offset, rows, hidden)
    catalogue = (index or ItemIndex(model, backend)).catalogue
    requests = Requests(
        _padded(users.factors, catalogue.panels.shape[1]), users.biases, users.baselines, *rows,
        *_flat(exclude, n_users), *_flat(candidates, n_users), _given(candidates, n_users), hidden, include_seen,
    )  # fmt: skip
    width = min(offset + n, model.n_items)
    best = np.empty((n_users, width), dtype=np.float32)
    items = np.empty((n_users, width), dtype=np.int32)
    _rank(requests, catalogue, best, items, backend)
    return _page(items, -1, offset, n), _page(best, -np.inf, offset, n)


def estimate(
    model: Model, users: Users, rows: Rows, items: NDArray[np.integer], *, backend: Backend = HOST
) -> NDArray[np.float32]:
    """What each of B users would give one item.

    Args:
        users, rows: as in `recommend`.
        items: (B,) item rows.

    Returns:
        float32 (B,): a rating within `model.scale`; implicit models: how likely one is, or a preference of 0 to 1.
    """
    scores, topn = np.empty(len(items)), backend.primitives("topn")
    for b, item in enumerate(items.tolist()):
        part = slice(rows.starts[b], rows.starts[b] + rows.lengths[b])
        residuals = residuals_of(model, rows.items[part], rows.values[part], float(users.baselines[b]))
        terms = topn.neighbour_terms(
            model.neighbours[item], model.explicit_weights[item], model.implicit_weights[item],
            rows.items[part], residuals,
        )  # fmt: skip
        score = model.mean + users.biases[b] + model.item_bias[item] + terms
        scores[b] = score + users.factors[b] @ model.item_factors[item]
    return _as_estimates(model, scores)


def estimate_unknown(model: Model, users: Users) -> NDArray[np.float32]:
    """What each of B users would give an item of which nothing is known: μ + b_i, as in `estimate`."""
    return _as_estimates(model, model.mean + users.biases)


def nobody(model: Model) -> Users:
    """Parameters of one user of whom nothing is known."""
    return Users(np.zeros((1, model.params.n_factors), dtype=np.float32), *np.zeros((2, 1), dtype=np.float32))


def residuals_of(
    model: Model, items: NDArray[np.integer], values: NDArray[np.float32], baseline: float
) -> NDArray[np.float32]:
    """What each rating contributes to neighbour terms: r − b_ij against the fixed baselines, 1 for implicit models."""
    if model.is_implicit:
        return np.ones(len(items), dtype=np.float32)
    known = np.float32(model.mean) + model.item_baseline[items] + np.float32(baseline)
    residuals: NDArray[np.float32] = np.subtract(values, known, dtype=np.float32)
    return residuals


def similar(
    factors: NDArray[np.float32], row: int, n: int, allowed: NDArray[np.bool_], *, backend: Backend = HOST
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The rows of `factors` (R, F) with the largest cosine to `row`, best first; ties to the lower row.

    Args:
        n: at most this many.
        allowed: bool (R,), rows that may appear. Rows of zeros have no direction and never do.

    Returns:
        int32 rows and float32 cosines, at most n.
    """
    norms = np.sqrt(np.einsum("rf,rf->r", factors, factors))
    if norms[row] == 0:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
    cosines = (factors @ factors[row]) / np.where(norms > 0, norms * norms[row], 1)
    unfit = ~allowed | (norms == 0)
    unfit[row] = True
    best = np.empty(min(n, len(factors)), dtype=np.float32)
    rows = np.empty(len(best), dtype=np.int32)
    backend.primitives("topn").best_of_all(cosines, unfit, best, rows)
    return rows[rows >= 0], best[rows >= 0]


def _as_estimates(model: Model, scores: NDArray[np.floating]) -> NDArray[np.float32]:
    if model.params.is_logit:
        scores = 1 / (1 + np.exp(-scores))
    bounded: NDArray[np.float32] = np.clip(scores, *model.scale).astype(np.float32)
    return bounded


def _rank(
    requests: Requests,
    catalogue: Catalogue,
    best: NDArray[np.float32],
    items: NDArray[np.int32],
    backend: Backend,
) -> None:
    topn = backend.primitives("topn")
    n_users, n_panels = len(best), len(catalogue.panels)
    row_size = max(n_panels, 1) * PANEL
    block = max(LANE, SCORES_BYTES // (4 * row_size) // LANE * LANE)
    for first in range(0, n_users, block):
        last = min(first + block, n_users)
        is_large = (last - first) * row_size * catalogue.panels.shape[1] >= PARALLEL_FROM
        (topn.rank_parallel if is_large else topn.rank)(first, last, requests, catalogue, best, items)


def _check(model: Model, n_users: int, n: int, offset: int, rows: Rows, hidden: NDArray[np.bool_]) -> None:
    if not 1 <= n <= MAX_N:
        raise InvalidInput(f"Invalid n: expected 1 to {MAX_N}, got {n}")
    if offset < 0:
        raise InvalidInput(f"Invalid offset: expected 0 or more, got {offset}")
    if len(rows.starts) != n_users:
        raise InvalidInput(f"Invalid length of rows: expected one per user ({n_users}), got {len(rows.starts)}")
    if len(hidden) < model.n_items:
        raise InvalidInput(f"Invalid length of hidden: expected at least {model.n_items}, got {len(hidden)}")


def _padded(factors: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    if factors.shape[1] == width:
        return np.ascontiguousarray(factors)
    return np.pad(factors, ((0, 0), (0, width - factors.shape[1])))


def _flat(
    lists: Sequence[NDArray[np.integer] | None] | None, n_users: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(starts, ascending distinct rows) of one list per user; empty where there is none."""
    starts = np.zeros(n_users + 1, dtype=np.int64)
    if lists is None:
        return starts, np.zeros(0, dtype=np.int64)
    unique = [np.zeros(0, dtype=np.int64) if rows is None else np.unique(rows).astype(np.int64) for rows in lists]
    starts[1:] = np.cumsum([len(rows) for rows in unique])
    return starts, np.concatenate(unique) if unique else np.zeros(0, dtype=np.int64)


def _given(lists: Sequence[NDArray[np.integer] | None] | None, n_users: int) -> NDArray[np.bool_]:
    if lists is None:
        return np.zeros(n_users, dtype=np.bool_)
    return np.array([rows is not None for rows in lists], dtype=np.bool_)


def _page(ranked: NDArray[Any], padding: float, offset: int, n: int) -> NDArray[Any]:
    page = ranked[:, offset : offset + n]
    if page.shape[1] == n:
        return page
    return np.pad(page, ((0, 0), (0, n - page.shape[1])), constant_values=padding)
