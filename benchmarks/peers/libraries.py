"""The models of other libraries, with the grids that their best settings are chosen from."""

from __future__ import annotations

import functools
import os
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import ESTIMATES, FACTORS, LISTS, SEED, Facts, Fitted, Peer, Problem, Settings, product, rounded

LENSKIT_EPOCHS = 10  # the library's default; `_train` calls its trainer once per epoch
NMF_ITERATIONS = 100
DENSE_FROM = 0.15  # least share of entries for a dense matrix


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _matrix(problem: Problem) -> Any:
    pairs = problem.users, problem.items
    return import_module("scipy.sparse").csr_matrix((problem.values, pairs), shape=problem.shape)


# --- scikit-surprise: matrix factorization by SGD, and biases alone


def _svd_grid(facts: Facts) -> list[Settings]:
    """λ is proportional to the scale, the step inversely."""
    ridges = [rounded(ridge * facts.std) for ridge in (0.02, 0.05, 0.1, 0.2, 0.4)]
    steps = [rounded(step / facts.std) for step in (0.003, 0.008)]
    return product(n_epochs=(20, 60), reg_all=ridges, lr_all=steps)


def _baseline_grid(_: Facts) -> list[Settings]:
    """Priors of users and items, by alternating least squares; they do not depend on the scale."""
    options = product(method=["als"], n_epochs=[20], reg_u=(2, 5, 10, 20), reg_i=(1, 3, 6, 12))
    return [{"bsl_options": one} for one in options]


def _surprise(problem: Problem, algorithm: Callable[[ModuleType], Any]) -> Fitted:
    surprise = import_module("surprise")
    scale = (float(problem.values.min()), float(problem.values.max()))
    triples = zip(problem.users.tolist(), problem.items.tolist(), problem.values.tolist(), strict=True)
    raw = [(user, item, value, None) for user, item, value in triples]
    trainset = surprise.Dataset(surprise.Reader(rating_scale=scale)).construct_trainset(raw)
    model = algorithm(surprise)
    seconds = _seconds(lambda: model.fit(trainset))
    pairs = zip(problem.test_users.tolist(), problem.test_items.tolist(), strict=True)
    return seconds, {"estimates": np.array([model.predict(*pair).est for pair in pairs], dtype=np.float32)}


def _svd(problem: Problem, settings: Settings) -> Fitted:
    return _surprise(problem, lambda surprise: surprise.SVD(**settings, random_state=SEED))


def _baseline(problem: Problem, settings: Settings) -> Fitted:
    return _surprise(problem, lambda surprise: surprise.BaselineOnly(**settings, verbose=False))


# --- LIBMF, by its binding `libmf`: matrix factorization by SGD, without biases


def _libmf_grid(facts: Facts) -> list[Settings]:
    """The library divides ratings and λ by the standard deviation. Its L1 terms, on by default, are off."""
    fixed = {"lambda_p1": 0.0, "lambda_q1": 0.0, "eta": 0.05}
    ridges = [rounded(times * facts.std) for times in (0.02, 0.045, 0.09, 0.18, 0.36)]
    others = product(ridge=ridges, k=(16, 128), nr_iters=(20, 60))
    return [{**fixed, "lambda_p2": (ridge := one.pop("ridge")), "lambda_q2": ridge, **one} for one in others]


def _libmf(problem: Problem, settings: Settings) -> Fitted:
    """The library reads row numbers as float32, which is exact up to 2²⁴."""
    engine = import_module("libmf.mf").MF(**settings, nr_threads=int(os.environ["OMP_NUM_THREADS"]), quiet=True)
    triples = np.column_stack([problem.users, problem.items, problem.values]).astype(np.float32)
    seconds = _seconds(lambda: engine.fit(triples))
    pairs = np.stack([problem.test_users, problem.test_items]).T  # `predict` expects the layout of this transpose
    return seconds, {"estimates": engine.predict(pairs)}


# --- LensKit: alternating least squares for ratings and for implicit feedback


def _biased_grid(facts: Facts) -> list[Settings]:
    """λ is weighted by counts and grows with the scale of the ratings."""
    ridges = [rounded(times * facts.std) for times in (0.03, 0.06, 0.09, 0.13, 0.2, 0.4, 0.8)]
    return product(embedding_size=[50], epochs=[15], regularization=ridges, damping=(5.0, 15.0))


