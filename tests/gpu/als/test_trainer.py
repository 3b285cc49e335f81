"""ALS: both half-iterations against the oracle, the loop, and refused input."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpu
from gpu.als import host, objective
from gpu.als import trainer as training
from gpu.als.objective import AlsObjective, Extent, problem_of, width
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.als.trainer import AlsTrainer
from gpu.base.backend import Backend
from gpu.base.errors import InvalidRatings, NotEnoughMemory, TrainingDiverged
from gpu.data.baselines import shrunk_biases
from gpu.data.calibration import calibrate, in_units
from gpu.data.ratings import Rows
from gpu.data.signals import NEUTRAL
from gpu.descent import trainer as sgd
from gpu.training.check import check_trained
from gpu.training.loop import EpochReport, train
from tests import reference
from tests.data import ML_1M, needs_ml_1m, planted, split
from tests.gpu.fitted import assert_equal_models, last_metrics, one_thread
from tests.gpu.twins import twin_of

LENGTHS = [0, 1, 15, 16, 17, 4096, 200_000]
# Three steps: after them float32 and float64 differ on every backend, until both reach the solution.
EXPLICIT = AlsObjective(8, True, False, 0.0, 3.5, 0.05, 1.0, 0.0, 3, 1e-4, "cg", "float32")
UNCENTERED = EXPLICIT._replace(biases=False, mean=0.0, prior=0.4)
IMPLICIT = AlsObjective(8, False, True, 2.0, 0.0, 0.1, 0.5, 0.3, 3, 1e-4, "cg", "float32")
KINDS = pytest.mark.parametrize("kind", [EXPLICIT, UNCENTERED, IMPLICIT], ids=["biases", "plain", "implicit"])
SOLVERS = pytest.mark.parametrize("solver", ["cg", "cholesky"])
PRECISIONS = pytest.mark.parametrize("precision", ["float32", "float16"])


def tolerance(backend: Backend, problem: AlsObjective) -> tuple[float, float]:
    """(median, worst) relative error of a row against float64 that the backend promises."""
    if backend.name == "host" or problem.precision == "float32":
        return 1e-5, 5e-5
    return 1e-2, 4e-2


def rows_of(lengths: list[int], n_columns: int, seed: int = 0) -> Rows:
    """Rows of these lengths, at random columns, ratings 1 to 5."""
    rng = np.random.default_rng(seed)
    items = [np.sort(rng.choice(n_columns, length, replace=False)) for length in lengths]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    values = rng.integers(1, 6, sum(lengths)).astype(np.float32)
    return Rows(starts, np.array(lengths, dtype=np.int64), np.concatenate(items).astype(np.int32), values)


def signed(rows: Rows, share: float = 0.4) -> Rows:
    """`rows` with about this share of their ratings below 0."""
    is_below = np.random.default_rng(3).random(len(rows.values)) < share
    return rows._replace(values=np.where(is_below, -rows.values, rows.values))


def table_of(n_rows: int, problem: AlsObjective, seed: int = 1) -> np.ndarray:
    """Parameters as a training has them: products of rows of about 1, biases included."""
    rng = np.random.default_rng(seed)
    scale = np.float32(problem.n_factors**-0.5)
    return rng.standard_normal((n_rows, width(problem)), dtype=np.float32) * scale + np.float32(0.3) * scale


def pairs(rows: Rows) -> list[tuple[np.ndarray, np.ndarray]]:
    spans = [slice(s, s + n) for s, n in zip(rows.starts, rows.lengths, strict=True)]
    return [(rows.items[span], rows.values[span]) for span in spans]


def near(rows: Rows, fixed: np.ndarray, problem: AlsObjective, seed: int = 2) -> np.ndarray:
    """A warm start: the solution, half of it noise; where there are no ratings, noise."""
    rng = np.random.default_rng(seed)
    exact = reference.als_half(
        pairs(rows), np.zeros((len(rows.starts), width(problem))), fixed, problem._replace(solver="cholesky")
    )
    size = np.linalg.norm(exact, axis=1, keepdims=True) + (rows.lengths == 0)[:, None]
    noise = rng.standard_normal(exact.shape) * size * exact.shape[1] ** -0.5
    return (exact + 0.5 * noise).astype(np.float32)


def half(backend: Backend, rows: Rows, start: np.ndarray, fixed: np.ndarray, problem: AlsObjective) -> np.ndarray:
    """`solve` on the backend, from host to host."""
    als = twin_of(host, backend)
    side = als.prepare(rows, len(fixed), problem)
    solved, still = als.load(start.copy(), problem), als.load(fixed, problem)
    als.solve(side, solved, still, problem)
    als.finish()
    return np.asarray(als.fetch(solved))


def assert_rows_agree(
    found: np.ndarray, expected: np.ndarray, allowed: tuple[float, float], exact: np.ndarray | None = None
) -> None:
    """Each row is as expected; or as in `exact`: a device solves short rows closer than by steps from their start."""
    assert np.isfinite(found).all()
    norms = np.linalg.norm(expected, axis=1)
    assert not found[norms == 0].any()
    if norms.any():
        distances = [np.linalg.norm(found - table, axis=1) for table in (expected, exact) if table is not None]
        errors = np.min(distances, axis=0)[norms > 0] / norms[norms > 0]
        assert (np.median(errors), errors.max()) <= allowed
        assert errors.max() <= allowed[1]


def skip_unless_used(backend: Backend, precision: str) -> None:
    if backend.name == "host" and precision == "float16":
        pytest.skip("the host computes in float32")


# --- one half-iteration ----------------------------------------------------------------------------------------------


@KINDS
@SOLVERS
@PRECISIONS
def test_rows_of_every_length_agree_with_the_oracle(
    kind: AlsObjective, solver: str, precision: str, backend: Backend
) -> None:
    skip_unless_used(backend, precision)
    problem = kind._replace(solver=solver, precision=precision)
    rows, fixed = rows_of(LENGTHS, 200_000), table_of(200_000, problem)
    start = near(rows, fixed, problem)
    expected = reference.als_half(pairs(rows), start, fixed, problem)
    assert_rows_agree(half(backend, rows, start, fixed, problem), expected, tolerance(backend, problem))


@KINDS
@SOLVERS
@given(
    n_factors=st.sampled_from([4, 5, 16, 31, 33]),
    lengths=st.lists(st.integers(0, 70), min_size=1, max_size=40),
    seed=st.integers(0, 99),
)
@settings(max_examples=20)
def test_random_shapes_agree_with_the_oracle(
    kind: AlsObjective, solver: str, backend: Backend, n_factors: int, lengths: list[int], seed: int
) -> None:
    # All steps: a residual at the tolerance may end a row one step earlier in float32 than in the oracle's float64.
    problem = kind._replace(solver=solver, n_factors=n_factors, cg_tolerance=0.0)
    rows, fixed = rows_of(lengths, 70, seed), table_of(70, problem, seed)
    start = near(rows, fixed, problem, seed)
    expected = reference.als_half(pairs(rows), start, fixed, problem)
    assert_rows_agree(half(backend, rows, start, fixed, problem), expected, tolerance(backend, problem))


@KINDS
@PRECISIONS
@pytest.mark.parametrize("n_factors", [4, 63, 100, 128, 256])
def test_every_number_of_factors(kind: AlsObjective, precision: str, n_factors: int, backend: Backend) -> None:
    skip_unless_used(backend, precision)
    problem = kind._replace(n_factors=n_factors, precision=precision)
    rows, fixed = rows_of([0, 1, 3, 40, 700, 1500], 1500), table_of(1500, problem)
    start = near(rows, fixed, problem)
    expected, exact = (
        reference.als_half(pairs(rows), start, fixed, problem._replace(solver=solver)) for solver in ("cg", "cholesky")
    )
    assert_rows_agree(half(backend, rows, start, fixed, problem), expected, tolerance(backend, problem), exact)


@KINDS
def test_factors_that_are_zero_change_nothing(kind: AlsObjective, backend: Backend) -> None:
    """What F is padded to inside does not show: more factors, all zero, leave the others as they are."""
    few, many = kind._replace(n_factors=20), kind._replace(n_factors=27)
    rows, fixed = rows_of([1, 30, 200], 300), table_of(300, few)
    start = near(rows, fixed, few)
    wide_fixed, wide_start = (np.insert(t, [20] * 7, 0, axis=1) for t in (fixed, start))
    found = half(backend, rows, wide_start, wide_fixed, many)
    assert not found[:, 20:27].any()
    np.testing.assert_allclose(
        np.delete(found, range(20, 27), axis=1), half(backend, rows, start, fixed, few), 1e-4, 1e-5
    )


@KINDS
@PRECISIONS
def test_six_steps_get_as_far_as_those_of_the_oracle(kind: AlsObjective, precision: str, backend: Backend) -> None:
    skip_unless_used(backend, precision)
    problem = kind._replace(n_cg_steps=6, cg_tolerance=0.0, n_factors=40, precision=precision)
    rows, fixed = rows_of([5, 30, 100, 600], 700), table_of(700, problem)
    start = near(rows, fixed, problem)
    found, expected = half(backend, rows, start, fixed, problem), reference.als_half(pairs(rows), start, fixed, problem)
    for x, row in enumerate(pairs(rows)):
        a, b = reference.als_system(*row, fixed, problem)
        errors = [y - np.linalg.solve(a, b) for y in (start[x], expected[x], found[x])]
        before, theirs, ours = (np.sqrt(e @ a @ e) for e in errors)  # what conjugate gradients minimize
        assert ours <= 1.5 * theirs + max(1e-3, tolerance(backend, problem)[1]) * before


@KINDS
def test_enough_steps_of_cg_are_as_good_as_cholesky(kind: AlsObjective, backend: Backend) -> None:
    rows, fixed = rows_of([1, 5, 30, 100, 400], 500), table_of(500, kind)
    start = table_of(5, kind, 2)
    steps = half(backend, rows, start, fixed, kind._replace(n_cg_steps=60, cg_tolerance=1e-6))
    exact = half(backend, rows, start, fixed, kind._replace(solver="cholesky"))
    np.testing.assert_allclose(steps, exact, rtol=1e-3, atol=1e-4)


@KINDS
def test_a_row_that_is_good_enough_already_is_left_alone(kind: AlsObjective, backend: Backend) -> None:
    rows, fixed = rows_of([5, 30, 100], 500), table_of(500, kind)
    start = table_of(3, kind, 2)
    np.testing.assert_array_equal(half(backend, rows, start, fixed, kind._replace(cg_tolerance=1e6)), start)


@KINDS
def test_what_was_in_the_output_does_not_stay(kind: AlsObjective, backend: Backend) -> None:
    rows, fixed = rows_of([0, 3, 0, 40, 0], 50), table_of(50, kind)
    start, poisoned = np.zeros((5, width(kind)), np.float32), np.full((5, width(kind)), np.nan, dtype=np.float32)
    exact = kind._replace(solver="cholesky")
    np.testing.assert_array_equal(half(backend, rows, poisoned, fixed, exact), half(backend, rows, start, fixed, exact))
    poisoned[[1, 3]] = 0  # where conjugate gradients start
    np.testing.assert_array_equal(half(backend, rows, poisoned, fixed, kind), half(backend, rows, start, fixed, kind))


@SOLVERS
def test_stored_zeros_add_nothing_to_implicit_rows(solver: str, backend: Backend) -> None:
    problem = IMPLICIT._replace(solver=solver, exponent=0.0)  # then ρ does not count them either
    rows, fixed = rows_of([40, 40], 60), table_of(60, IMPLICIT)
    start = table_of(2, problem, 2)
    rows.values[::3] = 0
    kept = rows.values > 0
    lengths = np.add.reduceat(kept, rows.starts).astype(np.int64)
    fewer = Rows(np.array([0, lengths[0]]), lengths, rows.items[kept], rows.values[kept])
    with_zeros = half(backend, rows, start, fixed, problem)
    np.testing.assert_allclose(with_zeros, half(backend, fewer, start, fixed, problem), rtol=1e-4, atol=1e-5)


@SOLVERS
@PRECISIONS
def test_dislikes_agree_with_the_oracle(solver: str, precision: str, backend: Backend) -> None:
    skip_unless_used(backend, precision)
    problem = IMPLICIT._replace(solver=solver, precision=precision)
    rows, fixed = signed(rows_of([0, 1, 2, 16, 40, 700, 9000], 9000)), table_of(9000, problem)
    assert (rows.values[rows.starts[3] :] < 0).any()
    start = near(rows, fixed, problem)
    expected = reference.als_half(pairs(rows), start, fixed, problem)
    assert_rows_agree(half(backend, rows, start, fixed, problem), expected, tolerance(backend, problem))


@SOLVERS
@PRECISIONS
def test_rows_with_dislikes_only_are_drawn_to_zero(solver: str, precision: str, backend: Backend) -> None:
    skip_unless_used(backend, precision)
    problem = IMPLICIT._replace(solver=solver, precision=precision)
    rows, fixed = signed(rows_of([1, 20, 400], 500), 1.0), table_of(500, problem)
    start = table_of(3, problem, 2)
    found, expected = half(backend, rows, start, fixed, problem), reference.als_half(pairs(rows), start, fixed, problem)
    sizes = np.linalg.norm(start, axis=1)
    assert (np.linalg.norm(found, axis=1) < 0.5 * sizes).all()
    assert (np.linalg.norm(found - expected, axis=1) < tolerance(backend, problem)[1] * sizes).all()


@KINDS
def test_rows_may_lie_anywhere_in_their_arrays(kind: AlsObjective, backend: Backend) -> None:
    """Rows with gaps between them and out of order, as a growing table holds them."""
    rows, fixed = rows_of([5, 30, 17], 60), table_of(60, kind)
    spread = Rows(np.array([70, 10, 45]), rows.lengths, np.zeros(80, np.int32), np.full(80, 3, np.float32))
    for (items, values), first in zip(pairs(rows), spread.starts, strict=True):
        spread.items[first : first + len(items)], spread.values[first : first + len(items)] = items, values
    start = table_of(3, kind, 2)
    np.testing.assert_array_equal(half(backend, spread, start, fixed, kind), half(backend, rows, start, fixed, kind))


@KINDS
@pytest.mark.parametrize("shift", [0, 3])
def test_losses_agree_with_the_oracle(kind: AlsObjective, shift: int, backend: Backend) -> None:
    als = twin_of(host, backend)
    ratings = planted(60, 50, 20)
    ratings.by_user.values[:] = np.round(ratings.by_user.values) - shift  # below 0, 0 and above
    users, items = table_of(60, kind), table_of(50, kind, 2)
    matrix = np.full((60, 50), np.nan)
    matrix[ratings.coo()[:2]] = ratings.coo()[2]
    side = als.prepare(ratings.by_user, 50, kind)
    placed = als.load(users, kind), als.load(items, kind)
    squares, loss = als.errors(side, *placed, kind, (1.0, 5.0))
    exact, penalty = kind.precision == "float32", reference.als_penalty(ratings.by_user.lengths, 50, users, kind)
    relative = 1e-5 if exact else 1e-3
    estimates = np.clip(reference.als_estimates(users, items, kind), 1, 5)
    assert squares == pytest.approx(np.nansum((matrix - estimates) ** 2), rel=relative)
    assert loss == pytest.approx(reference.als_data_loss(matrix, users, items, kind), rel=relative)
    assert als.penalty(side, placed[0], kind) == pytest.approx(penalty, rel=relative)


# --- the loop --------------------------------------------------------------------------------------------------------

SMALL = AlsParams(n_factors=6, n_epochs=4, regularization=0.05, precision="float32")
SMALL_IMPLICIT = AlsImplicitParams(n_factors=6, n_epochs=4, alpha=2.0, precision="float32")
BOTH = pytest.mark.parametrize("params", [SMALL, SMALL_IMPLICIT], ids=["als", "als-implicit"])


def replaced(params: AlsParams | AlsImplicitParams, **changes: object) -> AlsParams | AlsImplicitParams:
    return gpu.params_for(params.algorithm, {**vars(params), **changes})  # type: ignore[return-value]


@BOTH
@SOLVERS
def test_the_objective_never_rises(
    params: AlsParams | AlsImplicitParams, solver: str, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "STRONG", 1.0)
    params = replaced(params, n_epochs=12, solver=solver, n_cg_steps=30)
    reports: list[EpochReport] = []
    gpu.fit(planted(), params, backend=backend, on_epoch=reports.append)
    losses = [report.metrics["train_loss"] for report in reports]
    assert all(later <= before * (1 + 1e-6) for before, later in pairwise(losses))
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("changes", [{}, {"solver": "cholesky"}, {"n_factors": 257, "n_epochs": 2}], ids=str)
def test_only_the_last_epoch_takes_the_ridge_that_was_asked_for(changes: dict[str, object], backend: Backend) -> None:
    params = replaced(SMALL, **changes)
    trainer = AlsTrainer(planted(), params, backend)
    for epoch in range(params.n_epochs - 1):
        trainer.learn(epoch)
    before = trainer.model()
    strong = AlsTrainer(planted(), replaced(params, regularization=objective.STRONG * SMALL.regularization), backend)
    for _ in range(params.n_epochs - 1):
        strong.learn(params.n_epochs - 1)
    assert_equal_models(before, strong.model())
    last = AlsTrainer(planted(), replaced(params, n_epochs=1), backend)
    last.restore(trainer.state())
    last.learn(0)
    trainer.learn(params.n_epochs - 1)
    np.testing.assert_array_equal(trainer.model().user_factors, last.model().user_factors)
    assert (trainer.model().user_factors != before.user_factors).any()


def test_implicit_epochs_have_one_ridge() -> None:
    assert objective.strong(IMPLICIT) == IMPLICIT


def test_the_first_half_iteration_solves_the_items(backend: Backend) -> None:
    """cuMF's order: random users, then items; a training of one epoch is two halves of the oracle."""
    ratings, params = planted(40, 30, 12), replaced(SMALL, n_epochs=1, solver="cholesky")
    known = calibrate(ratings, params)
    model = gpu.fit(ratings, params, backend=backend)
    ratings, unit = in_units(ratings, known.unit), known.unit
    problem = problem_of(ratings, params, NEUTRAL)
    assert problem.prior == 0
    problem = problem._replace(prior=known.prior)
    users = training.start_users(ratings, problem, params.seed, slice(0, ratings.n_users))
    items = np.zeros((ratings.n_items, users.shape[1]), dtype=np.float32)
    items = reference.als_half(pairs(ratings.by_item), items, users, problem)
    users = reference.als_half(pairs(ratings.by_user), users, items, problem)
    for factors, bias, table in (
        (model.item_factors, model.item_bias, items),
        (model.user_factors, model.user_bias, users),
    ):
        trained = np.column_stack([factors / unit**0.5, bias / unit])
        np.testing.assert_allclose(trained, table, rtol=1e-3, atol=1e-4)


