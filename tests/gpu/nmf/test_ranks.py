"""NMF on several ranks: the factors and errors of one rank, bit for bit where no BLAS takes part; and resumed."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.base.backend import HOST, Backend
from gpu.data.ratings import Ratings
from gpu.nmf import host as hals
from gpu.nmf.host_blocks import LANES, N_GRAMS
from gpu.nmf.matrix import splits_of
from gpu.nmf.params import NmfParams
from gpu.nmf.trainer import Factorization, Factors, NmfTrainer
from gpu.ranks.exchange import ALONE, Exchange
from gpu.ranks.row_split import split_rows
from gpu.ranks.threads import run_threads, threads
from gpu.training.loop import State, train
from tests.gpu.als.test_ranks import Kept, ratings_of

SHAPE = 5 * LANES + 7, 2 * LANES + 1  # six blocks of users, three of items
N = 20_000
KINDS = {
    "extrapolated": NmfParams(n_factors=7, n_epochs=4, seed=7),
    "tiled": NmfParams(n_factors=7, n_epochs=3, seed=7, solver="tiled"),
    "float64, one column a tile": NmfParams(n_factors=5, n_epochs=2, tile=1, precision="float64"),
    "nndsvd": NmfParams(n_factors=4, n_epochs=2, start="nndsvd"),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def trainer_of(params: NmfParams, exchange: Exchange, backend: Backend = HOST) -> NmfTrainer:
    return NmfTrainer(ratings_of(*SHAPE, N), params, backend, ratings_of(*SHAPE, 500, seed=1), exchange)


def run(
    params: NmfParams, exchange: Exchange, backend: Backend = HOST
) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    reports: list[dict[str, Any]] = []
    model = train(trainer_of(params, exchange, backend), lambda report: reports.append(dict(report.metrics)))
    return model.arrays, reports


def factors_of(matrix: Ratings | np.ndarray, params: NmfParams, exchange: Exchange) -> tuple[Factors, list[float]]:
    errors: list[float] = []
    found = Factorization(matrix, params, HOST, exchange)
    return train(found, lambda report: errors.append(report.metrics["relative_error"])), errors


def assert_equal_arrays(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@EVERY_KIND
@pytest.mark.parametrize("size", [1, 2, 3, 8, N_GRAMS + 4])
def test_any_number_of_ranks_gives_the_bits_of_one(kind: str, size: int) -> None:
    """More ranks than blocks, and than partial Gram matrices, too."""
    expected, reports = run(KINDS[kind], ALONE)
    assert np.isfinite(expected["item_factors"]).all()
    assert len(reports) == KINDS[kind].n_epochs
    for rank, (arrays, found) in enumerate(run_threads(size, lambda ring: run(KINDS[kind], ring))):
        assert_equal_arrays(arrays, expected)
        shown = [{name: value for name, value in each.items() if not rank or "test" not in name} for each in reports]
        assert found == shown


@settings(max_examples=20)
@given(
    shape=st.tuples(st.integers(1, 2 * LANES + 3), st.integers(1, LANES + 3)),
    n=st.integers(1, 300),
    seed=st.integers(0, 100),
    size=st.integers(2, 3),
    n_factors=st.integers(1, 5),
)
def test_any_ratings(shape: tuple[int, int], n: int, seed: int, size: int, n_factors: int) -> None:
    """Ranks without ratings and without rows, too."""
    ratings = ratings_of(shape[0] + 3, shape[1], n, seed)
    params = NmfParams(n_factors=n_factors, n_epochs=2, seed=seed)
    expected, errors = factors_of(ratings, params, ALONE)
    for factors, found in run_threads(size, lambda ring: factors_of(ratings, params, ring)):
        np.testing.assert_array_equal(factors.W, expected.W)
        np.testing.assert_array_equal(factors.H, expected.H)
        assert found == errors


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("solver", ["extrapolated", "tiled", "plain"])
@pytest.mark.parametrize("is_dense", [False, True])
def test_products_of_blas_differ_by_rounding_only(size: int, solver: Any, is_dense: bool) -> None:
    """Errors fall alike, and ranks of one training have equal bits."""
    ratings = ratings_of(*SHAPE, N)
    users, items, values = ratings.coo()
    dense = np.zeros(SHAPE, dtype=np.float32)
    dense[users, items] = values
    matrix, params = dense if is_dense else ratings, NmfParams(n_factors=6, n_epochs=10, solver=solver)
    expected, errors = factors_of(matrix, params, ALONE)
    results = run_threads(size, lambda ring: factors_of(matrix, params, ring))
    for factors, found in results:
        np.testing.assert_array_equal(factors.W, results[0][0].W)
        np.testing.assert_allclose(factors.W, expected.W, atol=1e-4)
        np.testing.assert_allclose(factors.H, expected.H, atol=1e-4 * expected.H.max())
        assert found == results[0][1]
        assert found == pytest.approx(errors, rel=1e-6)


class Since(Kept):
    """Checkpoints that go on after `n_parts` parts of other ones."""

    def __init__(self, kept: Kept, n_parts: int) -> None:
        super().__init__()
        self.all[n_parts] = kept.all[n_parts]


@EVERY_KIND
@pytest.mark.parametrize("size", [1, 3])
def test_a_training_is_resumed_on_another_number_of_ranks(kind: str, size: int) -> None:
    params = KINDS[kind]
    expected, reports = run(params, ALONE)
    kept = run_threads(2, lambda ring: _kept(params, ring))[0]
    assert sorted(kept.all) == list(range(1, params.n_epochs + 1))
    for n_done in kept.all:

        def resume(ring: Exchange, n_done: int = n_done) -> Any:
            found: list[dict[str, Any]] = []
            on_epoch = found.append
            trainer = trainer_of(params, ring)
            model = train(trainer, lambda report: on_epoch(dict(report.metrics)), Since(kept, n_done))
            return model.arrays, found

        arrays, found = run_threads(size, resume)[0]
        assert_equal_arrays(arrays, expected)
        assert found == reports[n_done:]


def _kept(params: NmfParams, exchange: Exchange) -> Kept:
    checkpoints = Kept()
    train(trainer_of(params, exchange), None, checkpoints)
    return checkpoints


def test_all_ranks_stop_at_the_epoch_at_which_one_rank_would() -> None:
    params = dataclasses.replace(KINDS["tiled"], n_epochs=50, tolerance=0.01)
    expected, reports = run(params, ALONE)
    assert 2 < len(reports) < 50
    for arrays, found in run_threads(3, lambda ring: run(params, ring)):
        assert_equal_arrays(arrays, expected)
        assert len(found) == len(reports)


def test_a_training_that_has_converged_stays_so_when_it_is_resumed() -> None:
    params = dataclasses.replace(KINDS["tiled"], n_epochs=50, tolerance=0.01)
    kept = _kept(params, ALONE)
    expected, reports = run(params, ALONE)
    assert max(kept.all) == len(reports)
    for n_done in (1, 2, len(reports)):
        assert_equal_arrays(train(trainer_of(params, ALONE), None, Since(kept, n_done)).arrays, expected)


def test_all_ranks_go_back_to_an_earlier_state() -> None:
    def work(ring: Exchange) -> bool:
        trainer = trainer_of(KINDS["tiled"], ring)
        trainer.prepare()
        trainer.learn(0)
        state: State = {name: array.copy() for name, array in trainer.state().items()}
        trainer.learn(1)
        first = trainer.factors()
        first = first._replace(W=first.W.copy(), H=first.H.copy())
        trainer.learn(2)
        trainer.restore(state)
        trainer.learn(1)
        again = trainer.factors()
        same = np.array_equal(again.W, first.W) and np.array_equal(again.H, first.H)
        return same and again[2:] == first[2:]

    assert run_threads(3, work) == [True] * 3


def test_ranks_own_whole_blocks_that_cost_about_equally_much() -> None:
    costs = np.random.default_rng(0).integers(1, 100, 40 * LANES + 1)
    for size in (1, 2, 3, 7):
        splits = [split_rows(costs, exchange, LANES) for exchange in threads(size)]
        np.testing.assert_array_equal(
            np.concatenate([np.arange(len(costs))[each.own] for each in splits]), range(len(costs))
        )
        assert all(bound % LANES == 0 for bound in splits[0].bounds[:-1])
        shares = [costs[each.own].sum() for each in splits]
        assert max(shares) < costs.sum() / size + 2 * 50 * LANES + 100 * LANES
    assert [each.own for each in (split_rows(costs[:3], ring, LANES) for ring in threads(2))].count(slice(0, 3)) == 1


def test_a_rank_needs_memory_for_its_own_rows_only() -> None:
    ratings, params = ratings_of(*SHAPE, N), KINDS["tiled"]
    alone = [each.own for each in splits_of(ratings, params, HOST, ALONE)]
    assert alone == [slice(0, n) for n in SHAPE]
    users = [splits_of(ratings, params, HOST, ring)[0].own for ring in threads(3)]
    shares = [ratings.by_user.lengths[own].sum() for own in users]
    assert sum(shares) == len(ratings)
    assert max(shares) < 0.6 * len(ratings)
    needed = [hals.bytes_needed(SHAPE, n, N, 0, 7, 3, 4) for n in (600, sum(SHAPE))]
    assert needed[0] < 0.75 * needed[1]
