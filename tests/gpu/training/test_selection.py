"""What held-out pairs of the training ratings decide: the confidence of counts, and the number of factors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import gpu
from gpu.base.backend import Backend
from gpu.base.errors import NotEnoughMemory
from gpu.data.calibration import calibrate
from gpu.data.param_kinds import Params, with_changes
from gpu.data.signals import signals
from gpu.training import selection
from gpu.training.selection import ENOUGH, LEAST_ROWS, USERS, selected, split

N = LEAST_ROWS + 100
Losses = Callable[[Params], NDArray[np.float64]]


def clicks(n_users: int = N, n_items: int = N, each: int = 10, *, has_counts: bool = False) -> gpu.Ratings:
    """Each user has `each` items of one of 20 tastes; with counts also three items at random, whose counts are high."""
    generator = np.random.default_rng(0)
    users = np.repeat(np.arange(n_users), each)
    items = (generator.integers(0, n_items // 20, len(users)) * 20 + users % 20) % n_items
    counts = np.ones(len(users))
    if has_counts:
        users, items = np.append(users, users[::4]), np.append(items, generator.integers(0, n_items, len(users[::4])))
        counts = np.append(counts, generator.integers(6, 9, len(users) - len(counts)))
    return gpu.Ratings.from_coo(users, items, counts, (n_users, n_items))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[Losses], list[Params]]:
    """Makes trainings cost nothing: a function of their parameters says their losses; collects the parameters."""
    seen: list[Params] = []

    def tell(losses: Losses) -> list[Params]:
        def tried(_: object, __: object, params: Params, *___: object) -> tuple[None, NDArray[np.float64]]:
            seen.append(params)
            return None, losses(params)

        monkeypatch.setattr(selection, "tried", tried)
        return seen

    return tell


def by_width(scores: dict[int, float]) -> Losses:
    """A larger λ never pays."""
    least = calibrate(split(clicks())[0], gpu.AlsImplicitParams()).regularization
    return lambda params: -np.full(50, scores[params.width] - ((params.regularization or 0) > 1.5 * least))


def test_what_is_given_is_not_tried(told: Callable[[Losses], list[Params]]) -> None:
    seen = told(by_width({}))
    counts = clicks(has_counts=True)
    for params in (gpu.AlsImplicitParams(n_factors=4, confidence="log"), gpu.AlsParams(), gpu.CulshImplicitParams()):
        assert selected(counts, params) == (params, (), 0)
    assert selected(clicks(), gpu.EaseParams()) == (gpu.EaseParams(), (), 0)  # ones have one confidence
    papers = gpu.AlsImplicitParams(calibration="none", alpha=1.0, regularization=0.1)
    assert selected(counts, papers) == (dataclasses.replace(papers, n_factors=128), (), 0)
    assert seen == []


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({128: 0.2, 256: 0.2}, 128),
        ({128: 0.2, 256: 0.202}, 128),
        ({128: 0.2, 256: 0.22, 512: 0.221}, 256),
        ({128: 0.2, 256: 0.22, 512: 0.24, 1024: 0.23}, 512),
        ({128: 0.2, 256: 0.22, 512: 0.24, 1024: 0.26}, 1024),
    ],
)
def test_factors_double_while_each_doubling_pays(
    scores: dict[int, float], expected: int, told: Callable[[Losses], list[Params]]
) -> None:
    seen = told(by_width(scores))
    found = selected(clicks(), gpu.AlsImplicitParams())
    assert (found.params, found.n_factors) == (gpu.AlsImplicitParams(n_factors=expected), expected)
    first, larger_ridge, *others = seen
    assert [params.width for params in (first, *others)] == list(scores)
    assert (first.regularization, larger_ridge.width) == (None, 128)
    assert {params.n_epochs for params in seen if isinstance(params, gpu.AlsImplicitParams)} == {4}
    ridge, reason = found.reasons
    assert ridge.startswith("regularization=")
    assert reason.startswith(f"n_factors={expected}: NDCG@20 of 50 users ")
    assert all(f"{score:.4f} with {factors:,}" in reason for factors, score in scores.items())


def test_a_gain_within_noise_does_not_pay(told: Callable[[Losses], list[Params]]) -> None:
    noise = np.tile([-1.0, 1.0], 25)
    told(lambda params: -0.2 - 0.01 * (params.width > 128) + noise * (params.width > 128))
    assert selected(clicks(), gpu.AlsImplicitParams()).n_factors == 128


def test_memory_work_and_a_bound_end_the_doubling(
    told: Callable[[Losses], list[Params]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = by_width({128: 0.1, 256: 0.2})
    told(lambda params: scores(params) if params.width < 512 else np.zeros(0))
    found = selected(clicks(), gpu.AlsImplicitParams())
    assert found.n_factors == 256
    assert "no memory for more" in found.reasons[1]
    seen = told(by_width({128: 0.1, 256: 0.2, 512: 0.3}))
    del seen[:]
    assert selected(clicks(), gpu.AlsImplicitParams(), most_factors=256).n_factors == 256
    assert [params.width for params in seen] == [128, 128, 256]
    work = 12 * selection.work_of_epoch(256, 2 * N, 10 * N)
    monkeypatch.setattr(selection, "MOST_WORK", work)
    found = selected(clicks(), gpu.AlsImplicitParams())
    assert found.n_factors == 256
    assert "512 would take more than" in found.reasons[1]


def test_a_training_of_the_search_leaves_what_the_finished_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[tuple[int, int]] = []

    def tried(_: object, __: object, params: Params, ___: int, backend: Backend, *____: object) -> tuple[None, object]:
        left.append((params.width, backend.kept_bytes))
        return None, -np.full(50, params.width / 1e4)

    monkeypatch.setattr(selection, "tried", tried)
    params = gpu.AlsImplicitParams(regularization=0.1)
    selected(clicks(), params, kept=lambda params: 7 * params.width)
    assert left == [(factors, 7 * factors) for factors in (128, 256, 512, 1024)]


def test_few_pairs_and_few_rows_try_nothing_and_say_so(told: Callable[[Losses], list[Params]]) -> None:
    seen = told(by_width({128: 0.1}))
    found = selected(clicks(n_users=200, each=5), gpu.AlsImplicitParams())
    assert found.n_factors == 128
    assert "nothing was tested: expected 1,000 held-out pairs (about 5,000 ratings" in found.reasons[0]
    assert seen == []
    found = selected(clicks(n_items=400), gpu.AlsImplicitParams())
    assert found.n_factors == 128
    assert "400 items have no more tastes" in found.reasons[1]
    assert {params.width for params in seen} == {128}


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (4, 4), (100, 16)])
def test_the_ridge_doubles_while_each_doubling_pays(
    limit: int, expected: int, told: Callable[[Losses], list[Params]]
) -> None:
    least = calibrate(split(clicks())[0], gpu.AlsImplicitParams()).regularization
    told(lambda params: -np.full(50, min((params.regularization or least) / least, limit)))
    found = selected(clicks(), gpu.AlsImplicitParams())
    assert found.params.regularization == (None if expected == 1 else pytest.approx(expected * least))
    assert found.reasons[0].startswith(f"regularization={expected * least:.4g}: NDCG@20 of 50 users")
    given = selected(clicks(), gpu.AlsImplicitParams(regularization=0.5))
    assert given.params.regularization == 0.5


def test_few_clicks_of_many_users_rank_no_worse_than_popularity() -> None:
    """Two or three clicks each, a third of them by taste: with the λ of dense data noise came before popular items."""
    generator = np.random.default_rng(0)
    users = np.repeat(np.arange(8000), 1 + generator.poisson(1.7, 8000))
    popularity = (np.arange(2000) + 5.0) ** -0.8
    items = generator.choice(2000, len(users), p=popularity / popularity.sum())
    by_taste = generator.random(len(users)) < 0.3
    items[by_taste] = (items[by_taste] // 40 * 40 + users[by_taste] % 40) % 2000
    rest, held_out = split(gpu.Ratings.from_coo(users, items, np.ones(len(users)), (8000, 2000)), seed=1)
    popular = gpu.evaluate.baseline(rest, is_implicit=True)
    model, calibrated = (gpu.fit(rest, gpu.AlsImplicitParams(n_factors=n, n_epochs=6)) for n in (None, 128))
    scores = [gpu.evaluate.ndcgs(one, rest.by_user, held_out, 20).mean() for one in (model, calibrated, popular)]
    assert scores[0] > 0.97 * scores[2] > scores[1]


@pytest.mark.parametrize("params", [gpu.AlsImplicitParams(n_factors=8, n_epochs=3), gpu.EaseParams()])
def test_the_confidence_that_lists_like_best_wins(params: Params, told: Callable[[Losses], list[Params]]) -> None:
    scores = {"linear": 0.1, "log": 0.2, "ones": 0.3}
    told(lambda tried: -np.full(50, scores[tried.confidence]))
    found = selected(clicks(has_counts=True), params)
    assert found.params == with_changes(params, confidence="ones")
    assert found.reasons[0].startswith("confidence=ones: NDCG@20 of 50 users")
    told(lambda tried: -np.full(50, 0.2 + 0.001 * (tried.confidence == "ones")))
    rule = "log" if calibrate(clicks(has_counts=True), params).is_damped else "linear"
    assert selected(clicks(has_counts=True), params).params.confidence == rule


def test_counts_that_mislead_train_as_ones() -> None:
    found = selected(clicks(has_counts=True), gpu.EaseParams())
    assert calibrate(clicks(has_counts=True), gpu.EaseParams()).values == "counts"
    assert found.params.confidence == "ones"
    model = gpu.fit(clicks(has_counts=True), gpu.EaseParams())
    assert model.params == found.params
    assert model.calibration.chosen == found.reasons


def test_ones_take_every_count_for_one() -> None:
    ratings = gpu.Ratings.from_coo(np.arange(4), np.zeros(4, int), np.array([2.0, 9, 1000, -3]), (4, 1))
    calibration = calibrate(ratings, gpu.AlsImplicitParams(values="counts", confidence="ones"))
    np.testing.assert_array_equal(signals(np.array([2.0, 9, 1000, -3]), calibration), [1, 1, 1, -1])


def test_users_keep_pairs_and_the_same_ones_are_held_out() -> None:
    ratings = clicks(n_users=USERS + 500, each=3)
    rest, held_out = split(ratings)
    assert len(rest) + len(held_out) == len(ratings)
    assert ((rest.by_user.lengths > 0) == (ratings.by_user.lengths > 0)).all()
    assert ENOUGH <= np.count_nonzero(held_out.by_user.lengths) <= USERS
    again = split(ratings)[1]
    np.testing.assert_array_equal(again.by_user.items, held_out.by_user.items)


def test_a_model_says_what_was_chosen(backend: Backend) -> None:
    model = gpu.fit(clicks(n_users=300), gpu.AlsImplicitParams(n_epochs=2, precision="float32"), backend=backend)
    assert model.params == gpu.AlsImplicitParams(n_epochs=2, precision="float32", n_factors=128)
    assert model.item_factors.shape[1] == model.calibration.n_factors == 128
    assert model.calibration.chosen
    given = gpu.fit(clicks(n_users=300), gpu.AlsImplicitParams(n_factors=4, n_epochs=2), backend=backend)
    assert (given.calibration.n_factors, given.calibration.chosen) == (0, ())


def test_a_training_that_does_not_fit_is_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = gpu.fit

    def small(ratings: gpu.Ratings, params: Params, **others: object) -> gpu.Model:
        if params.width > 128:
            raise NotEnoughMemory("needs more", 2, 1)
        return fit(ratings, params, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(gpu, "fit", small)
    assert selected(clicks(), gpu.AlsImplicitParams(n_epochs=3)).n_factors == 128
