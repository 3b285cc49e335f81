"""ALS on several ranks: the tables, errors and models of a single rank, bit for bit; and resumed trainings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpu.als import host_sums as als_sums
from gpu.als.halves import GATHER, Modes, bounds_of, own_of
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.als.trainer import AlsTrainer
from gpu.base.backend import HOST, Backend
from gpu.data.calibration import calibrate
from gpu.data.ratings import Ratings
from gpu.ranks.exchange import ALONE, Exchange
from gpu.ranks.threads import run_threads, threads
from gpu.training.loop import State, train

KINDS = {
    "explicit": AlsParams(n_factors=8, n_epochs=3, seed=7),
    "no biases, Cholesky": AlsParams(n_factors=5, n_epochs=2, biases=False, solver="cholesky"),
    "implicit": AlsImplicitParams(n_factors=8, n_epochs=3),
}

SUMMED = Modes("reduce", "gather"), Modes("gather", "reduce"), Modes("reduce", "reduce")
EXACT = {  # reduced sums are solved exactly on the host
    "explicit": AlsParams(n_factors=8, n_epochs=2, solver="cholesky"),
    "implicit": AlsImplicitParams(n_factors=8, n_epochs=2, solver="cholesky"),
}


def ratings_of(n_users: int = 60, n_items: int = 40, n: int = 900, seed: int = 0) -> Ratings:
    """Ratings of half steps; some rows have none, and items differ much in their numbers of ratings."""
    rng = np.random.default_rng(seed)
    items = (n_items * rng.random(n) ** 3).astype(np.int64)
    return Ratings.from_coo(rng.integers(0, n_users - 3, n), items, rng.integers(1, 11, n) / 2, (n_users, n_items))


class Kept:
    """Checkpoints in memory."""

    def __init__(self) -> None:
        self.all: dict[int, dict[str, np.ndarray]] = {}

    def last(self) -> tuple[int, State] | None:
        return max(self.all.items()) if self.all else None

    def part_done(self, n_parts: int, state: Callable[[], State]) -> None:
        self.all[n_parts] = {name: array.copy() for name, array in state().items()}


def trainer_of(params: Any, exchange: Exchange, backend: Backend = HOST, modes: Modes = GATHER) -> AlsTrainer:
    ratings, test = ratings_of(), ratings_of(n=100, seed=1)
    return AlsTrainer(ratings, params, backend, test, calibrate(ratings, params), exchange, modes)


def run(
    params: Any, exchange: Exchange, backend: Backend = HOST, modes: Modes = GATHER
) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    reports: list[dict[str, Any]] = []
    model = train(trainer_of(params, exchange, backend, modes), lambda report: reports.append(dict(report.metrics)))
    return model.arrays, reports


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 3, 64])
def test_any_number_of_ranks_gives_the_bits_of_one(kind, size):
    expected, reports = run(KINDS[kind], ALONE)
    for rank, (arrays, found) in enumerate(run_threads(size, lambda ring: run(KINDS[kind], ring))):
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array[:0] if rank else array, err_msg=name)
        for metrics, wanted in zip(found, reports, strict=True):
            assert metrics["train_loss"] == pytest.approx(wanted["train_loss"], rel=1e-6)
            assert set(wanted) - set(metrics) == ({name for name in wanted if "test" in name} if rank else set())
            if rank == 0:
                assert metrics == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    ("bytes_", "wave"), [(2**28, 2**30), (20_000, 2**30), (20_000, 500)], ids=["whole", "batches", "waves"]
)
@pytest.mark.parametrize("modes", SUMMED)
@pytest.mark.parametrize("kind", EXACT)
def test_sums_of_several_ranks_give_the_model_of_one(kind, modes, bytes_, wave, monkeypatch):
    monkeypatch.setattr(als_sums, "SUMS_BYTES", bytes_)
    monkeypatch.setattr(als_sums, "WAVE_BYTES", wave)
    expected, reports = run(EXACT[kind], ALONE)
    for size in (1, 2, 3):
        results = run_threads(size, lambda ring: run(EXACT[kind], ring, modes=modes))
        for name, array in expected.items():
            np.testing.assert_allclose(results[0][0][name], array, rtol=2e-4, atol=2e-5, err_msg=name)
        for _, found in results:
            assert found[-1]["train_loss"] == pytest.approx(reports[-1]["train_loss"], rel=1e-5)
        assert results[0][1][-1] == pytest.approx(reports[-1], rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_is_resumed_on_another_number_of_ranks(kind):
    params, checkpoints = KINDS[kind], Kept()
    expected = train(trainer_of(params, ALONE), None, checkpoints).arrays
    assert sorted(checkpoints.all) == list(range(1, 2 * params.n_epochs + 1))
    for n_done in (1, 2, 3):
        since = Kept()
        since.all[n_done] = checkpoints.all[n_done]

        def resume(ring: Exchange, since: Kept = since) -> Any:
            kept = Kept()
            kept.all.update(since.all)
            return train(trainer_of(params, ring), None, kept).arrays

        for arrays in run_threads(2, resume)[:1]:
            for name, array in expected.items():
                np.testing.assert_array_equal(arrays[name], array, err_msg=name)


def test_shares_of_ranks_follow_their_weights():
    rows = ratings_of().by_user
    owners = [own_of(bounds_of(rows, (1.0, 1.0, 0.5)), exchange) for exchange in threads(3)]
    assert [own.stop for own in owners[:-1]] == [own.start for own in owners[1:]]
    assert [round(rows.lengths[own].sum() / rows.lengths.sum(), 1) for own in owners] == [0.4, 0.4, 0.2]


@pytest.mark.parametrize("modes", [GATHER, *SUMMED])
def test_a_rank_holds_its_own_rows_and_those_that_it_gathers(modes):
    """Of 60 users and 40 items, users are whole where items are gathered, and the other way around."""
    for trainer in run_threads(3, lambda ring: trainer_of(KINDS["explicit"], ring, modes=modes)):
        for half, n_rows, reader in ((trainer._users, 60, modes.items), (trainer._items, 40, modes.users)):
            assert len(half.table) == half.own.stop - half.own.start < n_rows / 2
            assert (half.whole is None) == (reader == "reduce")
            assert half.whole is None or len(half.whole) == n_rows


def test_weights_change_no_bit():
    expected, _ = run(KINDS["explicit"], ALONE)
    for arrays, _ in run_threads(3, lambda ring: run(KINDS["explicit"], ring), weights=(0.2, 1, 0.5))[:1]:
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)
