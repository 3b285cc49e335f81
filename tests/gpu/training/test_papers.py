"""`calibration=none`: `gpu.fit` trains what the papers print. The oracles here are plain loops over their equations."""

import dataclasses
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpu
from gpu.algorithms import params_for
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.base.errors import InvalidParams, InvalidRatings, TrainingDiverged
from gpu.data.model import Model
from gpu.data.views import balanced_bounds
from gpu.descent import esgd
from gpu.descent import trainer as sgd
from gpu.descent.host import ImplicitBlocks
from gpu.descent.params import CulshImplicitParams, CulshParams, EsgdParams, SgdParams
from gpu.hashing import host_lsh as lsh
from gpu.nmf.params import NmfParams
from gpu.nmf.trainer import random_start
from gpu.online.model import HostModel
from tests.data import ML_100K, needs_ml_100k, planted, split
from tests.gpu.fitted import last_metrics
from tests.gpu.models import table_of

RATINGS = planted(n_users=40, n_items=25, per_user=12)
PAPER: dict[str, Any] = {"calibration": "none"}
LEARNED = "user_factors", "item_factors", "user_bias", "item_bias", "explicit_weights", "implicit_weights"

Matrix = dict[tuple[int, int], float]  # the rating of each rated pair


def matrix_of(ratings: gpu.Ratings) -> Matrix:
    return {(int(i), int(j)): float(r) for i, j, r in zip(*ratings.coo(), strict=True)}


