"""Real ratings for tests and measurements, where they are at hand; they are never part of the repository."""

import os
from pathlib import Path

import numpy as np
import pytest

from gpu.data.decay import Times
from gpu.data.ratings import Ratings

DATA = Path(os.environ.get("NEARFIELD_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
ML_1M = DATA / "ml-1m" / "ratings.csv"
ML_100K = DATA / "ml-100k" / "u.data"

needs_ml_1m = pytest.mark.skipif(not ML_1M.is_file(), reason=f"MovieLens-1M is not at {ML_1M}")
needs_ml_100k = pytest.mark.skipif(not ML_100K.is_file(), reason=f"MovieLens-100K is not at {ML_100K}")


def planted(n_users: int = 300, n_items: int = 120, per_user: int = 40, noise: float = 0.3, seed: int = 0) -> Ratings:
    """Ratings of 1 to 5 from a planted rank-3 model with biases: something that can really be learned."""
    generator = np.random.default_rng(seed)
    users = np.repeat(np.arange(n_users), per_user)
    items = generator.permuted(np.tile(np.arange(n_items), (n_users, 1)), axis=1)[:, :per_user].ravel()
    taste, trait = generator.standard_normal((n_users, 3)), generator.standard_normal((n_items, 3))
    bias = 0.4 * generator.standard_normal(n_users)[users] + 0.4 * generator.standard_normal(n_items)[items]
    exact = 3.0 + bias + 0.6 * np.einsum("nf,nf->n", taste[users], trait[items])
    values = np.clip(exact + noise * generator.standard_normal(len(users)), 1, 5)
    return Ratings.from_coo(users, items, values, (n_users, n_items))


def times_of(ratings: Ratings) -> Times:
    """Times for `ratings`, a second after each other in the order of their rows."""
    return Times(np.arange(len(ratings), dtype=np.float64), float(len(ratings)))


def split(ratings: Ratings, fraction: float = 0.1, seed: int = 42) -> tuple[Ratings, Ratings]:
    """(training, test): the first `fraction` of a seeded permutation of the stored ratings is the test set."""
    in_test = np.zeros(len(ratings), dtype=np.bool_)
    in_test[np.random.default_rng(seed).permutation(len(ratings))[: round(fraction * len(ratings))]] = True
    return ratings.where(~in_test), ratings.where(in_test)