def test_explicit_ratings_are_learned(backend: Backend) -> None:
    train, test = split(planted())
    start = sgd.start_model(train, gpu.SgdParams(n_factors=6), shrunk_biases(train), shrunk_biases(train))
    by_baselines = gpu.evaluate.rmse(start, train.by_user, *test.coo())
    learned = last_metrics(train, test, SMALL, backend)
    assert learned["test_rmse"] < 0.6 * by_baselines
    assert learned["train_rmse"] < learned["test_rmse"]


def test_reported_errors_are_those_of_the_model(backend: Backend) -> None:
    train, test = split(planted())
    reports: list[EpochReport] = []
    model = gpu.fit(train, SMALL, backend=backend, test=test, on_epoch=reports.append)
    for name, ratings in (("train_rmse", train), ("test_rmse", test)):
        expected = gpu.evaluate.rmse(model, train.by_user, *ratings.coo())
        assert reports[-1].metrics[name] == pytest.approx(expected, rel=1e-5)


def test_implicit_feedback_ranks_what_was_held_out(backend: Backend) -> None:
    users, items, values = planted(300, 120, 60).coo()
    liked = values >= 3.5
    train, test = split(gpu.Ratings.from_coo(users[liked], items[liked], values[liked], (300, 120)))
    learned = last_metrics(train, test, SMALL_IMPLICIT, backend)
    assert learned.keys() == {"train_loss", "test_ndcg@10", "test_recall@20"}
    assert learned["test_recall@20"] > 0.3  # 20 of 120 at random: 0.17


