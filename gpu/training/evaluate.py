"""Evaluates a model: errors of estimates and ranks of held-out items; decides which pairs are held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import HOST, Backend
from gpu.data.baselines import shrunk_biases
from gpu.data.model import Model
from gpu.data.param_kinds import FactorParams
from gpu.data.ratings import Ratings, Rows
from gpu.data.views import Arrays, arrays_of
from gpu.ranking.item_terms import ItemTerms
from gpu.training.list_quality import Lists

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def predict(model: Model, rows: Rows, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.float32]:
    """Eq. 1 of [004] for each pair of user and item.

    Args:
        rows: ratings of each user (U rows), for the neighbor terms.
        users, items: rows, (B,). Fastest if the pairs of a user are consecutive.

    Returns:
        float32 (B,): estimates clipped to `model.error_scale`, or log-odds for implicit models.
    """
    scores = _scores(model, arrays_of(model), rows, users, items)
    return scores if model.is_implicit else np.clip(scores, *model.error_scale)


def rmse(
    model: Model, rows: Rows, users: NDArray[np.integer], items: NDArray[np.integer], values: NDArray[np.floating]
) -> float:
    """Root mean square error of `predict` against `values` (B,); NaN for no pairs."""
    return float(np.sqrt(_mean(squared_errors(model, rows, users, items, values))))


def squared_errors(
    model: Model, rows: Rows, users: NDArray[np.integer], items: NDArray[np.integer], values: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Squared error of `predict` against each of `values`, float64 (B,)."""
    errors: NDArray[np.float64] = predict(model, rows, users, items).astype(np.float64) - values
    return errors**2


def mae(
    model: Model, rows: Rows, users: NDArray[np.integer], items: NDArray[np.integer], values: NDArray[np.floating]
) -> float:
    """Mean absolute error of `predict` against `values` (B,); NaN for no pairs."""
    errors = predict(model, rows, users, items).astype(np.float64) - values
    return float(np.mean(np.abs(errors))) if len(errors) else float("nan")


def ranking(
    model: Model,
    rows: Rows,
    test: Ratings,
    relevant_from: float | None = None,
    k_ndcg: int = 10,
    k_recall: int = 20,
    *,
    backend: Backend = HOST,
) -> dict[str, float]:
    """`ndcg@k` and `recall@k` of the lists of all users with a relevant item, each the mean over these users; NaN
    without such users. See `Lists`, also for the arguments.
    """
    lists = Lists.of(model, rows, test, relevant_from, max(k_ndcg, k_recall), backend)
    return {
        f"ndcg@{k_ndcg}": _mean(lists.of_users("ndcg", k_ndcg)),
        f"recall@{k_recall}": _mean(lists.of_users("recall", k_recall)),
    }


def ndcgs(model: Model, rows: Rows, test: Ratings, k: int = 10, *, backend: Backend = HOST) -> NDArray[np.float64]:
    """NDCG as in `ranking` of each user with a relevant item, float64 (B,), in the order of users."""
    return Lists.of(model, rows, test, None, k, backend).of_users("ndcg", k)


def sampled_ranking(
    model: Model,
    rows: Rows,
    positives: NDArray[np.integer],
    negatives: NDArray[np.integer],
    k: int = 10,
    lifts: NDArray[np.float32] | None = None,
) -> dict[str, float]:
    """Leave-one-out: the rank of each user's held-out item among given negatives, in the order of lists.

    Args:
        rows: training ratings by user.
        positives: (U,) held-out item of each user.
        negatives: (U, n) competing items; one that equals the positive is dropped, and a tie counts half a rank.
        lifts: added to the scores of items, (at most I,).

    Returns:
        `hr@k`: share of users whose rank, from 0, is below k. `ndcg@k`: mean of ln 2 / ln(rank + 2) of those.
    """
    n_users, n_negatives = negatives.shape
    users = np.repeat(np.arange(n_users), n_negatives + 1)
    items = np.column_stack([positives, negatives])
    terms = ItemTerms(model)
    if lifts is not None:
        terms.lift(np.arange(len(lifts)), lifts)
    as_listed = terms.biases(model, np.arange(model.n_items))
    arrays = arrays_of(model)._replace(item_bias=as_listed)
    scores = _scores(model, arrays, rows, users, items.ravel()).reshape(items.shape)
    competes = negatives != positives[:, None]
    above = (scores[:, 1:] > scores[:, :1]) & competes
    level = (scores[:, 1:] == scores[:, :1]) & competes
    ranks = above.sum(axis=1) + level.sum(axis=1) / 2
    gains = np.where(ranks < k, np.log(2) / np.log(ranks + 2), 0.0)
    return {f"hr@{k}": float(np.mean(ranks < k)), f"ndcg@{k}": float(gains.mean())}


@dataclass(frozen=True)
class Popularity(FactorParams):
    """What `baseline` says of itself beside implicit models. Nothing trains with it."""

    algorithm: ClassVar[str] = "popularity"
    is_implicit: ClassVar[bool] = True


@dataclass(frozen=True)
class Means(FactorParams):
    """What `baseline` says of itself beside explicit models. Nothing trains with it."""

    algorithm: ClassVar[str] = "means"


def baseline(ratings: Ratings, *, is_implicit: bool) -> Model:
    """A model without factors that trained models must beat.

    Implicit: popularity, the number of ratings of each item. Explicit: `shrunk_biases`.
    """
    shape = ratings.n_users, ratings.n_items
    if is_implicit:
        model = Model.zeros(Popularity(n_factors=4), 0.0, (0.0, 1.0), *shape)
        model.item_bias[:] = ratings.by_item.lengths
        return model
    biases = shrunk_biases(ratings)
    model = Model.zeros(Means(n_factors=1), biases.mean, ratings.scale, *shape)
    model.user_bias[:], model.item_bias[:] = biases.user, biases.item
    return model


def is_held_out(user_keys: NDArray[np.uint64], item_keys: NDArray[np.uint64], modulus: int = 20) -> NDArray[np.bool_]:
    """Whether each pair (B,) is held out: 1 / `modulus` of all pairs compare models and never train them.

    The result depends only on the two keys, so every training of every model holds out the same pairs.
    """
    pair = _mixed(_mixed(user_keys + _GOLDEN) ^ item_keys)
    held_out: NDArray[np.bool_] = pair % np.uint64(modulus) == 0
    return held_out


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(30))) * _MIX_1
    words = (words ^ (words >> np.uint64(27))) * _MIX_2
    return words ^ (words >> np.uint64(31))


def _scores(
    model: Model, arrays: Arrays, rows: Rows, users: NDArray[np.integer], items: NDArray[np.integer]
) -> NDArray[np.float32]:
    """Eq. 1 for each pair, float32 (B,)."""
    from gpu.ranking import host_estimate, weighted  # noqa: PLC0415 - `import gpu` loads no kernel

    scores, rows = np.empty(len(users), dtype=np.float32), weighted.heard(model, rows)
    host_estimate.predict(rows, users.astype(np.int32), items.astype(np.int32), arrays, scores)
    return scores


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")