def gap(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """The relative difference of two arrays, by their norms."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


# --- [000] -----------------------------------------------------------------------------------------------------------


def eq_2(matrix: Matrix, fixed: NDArray[Any], n_rows: int, ridge: float) -> NDArray[np.float64]:
    """(Σ_{v∈Ω_u} θ θᵀ + λ n I)⁻¹ Σ r θ for each row; `matrix` is (row, fixed row) -> rating."""
    n_factors = fixed.shape[1]
    solved = np.zeros((n_rows, n_factors))
    for row in range(n_rows):
        a, b = np.zeros((n_factors, n_factors)), np.zeros(n_factors)
        for (one, other), rating in matrix.items():
            if one == row:
                a += np.outer(fixed[other], fixed[other]) + ridge * np.eye(n_factors)
                b += rating * fixed[other]
        solved[row] = np.linalg.solve(a, b) if b.any() else b
    return solved


def weighted_lambda(matrix: Matrix, x: NDArray[Any], theta: NDArray[Any], ridge: float) -> float:
    """Eq. 1: Σ (r − xᵀθ)² + λ (Σ n |x|² + Σ n |θ|²)."""
    total = 0.0
    for (i, j), rating in matrix.items():
        total += (rating - x[i] @ theta[j]) ** 2 + ridge * (x[i] @ x[i] + theta[j] @ theta[j])
    return total


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
@pytest.mark.parametrize("scale", [1.0, 20.0, -3.0], ids=["stars", "percent", "negative"])
def test_als_ends_at_the_fixed_point_of_eq_2(solver: Any, scale: float) -> None:
    ratings = RATINGS.with_values(RATINGS.by_user.values * scale, RATINGS.by_item.values * scale)
    exact: dict[str, Any] = {"cg_tolerance": 1e-6} if solver == "cg" else {}
    params = AlsParams(n_factors=4, n_epochs=400, regularization=0.5, biases=False, solver=solver, **exact, **PAPER)
    model, matrix = gpu.fit(ratings, params), matrix_of(ratings)
    x, theta = model.user_factors.astype(float), model.item_factors.astype(float)
    turned = {(j, i): rating for (i, j), rating in matrix.items()}
    assert model.mean == 0
    assert not model.user_bias.any()
    assert gap(x, eq_2(matrix, theta, len(x), 0.5)) < 1e-5
    assert gap(theta, eq_2(turned, x, len(theta), 0.5)) < 1e-5


def test_every_epoch_of_als_has_the_same_ridge() -> None:
    """The tables after two epochs, from the start of the training: items first."""
    params = AlsParams(n_factors=4, n_epochs=2, regularization=0.1, biases=False, solver="cholesky", **PAPER)
    matrix = matrix_of(RATINGS)
    turned = {(j, i): rating for (i, j), rating in matrix.items()}
    x = np.random.default_rng(0).random((40, 4), dtype=np.float32).astype(float) * 0.2
    for _ in range(2):
        theta = eq_2(turned, x, 25, 0.1)
        x = eq_2(matrix, theta, 40, 0.1)
    model = gpu.fit(RATINGS, params)
    assert gap(model.user_factors, x) < 1e-4
    assert gap(model.item_factors, theta) < 1e-4


def test_the_loss_that_als_reports_is_eq_1() -> None:
    params = AlsParams(n_factors=4, n_epochs=3, regularization=0.1, biases=False, **PAPER)
    losses: list[float] = []
    model = gpu.fit(RATINGS, params, on_epoch=lambda report: losses.append(report.metrics["train_loss"]))
    expected = weighted_lambda(matrix_of(RATINGS), model.user_factors.astype(float), model.item_factors, 0.1)
    assert losses[-1] * len(RATINGS) == pytest.approx(expected, rel=1e-4)


def section_5_6(matrix: Matrix, fixed: NDArray[Any], n_rows: int, alpha: float, ridge: float, power: float) -> Any:
    """The minimum of Σ c (p − xᵀθ)² + λ n^ν |x|² over all pairs, with p = [r > 0] and c = 1 + α r."""
    n_factors = fixed.shape[1]
    solved = np.zeros((n_rows, n_factors))
    for row in range(n_rows):
        a, b, n = np.zeros((n_factors, n_factors)), np.zeros(n_factors), 0
        for other in range(len(fixed)):
            rating = matrix.get((row, other), 0.0)
            preference, confidence = float(rating > 0), 1 + alpha * rating
            a += confidence * np.outer(fixed[other], fixed[other])
            b += confidence * preference * fixed[other]
            n += rating > 0
        solved[row] = np.linalg.solve(a + ridge * n**power * np.eye(n_factors), b) if n else b
    return solved


@pytest.mark.parametrize("power", [0.0, 1.0])
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_implicit_als_ends_at_the_minimum_of_section_5_6(power: float, scale: float) -> None:
    """The ridge is λ or λ n; ratings from 0 on, which stand for pairs without a rating."""
    stars = RATINGS.with_values(RATINGS.by_user.values - 1, RATINGS.by_item.values - 1)
    ratings = stars.with_values(stars.by_user.values * scale, stars.by_item.values * scale)
    params = AlsImplicitParams(
        n_factors=4, n_epochs=300, alpha=0.7, regularization=scale, regularization_exponent=power, solver="cholesky",
        **PAPER,
    )  # fmt: skip
    model, matrix = gpu.fit(ratings, params), matrix_of(ratings)
    x, theta = model.user_factors.astype(float), model.item_factors.astype(float)
    turned = {(j, i): rating for (i, j), rating in matrix.items()}
    assert 0 in matrix.values()
    assert gap(x, section_5_6(matrix, theta, len(x), 0.7, scale, power)) < 1e-5
    assert gap(theta, section_5_6(turned, x, len(theta), 0.7, scale, power)) < 1e-5


# --- [004] -----------------------------------------------------------------------------------------------------------


def visits(ratings: gpu.Ratings, seed: int, epoch: int) -> list[tuple[int, int, float]]:
    """The ratings in the order in which the host visits them: D groups of users meet D groups of items."""
    users, items = (balanced_bounds(rows.lengths, 8) for rows in (ratings.by_user, ratings.by_item))
    generator = np.random.default_rng((seed, epoch))
    orders = [first + generator.permutation(last - first) for first, last in pairwise(users)]
    found, matrix = [], matrix_of(ratings)
    for shift in generator.permutation(8):
        for group, order in enumerate(orders):
            low, high = items[(group + shift) % 8], items[(group + shift) % 8 + 1]
            found += [(i, j, matrix[i, j]) for i in order.tolist() for j in range(low, high) if (i, j) in matrix]
    return found


class Printed:
    """The model of eq. 1 in float64, plain means as its baselines, learned by eq. 5 with the steps of eq. 7."""

    def __init__(self, ratings: gpu.Ratings, params: SgdParams, start: Model) -> None:
        self.matrix, self.params = matrix_of(ratings), params
        self.u, self.v = (table.astype(float) for table in (start.user_factors, start.item_factors))
        self.mean = sum(self.matrix.values()) / len(self.matrix) if params.biases else 0.0
        rows: list[list[float]] = [[] for _ in self.u]
        columns: list[list[float]] = [[] for _ in self.v]
        for (i, j), rating in self.matrix.items():
            rows[i].append(rating)
            columns[j].append(rating)
        self.base_u, self.base_v = (
            np.array([sum(one) / len(one) - self.mean if one and params.biases else 0.0 for one in side])
            for side in (rows, columns)
        )
        self.b, self.c_hat = self.base_u.copy(), self.base_v.copy()
        self.near = start.neighbors
        self.w, self.c = np.zeros(self.near.shape), np.zeros(self.near.shape)

    def sets(self, i: int, j: int) -> tuple[list[int], list[int]]:
        """Places of R(i;j) and N(i;j) in the list of j."""
        known = [k for k, one in enumerate(self.near[j]) if one >= 0]
        rated = [k for k in known if (i, int(self.near[j, k])) in self.matrix]
        return rated, [k for k in known if k not in rated]

    def residual(self, i: int, j: int, k: int) -> float:
        if self.params.is_implicit:
            return 1.0
        other = int(self.near[j, k])
        return self.matrix[i, other] - self.mean - self.base_u[i] - self.base_v[other]

    def visit(self, i: int, j: int, target: float, step: float, weight_step: float) -> None:
        params, (rated, unrated) = self.params, self.sets(i, j)
        root_r, root_n = (len(places) ** -0.5 if places else 0.0 for places in (rated, unrated))
        estimate = self.mean + self.b[i] + self.c_hat[j] + self.u[i] @ self.v[j]
        estimate += root_r * sum(self.residual(i, j, k) * self.w[j, k] for k in rated)
        estimate += root_n * sum(self.c[j, k] for k in unrated)
        error = target - (1 / (1 + math.exp(-estimate)) if params.is_implicit else estimate)
        u, v = self.u[i].copy(), self.v[j].copy()
        self.u[i] += step * (error * v - params.regularization * u)
        self.v[j] += step * (error * u - params.regularization * v)
        if params.biases:
            self.b[i] += step * (error - params.bias_regularization * self.b[i])
            self.c_hat[j] += step * (error - params.bias_regularization * self.c_hat[j])
        decay = getattr(params, "weight_regularization", 0.0)
        for k in rated:
            self.w[j, k] += weight_step * (root_r * error * self.residual(i, j, k) - decay * self.w[j, k])
        for k in unrated:
            self.c[j, k] += weight_step * (root_n * error - decay * self.c[j, k])

    def train(self, samples_of: Any) -> None:
        for epoch in range(self.params.n_epochs):
            decay = 1 / (1 + self.params.learning_rate_decay * epoch**1.5)
            weight_step = getattr(self.params, "weight_learning_rate", 0.0) * decay
            for i, j, target in samples_of(epoch):
                self.visit(i, j, target, self.params.learning_rate * decay, weight_step)

    def gaps(self, model: Model) -> dict[str, float]:
        expected = dict(zip(LEARNED, (self.u, self.v, self.b, self.c_hat, self.w, self.c), strict=True))
        return {name: gap(getattr(model, name), table) for name, table in expected.items() if table.any()}


def start_of(params: SgdParams, neighbors: NDArray[np.int32]) -> Model:
    means = sgd.start_of_biases(RATINGS, params)
    start = sgd.start_model(RATINGS, params, *means)
    if neighbors.size:
        start.neighbors[:] = neighbors
    return start


@pytest.mark.parametrize("biases", [False, True])
def test_sgd_is_cusgd_as_printed(biases: bool) -> None:
    """The relative difference after 5 epochs is about 1e-6, that of float32."""
    params = SgdParams(
        n_factors=6,
        n_epochs=5,
        learning_rate=0.03,
        learning_rate_decay=0.3,
        regularization=0.05,
        biases=biases,
        **PAPER,
    )
    model = gpu.fit(RATINGS, params)
    printed = Printed(RATINGS, params, start_of(params, model.neighbors))
    printed.train(lambda epoch: visits(RATINGS, 0, epoch))
    found = printed.gaps(model)
    assert max(found.values()) < 1e-5, found
    assert len(found) == (4 if biases else 2)
    assert model.mean == pytest.approx(printed.mean)
    assert biases or not (model.user_bias.any() or model.item_bias.any())


def test_without_biases_users_and_items_learn_online_without_them() -> None:
    """The estimates of users that are refitted beside the same items stay as good as the trained ones."""
    params = SgdParams(n_factors=6, n_epochs=40, learning_rate=0.03, regularization=0.02, biases=False, **PAPER)
    model, (users, items, values) = gpu.fit(RATINGS, params), RATINGS.coo()
    trained = gpu.evaluate.rmse(model, RATINGS.by_user, users, items, values)
    matrix = np.full((40, 25), np.nan)
    matrix[users, items] = values
    model.item_trained[3] = False
    model.item_factors[3] = 0
    online = HostModel(model, table_of(matrix), RATINGS.user_keys, RATINGS.item_keys)
    online.touch(np.arange(40))
    assert online.settle()
    assert np.abs(model.user_bias).max() < 1e-6
    assert np.abs(model.item_bias).max() < 1e-6
    assert model.item_factors[3].any()
    assert gpu.evaluate.rmse(model, RATINGS.by_user, users, items, values) < 1.3 * trained


def test_culsh_learns_by_eq_1_5_and_7() -> None:
    params = CulshParams(
        n_factors=6, n_epochs=5, learning_rate=0.03, learning_rate_decay=0.3, n_neighbors=5, weight_learning_rate=0.02,
        regularization=0.04, weight_regularization=0.1, n_bits=256, **PAPER,
    )  # fmt: skip
    model = gpu.fit(RATINGS, params)
    printed = Printed(RATINGS, params, start_of(params, model.neighbors))
    printed.train(lambda epoch: visits(RATINGS, 0, epoch))
    found = printed.gaps(model)
    assert max(found.values()) < 1e-5, found
    assert len(found) == 6
    np.testing.assert_allclose(model.user_baseline, printed.base_u, rtol=1e-5, atol=1e-6)


def test_hashes_of_culsh_weigh_a_rating_by_its_square() -> None:
    """A_j = Σ r² Φ: 2 of 4 stars weigh a quarter, in steps of a 64th; calibrated ones count from below the scale."""
    users, items = np.arange(4), np.zeros(4, dtype=int)
    ratings = gpu.Ratings.from_coo(users, items, np.array([4.0, 2.0, 2.0, 4.0]))
    assert lsh.weights(ratings, None, CulshParams(**PAPER)).tolist() == [64, 16, 16, 64]
    assert lsh.weights(ratings, None, CulshParams()).tolist() != [64, 16, 16, 64]


def test_implicit_culsh_learns_likes_and_drawn_negatives() -> None:
    """Every rating is a like, whatever its value; μ is the log-odds of a like among the samples."""
    params = CulshImplicitParams(
        n_factors=6, n_epochs=4, learning_rate=0.1, n_neighbors=5, weight_learning_rate=0.02, n_negatives=4, n_bits=256,
        **PAPER,
    )  # fmt: skip
    model = gpu.fit(RATINGS, params)
    start = start_of(params, model.neighbors)
    printed = Printed(RATINGS, params, start)
    printed.mean = -math.log(4)
    for table in (printed.base_u, printed.base_v, printed.b, printed.c_hat):
        table[:] = 0
    blocks = ImplicitBlocks(RATINGS, params)
    users, items = (balanced_bounds(rows.lengths, 8) for rows in (RATINGS.by_user, RATINGS.by_item))

    def samples_of(epoch: int) -> list[tuple[int, int, float]]:
        samples, generator = blocks.samples(epoch), np.random.default_rng((0, epoch))
        orders = [first + generator.permutation(last - first) for first, last in pairwise(users)]
        found: list[tuple[int, int, float]] = []
        for shift in generator.permutation(8):
            for group, order in enumerate(orders):
                for i in order.tolist():
                    cell = slice(*samples.cuts[i, (group + shift) % 8 :][:2])
                    pairs = zip(samples.items[cell].tolist(), samples.targets[cell].tolist(), strict=True)
                    found += [(i, j, target) for j, target in pairs]
        assert len(items) == 9
        assert sum(target for *_, target in found) == len(RATINGS)
        assert len(found) == 5 * len(RATINGS)
        assert all((target == 1) == ((i, j) in printed.matrix) for i, j, target in found)
        return found

    printed.train(samples_of)
    found = printed.gaps(model)
    assert model.mean == pytest.approx(-math.log(4))
    assert max(found.values()) < 1e-5, found
    assert len(found) == 6


# --- [003] -----------------------------------------------------------------------------------------------------------


def test_esgd_learns_by_its_rules_from_plain_means() -> None:
    params = EsgdParams(
        n_factors=6, n_epochs=5, learning_rate=0.05, regularization=0.04, item_regularization=0.3, **PAPER
    )
    model, matrix = gpu.fit(RATINGS, params), matrix_of(RATINGS)
    mean = sum(matrix.values()) / len(matrix)
    b_u, b_i = np.zeros(40), np.zeros(25)
    for user in range(40):
        own = [rating - mean for (i, _), rating in matrix.items() if i == user]
        b_u[user] = sum(own) / len(own)
    for item in range(25):
        own = [rating - b_u[i] - mean for (i, j), rating in matrix.items() if j == item]
        b_i[item] = sum(own) / len(own)
    start, pairs = esgd.start_model(RATINGS, params), list(matrix.items())
    p, q = start.user_factors.astype(float), start.item_factors.astype(float)
    order = esgd.order_of(len(pairs), 0)
    n_chunks = -(-len(pairs) // 32)
    assert n_chunks <= 64, "one block"
    starts = [c * order.stride % n_chunks * 32 if c < n_chunks else len(pairs) for c in range(64)]
    for _ in range(5):
        for slot in order.visits.tolist():
            at = starts[slot // 32] + slot % 32
            if at >= len(pairs):
                continue
            (user, item), rating = pairs[at]
            old_p, old_q = p[user].copy(), q[item].copy()
            error = rating - mean - b_u[user] - b_i[item] - old_p @ old_q
            p[user] = old_p + 0.05 * (error * old_q - 0.04 * old_p)
            q[item] = old_q + 0.05 * (error * old_p - 0.3 * old_q)
    assert gap(model.user_bias, b_u) < 1e-5
    assert gap(model.item_bias, b_i) < 1e-5
    assert gap(model.user_factors, p) < 1e-5
    assert gap(model.item_factors, q) < 1e-5
    assert start.user_factors.min() >= 0, "uniform from 0 on"


def test_both_ridges_of_esgd_are_one_by_default() -> None:
    one = gpu.fit(RATINGS, EsgdParams(n_factors=6, regularization=0.3))
    other = gpu.fit(RATINGS, EsgdParams(n_factors=6, regularization=0.3, item_regularization=0.3))
    np.testing.assert_array_equal(one.item_factors, other.item_factors)


# --- [002] -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["plain", "tiled"])
def test_nmf_is_fast_hals_on_the_matrix_as_it_is(solver: Any) -> None:
    """One rating of 3,000 among stars stays; nothing is divided."""
    users, items, values = RATINGS.coo()
    values = np.where(np.arange(len(values)) == 7, np.float32(3000), values)
    ratings = gpu.Ratings.from_coo(users, items, values, (40, 25))
    params = NmfParams(n_factors=4, n_epochs=6, solver=solver, precision="float64", **PAPER)
    model, a = gpu.fit(ratings, params), np.zeros((40, 25))
    a[users, items] = values
    w, h = random_start((40, 25), float(a.mean()), params)
    h *= np.linalg.norm(w, axis=0)
    w, h = w / np.linalg.norm(w, axis=0), h.T

    def h_step() -> None:
        r, s = a.T @ w, w.T @ w
        for k in range(4):
            h[k] = np.maximum(1e-16, h[k] + r[:, k] - h.T @ s[:, k])

    h_step()
    for _ in range(6):
        p, q = a @ h.T, h @ h.T
        for k in range(4):
            w[:, k] = np.maximum(1e-16, w[:, k] * q[k, k] + p[:, k] - w @ q[:, k])
            w[:, k] /= np.linalg.norm(w[:, k])
        h_step()
    assert gap(model.user_factors, w) < 1e-5
    assert gap(model.item_factors, h.T) < 1e-5
    calibrated = gpu.fit(ratings, dataclasses.replace(params, calibration="data"))
    assert gap(calibrated.item_factors, h.T) > 0.1


# --- Clipping, and what does not go together -------------------------------------------------------------------------


def test_neither_ratings_nor_estimates_are_clipped() -> None:
    params = AlsParams(n_factors=4, n_epochs=3, biases=False, **PAPER)
    assert gpu.usable(gpu.Ratings.from_coo(np.arange(3), np.zeros(3, int), np.array([1, 2, 1e6])), params)[1] == 0
    train, test = split(RATINGS, 0.2)
    reported = last_metrics(train, test, params, gpu.HOST)["test_rmse"]
    model = gpu.fit(train, params)
    users, items, values = test.coo()
    plain = (model.user_factors[users] * model.item_factors[items]).sum(axis=1)
    assert (plain > model.scale[1]).any() or (plain < model.scale[0]).any()
    assert reported == pytest.approx(float(np.sqrt(np.mean((plain - values) ** 2))), rel=1e-5)
    assert gpu.evaluate.rmse(model, train.by_user, users, items, values) == pytest.approx(reported, rel=1e-5)


@pytest.mark.parametrize(
    ("algorithm", "given", "message"),
    [
        ("als-implicit", {}, "Invalid regularization: expected a number beside calibration=none.* got auto"),
        ("als-implicit", {"regularization": 1}, "Invalid alpha: expected a number beside calibration=none.* got auto"),
        ("als-implicit", {"values": "ratings"}, "Invalid values: expected auto or counts beside calibration=none, got"),
        ("als-implicit", {"confidence": "log"}, "Invalid confidence: expected auto or linear beside calibration=none"),
        ("als-implicit", {"event_weight": 2}, "Invalid event_weight: expected auto beside calibration=none, got 2$"),
        ("als-implicit", {"half_life_days": 9}, "Invalid half_life_days: expected auto beside calibration=none, got 9"),
        ("sgd", {"half_life_days": 30}, "Invalid half_life_days: expected auto beside calibration=none, got 30"),
        ("culsh", {"half_life_days": 30}, "Invalid half_life_days: expected auto beside calibration=none, got 30"),
        ("culsh", {"biases": False}, "Invalid biases"),
        ("culsh-implicit", {"values": "ratings"}, "Invalid values: expected auto or counts beside calibration=none"),
        ("sgd", {"biases": False, "bias_regularization": 0.5}, "Invalid bias_regularization: .* beside biases=false"),
        ("sgd", {"biases": False, "calibration": "data"}, "Invalid calibration: expected none beside biases=false"),
        ("als", {"solver": "cholesky", "n_cg_steps": 9}, "Invalid n_cg_steps: expected 6 beside solver=cholesky.* 9"),
        ("als", {"solver": "cholesky", "cg_tolerance": 0.1}, "Invalid cg_tolerance: .* beside solver=cholesky"),
        (
            "nmf",
            {"solver": "plain", "tile": 3},
            "Invalid tile: expected 0 beside solver=plain, which ignores it, got 3",
        ),
        ("als", {"half_life_days": 30}, "Invalid parameter of als: expected one of .* got 'half_life_days'"),
        ("esgd", {"half_life_days": 30}, "Invalid parameter of esgd: expected one of .* got 'half_life_days'"),
        ("culsh-implicit", {"half_life_days": 30}, "Invalid half_life_days: expected auto beside calibration=none"),
        ("culsh", {"similarity": "gsm", "n_bits": 640}, "Invalid n_bits: expected 2432 beside similarity=gsm, .* 640"),
        ("culsh", {"similarity": "random", "psi": "fourth"}, "Invalid psi: expected power beside similarity=random"),
        (
            "culsh",
            {"similarity": "minhash", "psi": "residual"},
            "Invalid psi: expected power beside similarity=minhash",
        ),
        ("culsh", {"similarity": "rp_cos", "psi": "linear"}, "Invalid psi: .* beside similarity=rp_cos, which ignores"),
        ("culsh", {"key_bits": 8}, "Invalid key_bits: expected 24 beside similarity=simlsh, which ignores it, got 8"),
        (
            "culsh",
            {"n_neighbors": 0, "similarity": "gsm"},
            "Invalid similarity: .* beside n_neighbors=0, which ignores",
        ),
        ("culsh", {"n_neighbors": 0, "weight_learning_rate": 0.1}, "Invalid weight_learning_rate: .* n_neighbors=0"),
        ("culsh-implicit", {"psi": "residual"}, "Invalid psi: expected power beside algorithm=culsh-implicit"),
        ("culsh-implicit", {"similarity": "gsm", "n_bits": 64}, "Invalid n_bits: .* beside similarity=gsm"),
        ("als", {"calibration": "maybe"}, "Invalid calibration: expected one of"),
        ("ease", {}, "Invalid parameter of ease"),
    ],
)
def test_what_the_paper_has_no_use_for_is_refused(algorithm: str, given: dict[str, Any], message: str) -> None:
    needs_both = algorithm == "als-implicit" and given and "regularization" not in given
    filled = {"alpha": 1.0, "regularization": 0.1} if needs_both else {}
    with pytest.raises(InvalidParams, match=message):
        params_for(algorithm, PAPER | filled | given)


@pytest.mark.parametrize(
    "params", [AlsImplicitParams(alpha=1, regularization=1, **PAPER), CulshImplicitParams(**PAPER)]
)
def test_implicit_algorithms_refuse_values_below_zero(params: gpu.Params) -> None:
    ratings = gpu.Ratings.from_coo(np.arange(2), np.arange(2), np.array([1.0, -2.0]))
    with pytest.raises(
        InvalidRatings, match="expected 0 or more beside calibration=none, got -2; use calibration=data"
    ):
        gpu.fit(ratings, params)


def test_nmf_refuses_values_below_zero_rather_than_raising_them() -> None:
    values = np.where(np.arange(2000) == 7, -1.0, 3.0)
    ratings = gpu.Ratings.from_coo(np.arange(2000) // 50, np.arange(2000) % 50, values)
    with pytest.raises(InvalidRatings, match="Invalid ratings for nmf: expected 0 or more, got -1"):
        gpu.fit(ratings, NmfParams(n_factors=4, n_epochs=1, solver="plain", **PAPER))
    assert gpu.fit(ratings, NmfParams(n_factors=4, n_epochs=1, solver="plain")).item_factors.any()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "params",
    [
        SgdParams(n_factors=6, learning_rate=0.05, **PAPER),
        SgdParams(n_factors=6, learning_rate=0.05, biases=False, **PAPER),
        CulshParams(n_factors=6, learning_rate=0.05, n_neighbors=4, n_bits=64, **PAPER),
        EsgdParams(n_factors=6, learning_rate=0.2, **PAPER),
    ],
    ids=["sgd", "cusgd", "culsh", "esgd"],
)
def test_steps_too_long_for_a_scale_name_the_calibration(params: Any, sign: int) -> None:
    """Ratings from 20 to 100, and from −100 to −20; steps that are a tenth as long, or a hundredth, do learn them."""
    percent = RATINGS.with_values(RATINGS.by_user.values * 20 * sign, RATINGS.by_item.values * 20 * sign)
    with pytest.raises(TrainingDiverged, match=r"lower learning_rate .* or use calibration=data"):
        gpu.fit(percent, params)
    shorter = dataclasses.replace(params, learning_rate=0.0005, n_epochs=300)
    assert last_metrics(percent, percent, shorter, gpu.HOST)["test_rmse"] < 15


@pytest.mark.parametrize(
    "params", [AlsImplicitParams(n_factors=4, alpha=1, regularization=1, **PAPER), CulshImplicitParams(**PAPER)]
)
def test_implicit_algorithms_learn_any_scale_from_zero_on(params: Any) -> None:
    percent = RATINGS.with_values(RATINGS.by_user.values * 25 - 25, RATINGS.by_item.values * 25 - 25)
    model = gpu.fit(percent, dataclasses.replace(params, n_epochs=3))
    assert percent.scale == (0.0, 100.0)
    assert np.isfinite(model.user_factors).all()


@needs_ml_100k
@pytest.mark.data
def test_als_has_the_error_of_the_paper_on_real_ratings() -> None:
    """Clipping, biases and a second λ lower it to .93; without them it is that of the plain objective, .970."""
    users, items, values, _ = np.loadtxt(ML_100K, dtype=np.int64).T
    train, test = split(gpu.Ratings.from_coo(users, items, values))
    params = AlsParams(n_factors=32, n_epochs=8, regularization=0.05, biases=False, **PAPER)
    assert last_metrics(train, test, params, gpu.HOST)["test_rmse"] == pytest.approx(0.970, abs=0.002)