@BOTH
def test_equal_seeds_give_equal_models_and_other_seeds_other_ones(
    params: AlsParams | AlsImplicitParams, backend: Backend
) -> None:
    ratings = planted()
    model = gpu.fit(ratings, params, backend=backend)
    assert_equal_models(model, gpu.fit(ratings, params, backend=backend))
    other = gpu.fit(ratings, replaced(params, seed=1), backend=backend)
    assert not np.allclose(model.item_factors, other.item_factors)


@BOTH
def test_the_number_of_threads_changes_nothing(params: AlsParams | AlsImplicitParams) -> None:
    ratings = planted()
    with one_thread():
        alone = gpu.fit(ratings, params)
    assert_equal_models(alone, gpu.fit(ratings, params))


@BOTH
def test_rows_without_ratings_stay_zero_and_untrained(params: AlsParams | AlsImplicitParams, backend: Backend) -> None:
    users, items, values = planted().coo()
    ratings = gpu.Ratings.from_coo(users + 1, items + 2, values, (310, 130))
    model = gpu.fit(ratings, params, backend=backend)
    assert not model.user_trained[0]
    assert model.user_trained[1:301].all()
    for name, empty in (("user_factors", [0, 305]), ("user_bias", [0, 305]), ("item_factors", [0, 1, 125])):
        assert not getattr(model, name)[empty].any()


