"""The modes of a training on several ranks are those of its plan, equal on all ranks."""

import bisect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gpu.algorithms import params_for
from gpu.als import division as als_plan
from gpu.als import planner
from gpu.als.batches import batches_of
from gpu.als.division import GB, MEMORY_GB, division_of, shape_of, size_of
from gpu.als.halves import GATHER, Division, Modes
from gpu.als.objective import problem_of
from gpu.als.planner_costs import Gpu, Shape
from gpu.als.trainer import AlsTrainer
from gpu.base.backend import HOST, Backend
from gpu.base.errors import NotEnoughMemory
from gpu.data.calibration import calibrate
from gpu.data.ratings import Ratings
from gpu.ranks.exchange import ALONE, Exchange
from gpu.ranks.threads import run_threads
from gpu.training.loop import train

KINDS: dict[str, Any] = {
    "als": params_for("als", {"n_factors": 4, "n_epochs": 3, "n_cg_steps": 8}),
    "als-implicit": params_for("als-implicit", {"n_factors": 4, "n_epochs": 3, "n_cg_steps": 8}),
}
ITEMS_REDUCED = Modes("reduce", "gather")


def ratings_of(n_users: int, n_items: int, n: int = 8000) -> Ratings:
    rng = np.random.default_rng(3)
    pairs = rng.integers(0, n_users, n), rng.integers(0, n_items, n)
    return Ratings.from_coo(*pairs, rng.integers(1, 6, n).astype(float), (n_users, n_items))


