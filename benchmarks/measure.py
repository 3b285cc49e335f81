"""The metrics of a fit, computed by the same code for our algorithms, for peers and for trivial methods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.datasets import Fold
from benchmarks.nmf import relative_error
from benchmarks.peers.contract import ESTIMATES, FACTORS, LISTS
from gpu.params import params_for

# Task -> metrics; the first one ranks fits.
METRICS = {ESTIMATES: ("rmse",), LISTS: ("ndcg@10", "recall@20"), FACTORS: ("relative_error",)}
IS_MORE_BETTER = {ESTIMATES: False, LISTS: True, FACTORS: False}

Metrics = dict[str, float]


def of_arrays(task: str, fold: Fold, arrays: dict[str, NDArray[Any]]) -> Metrics:
    """The metrics of the arrays of a `peers.contract.Fitted`."""
    if task == ESTIMATES:
        return {"rmse": rmse(fold, arrays["estimates"])}
    if task == LISTS:
        return ranks(fold, model_of(arrays["user_factors"], arrays["item_factors"]))
    return {"relative_error": relative_error(plain_matrix(fold.train), arrays["W"], arrays["H"])}


def rmse(fold: Fold, estimates: NDArray[Any]) -> float:
    """RMSE of estimates in the order of `test.coo()`, clipped to the scale of the training ratings."""
    errors = np.clip(estimates.astype(np.float64), *fold.train.scale) - fold.test.coo()[2]
    return float(np.sqrt(np.mean(errors**2)))


def ranks(fold: Fold, model: gpu.Model) -> Metrics:
    """NDCG@10 and Recall@20: every test pair is relevant, every item without a training rating is ranked."""
    return gpu.evaluate.ranking(model, fold.train.by_user, fold.test)


def model_of(user_factors: NDArray[Any], item_factors: NDArray[Any]) -> gpu.Model:
    """A model whose scores are the products of factors (U, F) and (I, F)."""
    params = params_for("sgd", {"n_factors": user_factors.shape[1]})
    model = gpu.Model.zeros(params, 0.0, (-math.inf, math.inf), len(user_factors), len(item_factors))
    model.user_factors[:], model.item_factors[:] = user_factors, item_factors
    return model


def plain_matrix(ratings: gpu.Ratings) -> Any:
    """A sparse float32 matrix (U, I); unrated pairs are 0."""
    from scipy import sparse  # noqa: PLC0415 - only factorizations need it

    users, items, values = ratings.coo()
    return sparse.csr_matrix((values, (users, items)), shape=(ratings.n_users, ratings.n_items))


def nothing(task: str) -> Metrics:
    """The metrics of a fit that failed."""
    return dict.fromkeys(METRICS[task], math.nan)


def is_better(task: str, one: Metrics, other: Metrics) -> bool:
    """Whether `one` is better by the task's first metric; NaN is never better."""
    value, rival = one[METRICS[task][0]], other[METRICS[task][0]]
    if math.isnan(rival) or math.isnan(value):
        return math.isnan(rival) and not math.isnan(value)
    return value > rival if IS_MORE_BETTER[task] else value < rival