@BOTH
def test_one_rating_is_enough(params: AlsParams | AlsImplicitParams, backend: Backend) -> None:
    one = gpu.Ratings.from_coo(np.array([0]), np.array([0]), np.array([4.0]))
    model = gpu.fit(one, replaced(params, n_epochs=40), backend=backend)
    estimate = gpu.evaluate.predict(model, one.by_user, np.array([0]), np.array([0]))[0]
    assert estimate == pytest.approx(model.scale[1], abs=0.2)


def test_stored_zeros_are_no_implicit_feedback(backend: Backend) -> None:
    users, items, values = planted().coo()
    params = replaced(SMALL_IMPLICIT, values="counts")
    with_zeros = gpu.Ratings.from_coo(users, items, np.where(values < 2, 0, values))
    without = gpu.Ratings.from_coo(users[values >= 2], items[values >= 2], values[values >= 2], (300, 120))
    assert_equal_models(*(gpu.fit(ratings, params, backend=backend) for ratings in (with_zeros, without)))


def test_items_without_ratings_change_no_implicit_model(backend: Backend) -> None:
    """N of ρ counts rows with ratings, not the length of a table."""
    users, items, values = planted().coo()
    params = replaced(SMALL_IMPLICIT, regularization=0.5)
    alone, beside = (
        gpu.fit(gpu.Ratings.from_coo(users, items, values, (300, n_items)), params, backend=backend)
        for n_items in (120, 600)
    )
    np.testing.assert_allclose(beside.user_factors, alone.user_factors, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(beside.item_factors[:120], alone.item_factors, rtol=1e-3, atol=1e-5)


def test_disliked_items_score_below_unknown_ones(backend: Backend) -> None:
    users, items, values = planted(300, 120, 60).coo()
    opinions = gpu.Ratings.from_coo(users, items, np.where(values >= 3.5, 1, np.where(values < 2.5, -1, 0)), (300, 120))
    shown, hidden = split(opinions)
    model = gpu.fit(shown, SMALL_IMPLICIT, backend=backend)
    users, items, values = hidden.coo()
    scores = gpu.evaluate.predict(model, shown.by_user, users, items)
    disliked, unknown, liked = (scores[values == value].mean() for value in (-1, 0, 1))
    assert disliked < unknown < liked


# --- refused input ---------------------------------------------------------------------------------------------------


@BOTH
def test_no_rating_is_refused(params: AlsParams | AlsImplicitParams, backend: Backend) -> None:
    with pytest.raises(InvalidRatings, match="got none"):
        gpu.fit(gpu.Ratings.from_coo(np.array([], int), np.array([], int), np.array([])), params, backend=backend)


def test_counts_that_are_all_below_zero_are_refused(backend: Backend) -> None:
    ratings = gpu.Ratings.from_coo(np.array([0, 1]), np.array([0, 0]), np.array([-1.0, -2.0]))
    with pytest.raises(InvalidRatings, match=r"some above 0, got none.*values=ratings"):
        gpu.fit(ratings, replaced(SMALL_IMPLICIT, values="counts"), backend=backend)


def bytes_of(users: np.ndarray, items: np.ndarray, problem: AlsObjective, backend: Backend) -> int:
    """Bytes of a training on one rank, with rows of these lengths."""
    als, (by_user, by_item) = twin_of(host, backend), (Extent(len(one), one, True) for one in (users, items))
    of_sides = als.side_bytes(users, len(items), problem) + als.side_bytes(items, len(users), problem)
    return int(als.base_bytes(by_user, by_item, problem) + of_sides)


@BOTH
def test_too_little_memory_is_refused_with_both_numbers(
    params: AlsParams | AlsImplicitParams, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratings = planted()
    lengths = ratings.by_user.lengths, ratings.by_item.lengths
    needed = bytes_of(*lengths, problem_of(ratings, params, NEUTRAL), backend)
    monkeypatch.setattr(Backend, "free_bytes", lambda _: 1234)
    with pytest.raises(NotEnoughMemory, match=r"6 factors.* bytes and 1,234 are free") as caught:
        gpu.fit(ratings, params, backend=backend)
    asked = caught.value.needed_bytes
    assert f" {asked:,} bytes and 1,234 are free" in str(caught.value)
    assert caught.value.free_bytes == 1234
    if backend.name == "host":
        assert asked == needed
    else:  # ratings in batches of a row each need less
        assert 0 < asked <= needed


def test_memory_grows_with_rows_and_factors(backend: Backend) -> None:
    assert backend.free_bytes() > 10_000_000
    few, many = np.full(1000, 20), np.full(3_000_000, 20)
    wide = EXPLICIT._replace(n_factors=256)
    small, long, large = (bytes_of(n, few, p, backend) for n, p in ((few, EXPLICIT), (many, EXPLICIT), (many, wide)))
    assert small < long < large
    assert large > 3_000_000 * 256 * 2  # at least a table in half precision: no 32-bit overflow on the way


def test_reports_count_epochs_and_training_time(backend: Backend) -> None:
    reports: list[EpochReport] = []
    gpu.fit(planted(), SMALL, backend=backend, on_epoch=reports.append)
    assert [(r.epoch, r.n_epochs) for r in reports] == [(n, 4) for n in range(1, 5)]
    assert all(a.seconds < b.seconds for a, b in pairwise(reports))
    assert list(reports[0].metrics) == ["train_loss", "train_rmse"]


def test_an_overflow_is_a_divergence(backend: Backend) -> None:
    huge = gpu.Ratings.from_coo(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([3e38, -3e38, 1.0]))
    losses: list[float] = []
    trainers = [AlsTrainer(huge, replaced(SMALL, regularization=0.0), backend) for _ in range(2)]
    with pytest.raises(TrainingDiverged, match="regularization"):
        train(trainers[0], lambda report: losses.append(report.metrics["train_loss"]))
    with pytest.raises(TrainingDiverged, match="regularization"):
        check_trained(train(trainers[1]), huge)
    assert np.isfinite(losses).all()


@needs_ml_1m
@pytest.mark.data
def test_real_ratings_are_learned(backend: Backend) -> None:
    users, items, values = np.loadtxt(ML_1M, dtype=np.int64, delimiter=",", skiprows=1).T
    train, test = split(gpu.Ratings.from_coo(users, items, values))
    params = AlsParams(n_factors=32, n_epochs=6)
    assert last_metrics(train, test, params, backend)["test_rmse"] < 0.85
