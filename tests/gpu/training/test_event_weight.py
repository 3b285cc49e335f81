"""α_e, what events say beside ratings, is chosen where held-out pairs can tell."""

import numpy as np
import pytest
from numpy.typing import NDArray

import gpu
from gpu.data.evidence import packed
from gpu.training import event_weight
from gpu.training.event_weight import ENOUGH, WEIGHTS, chosen

PARAMS = gpu.AlsImplicitParams(n_factors=4, n_epochs=3)
NAN = np.float32(np.nan)


def world(n_users: int, *, noise: bool) -> tuple[gpu.Ratings, gpu.Ratings]:
    """Stars of users with one of two tastes, and views, which follow it or not; a fifth of the pairs is held out."""
    generator = np.random.default_rng(4)
    users, items = np.nonzero(generator.random((n_users, 40)) < 0.5)
    are_views = generator.random(len(users)) < 0.5
    liked = (users + items) % 2 == 0
    stars = np.where(liked, 5, 1).astype(np.float32)
    stays = ~are_views | noise | liked
    values = packed(np.where(are_views, NAN, stars), np.where(are_views, np.float32(1), NAN))
    are_out = generator.random(len(users)) < 0.2

    def part(which: NDArray[np.bool_]) -> gpu.Ratings:
        return gpu.Ratings.from_coo(users[which], items[which], values[which], (n_users, 40))

    return part(stays & ~are_out), part(stays & are_out)


def test_it_is_one_of_the_weights_and_the_default_unless_another_is_clearly_better() -> None:
    found = chosen(*world(600, noise=False), PARAMS, gpu.HOST)
    assert isinstance(found, gpu.AlsImplicitParams)
    assert found.event_weight in WEIGHTS
    assert (found.n_epochs, found.n_factors) == (3, 4)


def test_the_best_weight_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = {1.0: 0.0, 0.3: 0.5, 3.0: -0.5}

    def tried(
        ratings: gpu.Ratings, held_out: gpu.Ratings, params: gpu.AlsImplicitParams, *_: object
    ) -> tuple[None, NDArray[np.float64]]:
        assert params.event_weight is not None
        return None, np.linspace(0, 1e-3, 10, dtype=np.float64) + losses[params.event_weight]

    monkeypatch.setattr(event_weight, "tried", tried)
    found = chosen(*world(600, noise=False), PARAMS, gpu.HOST)
    assert isinstance(found, gpu.AlsImplicitParams)
    assert found.event_weight == 3.0


@pytest.mark.parametrize(
    "params",
    [
        gpu.AlsImplicitParams(event_weight=2.0),
        gpu.AlsImplicitParams(values="counts"),
        gpu.CulshImplicitParams(),
        gpu.NmfParams(),
    ],
    ids=["given", "counts", "no confidence", "no values"],
)
def test_nothing_is_tried_where_it_has_no_effect(params: gpu.Params, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_weight, "tried", None)
    assert chosen(*world(600, noise=True), params, gpu.HOST) is params


def test_few_held_out_pairs_choose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_weight, "tried", None)
    training, held_out = world(40, noise=True)
    assert len(held_out) < ENOUGH
    assert chosen(training, held_out, PARAMS, gpu.HOST) is PARAMS
