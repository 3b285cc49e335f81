"""LensKit: alternating least squares for ratings and for implicit feedback."""

from __future__ import annotations

import importlib
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.contract import ESTIMATES, LISTS, SEED, Facts, Fitted, Peer, Problem, Settings, rounded

DEFAULT_EPOCHS = 10  # the library's default; `_train` calls its trainer once per epoch


def biased_grid(facts: Facts) -> list[Settings]:
    """7 λ × 2 dampings of the biases; λ is weighted by counts and grows with the scale of the ratings."""
    return [
        {"embedding_size": 50, "epochs": 15, "regularization": rounded(times * facts.std), "damping": damping}
        for times in (0.03, 0.06, 0.09, 0.13, 0.2, 0.4, 0.8)
        for damping in (5.0, 15.0)
    ]


def implicit_grid(facts: Facts) -> list[Settings]:
    """3 weights × 4 λ; every pair has the same weight, which is the default. λ is the same for every row."""
    center = facts.density**-0.5
    return [
        {"embedding_size": 64, "epochs": 10, "weight": rounded(center * times), "regularization": ridge}
        for times in (1 / 4, 1, 4)
        for ridge in (0.5, 5.0, 20.0, 80.0)
    ]


def fit_biased(problem: Problem, settings: Settings) -> Fitted:
    """`BiasedMFScorer`. Users and items without ratings get neither bias nor factors, as in the library's fallback."""
    als = importlib.import_module("lenskit.als")
    scorer = als.BiasedMFScorer(**settings)
    seconds = _train(scorer, problem, settings)
    users, items = _factors(scorer, problem.shape)
    user_bias = _spread(scorer.bias.user_biases, scorer.users, problem.shape[0])
    item_bias = _spread(scorer.bias.item_biases, scorer.items, problem.shape[1])
    u, i = problem.test_users, problem.test_items
    products = np.einsum("nf,nf->n", users[u], items[i])
    return Fitted(seconds, {"estimates": scorer.bias.global_bias + user_bias[u] + item_bias[i] + products})


def fit_implicit(problem: Problem, settings: Settings) -> Fitted:
    """`ImplicitMFScorer`."""
    als = importlib.import_module("lenskit.als")
    scorer = als.ImplicitMFScorer(**settings)
    seconds = _train(scorer, problem, settings)
    users, items = _factors(scorer, problem.shape)
    return Fitted(seconds, {"user_factors": users, "item_factors": items})


def _train(scorer: Any, problem: Problem, settings: Settings) -> float:
    """Train, then solve the users again, because the library estimates with users solved against the final items."""
    data, training = importlib.import_module("lenskit.data"), importlib.import_module("lenskit.training")
    frame = importlib.import_module("pandas").DataFrame(
        {"user_id": problem.users, "item_id": problem.items, "rating": problem.values}
    )
    dataset = data.from_interactions_df(frame)
    began = time.perf_counter()
    trainer = scorer.create_trainer(dataset, training.TrainingOptions(rng=SEED))
    for _ in range(settings.get("epochs", DEFAULT_EPOCHS)):
        trainer.train_epoch()
    trainer.finalize()
    seconds = time.perf_counter() - began
    trainer.als_half_epoch(0, trainer.u_ctx)
    return seconds


def _factors(scorer: Any, shape: tuple[int, int]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    users = _spread(scorer.user_embeddings, scorer.users, shape[0])
    return users, _spread(scorer.item_embeddings, scorer.items, shape[1])


def _spread(rows: NDArray[Any], vocabulary: Any, n: int) -> NDArray[np.float32]:
    """An array of `n` rows with the library's rows at their ids and zeros elsewhere."""
    whole = np.zeros((n, *rows.shape[1:]), dtype=np.float32)
    whole[np.asarray(vocabulary.ids(), dtype=np.int64)] = rows
    return whole


PEERS = (
    Peer("LensKit BiasedMF", "lenskit", ESTIMATES, biased_grid, fit_biased),
    Peer("LensKit ImplicitMF", "lenskit", LISTS, implicit_grid, fit_implicit),
)
