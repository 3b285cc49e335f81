"""Counts the pairs of a test file that say less about a model than the others, and puts that into words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import gpu


def counts_of(train: gpu.Ratings, test: gpu.Ratings, n_users: int, n_items: int) -> dict[str, int]:
    """How many test pairs were trained on, and what the model does not know.

    Args:
        train, test: ratings with the same rows.
        n_users, n_items: rows that the model knows; later ones are of the test file alone.

    Returns:
        `trained_on`: pairs of `test` that are in `train`, too. `unknown_users` and `unknown_items`: those of `test`
        that the model does not know. `of_unknown`: pairs with one of them.
    """
    users, items, _ = test.coo()
    train_users, train_items, _ = train.coo()
    pairs = users.astype(np.int64) * test.n_items + items
    train_pairs = train_users.astype(np.int64) * test.n_items + train_items
    new_users, new_items = users >= n_users, items >= n_items
    return {
        "trained_on": int(np.isin(pairs, train_pairs).sum()),
        "unknown_users": len(np.unique(users[new_users])),
        "unknown_items": len(np.unique(items[new_items])),
        "of_unknown": int((new_users | new_items).sum()),
    }


def reason_of_nulls(result: Mapping[str, Any]) -> str | None:
    """Why figures of a result are not defined; None if all are."""
    names = [name for name, value in result.items() if isinstance(value, float) and math.isnan(value)]
    missing = dict.fromkeys("measures of lists" if "@" in name else name for name in names)
    if not missing:
        return None
    if not result["n_test"]:
        why = "the test file has no ratings"
    elif result["trained_on"] == result["n_test"]:
        why = "the model was trained on all test pairs, and items of the training are in no list"
    else:
        why = "no test pair is relevant and was not trained on"
    return f"no {', '.join(missing)}: {why}"


def comes_back(result: Mapping[str, Any]) -> bool:
    """Whether the lists of a result have what users had before."""
    return any(name.startswith("counts_ndcg@") for name in result)


def remarks(result: Mapping[str, Any]) -> list[str]:
    """What a reader of these figures has to know, in sentences."""
    sentences, n_test = [], f"{result['n_test']:,} test pairs"
    if n := result["trained_on"]:
        errors = ": their errors are too small" if "rmse" in result else ""
        rank = "they rank too, because users come back" if comes_back(result) else "they have no rank"
        sentences.append(f"the model was trained on {n:,} of {n_test}{errors}; {rank}")
    if n := result["of_unknown"]:
        unknown = f"{result['unknown_users']:,} users and {result['unknown_items']:,} items"
        sentences.append(f"{n:,} of {n_test} are of {unknown} that the model does not know: it gives averages there")
    if "reason" in result:
        sentences.append(result["reason"])
    return sentences