def run(ratings: Ratings, params: Any, exchange: Exchange) -> tuple[AlsTrainer, dict[str, np.ndarray], float]:
    trainer = AlsTrainer(ratings, params, HOST, None, calibrate(ratings, params), exchange)
    losses: list[float] = []
    model = train(trainer, lambda report: losses.append(report.metrics["train_loss"]))
    return trainer, model.arrays, losses[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_very_many_users_for_each_item_are_added_up(kind):
    ratings, params = ratings_of(2000, 8), KINDS[kind]
    _, _, alone = run(ratings, params, ALONE)
    for size in (2, 3):
        results = run_threads(size, lambda ring: run(ratings, params, ring))
        for trainer, _, loss in results:
            assert trainer.modes == ITEMS_REDUCED
            assert trainer.division == "items half in mode reduce, users half in mode gather"
            assert loss == pytest.approx(alone, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_other_shapes_are_gathered_with_the_bits_of_one_rank(kind):
    ratings, params = ratings_of(200, 80), KINDS[kind]
    alone, expected, _ = run(ratings, params, ALONE)
    assert (alone.modes, alone.division) == (GATHER, "")
    results = run_threads(2, lambda ring: run(ratings, params, ring))
    assert [trainer.modes for trainer, _, _ in results] == [GATHER] * 2
    for name, array in expected.items():
        np.testing.assert_array_equal(results[0][1][name], array, err_msg=name)


def test_memory_of_sums_is_checked():
    ratings, params = ratings_of(2000, 8), KINDS["als"]

    def needed(modes: Modes) -> int:
        """Bytes with which all ratings stay in memory."""

        def is_enough(n_bytes: int) -> bool:
            division = Division(modes, (1.0,))
            return batches_of(ratings, problem, HOST.within(n_bytes), ALONE, division) is None

        return bisect.bisect_left(range(least, 10**7), True, key=is_enough) + least

    problem = problem_of(ratings, params, calibrate(ratings, params))
    with pytest.raises(NotEnoughMemory) as caught:
        batches_of(ratings, problem, HOST.within(0), ALONE, Division(Modes("reduce", "reduce"), (1.0,)))
    least = caught.value.needed_bytes
    a_row = 8 * 5 * 6  # doubles of A and b, with a bias
    both = needed(Modes("reduce", "reduce"))
    assert both - needed(ITEMS_REDUCED) == 2000 * a_row
    assert both - needed(Modes("gather", "reduce")) == 8 * a_row


@pytest.mark.parametrize(("n_bytes", "modes"), [(10**6, GATHER), (2_167_500_000, ITEMS_REDUCED)])
def test_a_bound_is_planned_for_and_what_fits_no_plan_is_gathered(n_bytes, modes):
    """CUDA, a communicator and work space would take 2.167 GB, and ratings in batches the rest."""
    ratings, params = ratings_of(2000, 8), KINDS["als"]
    assert run_threads(2, lambda ring: division_of(ratings, params, HOST.within(n_bytes), ring).modes) == [modes] * 2


@pytest.mark.parametrize("shape", [(200, 80), (2000, 8), (1080, 10)])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_modes_are_those_that_a_plan_has_which_uses_all_gpus(shape, size):
    ratings, params = ratings_of(*shape), KINDS["als"]
    gpus = [Gpu(MEMORY_GB * GB)] * size
    found = planner.plan_for_all(shape_of(size_of(ratings), params), gpus)
    assert found is not None
    assert found.gpus == tuple(range(size))
    modes = Modes(found.items.mode, found.users.mode)
    assert run_threads(size, lambda ring: division_of(ratings, params, HOST, ring).modes) == [modes] * size
    best = planner.plan(shape_of(size_of(ratings), params), gpus)
    assert best.ms <= found.ms
    if len(best.gpus) == size:
        assert (best.items.mode, best.users.mode) == modes


def test_a_plan_depends_on_the_number_of_ranks():
    ratings, params = ratings_of(1080, 10), KINDS["als"]
    two, three = (run_threads(size, lambda ring: division_of(ratings, params, HOST, ring).modes)[0] for size in (2, 3))
    assert (two, three) == (GATHER, ITEMS_REDUCED)


@dataclass(frozen=True)
class Sized(Backend):
    """The host, as if it had this memory of a device."""

    memory: int = 0

    def memory_bytes(self) -> int:
        return self.memory


def test_all_ranks_plan_with_the_memory_of_all(monkeypatch):
    seen: list[list[Gpu]] = []
    monkeypatch.setattr(planner, "plan_for_all", lambda shape, gpus: seen.append(gpus))
    memory = [80 * GB, 24 * GB, 40 * GB]

    def modes(ring: Exchange) -> Modes:
        backend = Sized("host", "a test", 5, memory[ring.rank])
        return division_of(ratings_of(2000, 8), KINDS["als"], backend, ring).modes

    assert run_threads(3, modes) == [GATHER] * 3, "nothing fits"
    assert seen == [[Gpu(n, kept_bytes=5) for n in memory]] * 3


def test_shares_follow_weights_and_memory(monkeypatch):
    netflix = Shape(480_189, 17_770, 99_000_000, 100, is_implicit=False, biases=False, n_cg_steps=6)
    monkeypatch.setattr(als_plan, "shape_of", lambda ratings, params: netflix)
    ratings, params = ratings_of(20, 8), KINDS["als"]

    def shares(ring: Exchange, memory: list[int]) -> tuple[float, ...]:
        return division_of(ratings, params, Sized("host", "a test", memory=memory[ring.rank]), ring).shares

    plenty, scarce = 80 * GB, 5 * GB // 2
    weighted = run_threads(3, lambda ring: shares(ring, [plenty] * 3), weights=(1, 1, 0.5))
    assert weighted == [(0.4, 0.4, 0.2)] * 3
    found = run_threads(3, lambda ring: shares(ring, [plenty, scarce, plenty]))
    assert found[1:] == found[:2]
    assert 0 < found[0][1] < 0.1 < found[0][0] == found[0][2]


@pytest.mark.parametrize("given", [{"n_factors": 300}, {"solver": "cholesky"}, {"precision": "float32"}])
def test_what_cannot_be_planned_is_gathered(given):
    params: Any = params_for("als", {"n_factors": 4} | given)
    assert run_threads(2, lambda ring: division_of(ratings_of(2000, 8), params, HOST, ring).modes) == [GATHER] * 2