def _implicit_grid(facts: Facts) -> list[Settings]:
    """Every pair has the same weight, which is the default. λ is the same for every row."""
    weights = [rounded(facts.density**-0.5 * times) for times in (1 / 4, 1, 4)]
    return product(embedding_size=[64], epochs=[10], weight=weights, regularization=(0.5, 5.0, 20.0, 80.0))


def _biased(problem: Problem, settings: Settings) -> Fitted:
    """Users and items without ratings get neither bias nor factors, as in the library's fallback."""
    scorer = import_module("lenskit.als").BiasedMFScorer(**settings)
    seconds = _train(scorer, problem, settings)
    users, items = _factors(scorer, problem.shape)
    user_bias = _spread(scorer.bias.user_biases, scorer.users, problem.shape[0])
    item_bias = _spread(scorer.bias.item_biases, scorer.items, problem.shape[1])
    u, i = problem.test_users, problem.test_items
    products = np.einsum("nf,nf->n", users[u], items[i])
    return seconds, {"estimates": scorer.bias.global_bias + user_bias[u] + item_bias[i] + products}


def _implicit_mf(problem: Problem, settings: Settings) -> Fitted:
    scorer = import_module("lenskit.als").ImplicitMFScorer(**settings)
    seconds = _train(scorer, problem, settings)
    users, items = _factors(scorer, problem.shape)
    return seconds, {"user_factors": users, "item_factors": items}


def _train(scorer: Any, problem: Problem, settings: Settings) -> float:
    """Train, then solve the users again, because the library estimates with users solved against the final items."""
    data, training = import_module("lenskit.data"), import_module("lenskit.training")
    columns = {"user_id": problem.users, "item_id": problem.items, "rating": problem.values}
    dataset = data.from_interactions_df(import_module("pandas").DataFrame(columns))
    began = time.perf_counter()
    trainer = scorer.create_trainer(dataset, training.TrainingOptions(rng=SEED))
    for _ in range(settings.get("epochs", LENSKIT_EPOCHS)):
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


# --- implicit: alternating least squares for implicit feedback


def _als_grid(facts: Facts) -> list[Settings]:
    """The library's confidence is α·r for rated pairs and 1 for others; λ is the same for every row."""
    alphas = [rounded(times / (facts.mean * facts.density**0.5)) for times in (1 / 4, 1, 4)]
    return product(factors=[128], alpha=alphas, regularization=(0.5, 5.0, 20.0, 80.0))


def _als(problem: Problem, settings: Settings) -> Fitted:
    model = import_module("implicit.cpu.als").AlternatingLeastSquares(**settings, random_state=SEED)
    matrix = _matrix(problem)
    seconds = _seconds(lambda: model.fit(matrix, show_progress=False))
    return seconds, {"user_factors": model.user_factors, "item_factors": model.item_factors}


# --- scikit-learn: NMF by coordinate descent and by multiplicative updates, with the number of factors of ours


def _nmf_default(facts: Facts) -> Settings:
    return {"n_components": facts.n_factors}


def _nmf_grid(facts: Facts) -> list[Settings]:
    """The library's three initializations."""
    return product(n_components=[facts.n_factors], init=("nndsvda", "nndsvdar", "random"))


def _nmf(problem: Problem, settings: Settings, solver: str) -> Fitted:
    """W and H after all iterations, in float32."""
    decomposition, matrix = import_module("sklearn.decomposition"), _matrix(problem)
    matrix = matrix.toarray() if len(problem.values) >= DENSE_FROM * np.prod(problem.shape) else matrix
    model = decomposition.NMF(**settings, solver=solver, tol=0, max_iter=NMF_ITERATIONS, random_state=SEED)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about missing convergence
        W = model.fit_transform(matrix)
    return time.perf_counter() - began, {"W": W, "H": model.components_}


PEERS = (
    Peer("Surprise BaselineOnly", "scikit-surprise", ESTIMATES, _baseline_grid, _baseline),
    Peer("Surprise SVD", "scikit-surprise", ESTIMATES, _svd_grid, _svd),
    Peer("LIBMF", "libmf", ESTIMATES, _libmf_grid, _libmf),
    Peer("LensKit BiasedMF", "lenskit", ESTIMATES, _biased_grid, _biased),
    Peer("LensKit ImplicitMF", "lenskit", LISTS, _implicit_grid, _implicit_mf),
    Peer("implicit ALS", "implicit", LISTS, _als_grid, _als),
    *(
        Peer(
            f"scikit-learn {solver}", "scikit-learn", FACTORS, _nmf_grid, functools.partial(_nmf, solver=solver),
            _nmf_default,
        )
        for solver in ("cd", "mu")
    ),
)  # fmt: skip
