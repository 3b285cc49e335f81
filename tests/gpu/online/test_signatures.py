from typing import Any

import numpy as np
import pytest

from gpu.data.param_kinds import Params
from gpu.descent.params import CulshImplicitParams, CulshParams
from gpu.hashing import simlsh
from gpu.hashing.fixed_point import psi
from gpu.online import signatures
from tests.gpu.models import params_as, random_model
from tests.gpu.online_models import (
    ITEM_KEYS,
    N_ITEMS,
    N_USERS,
    TRAINED_ITEMS,
    TRAINED_USERS,
    USER_KEYS,
    Event,
    OnlineModel,
    settled,
)  # fmt: skip


def sums_of(online_model: OnlineModel) -> np.ndarray:
    """Sums of simLSH of the present ratings, computed at once."""
    model, ratings = online_model.online.model, online_model.table.ratings(USER_KEYS, ITEM_KEYS)
    start = random_model(model.params, TRAINED_USERS, TRAINED_ITEMS)
    start.grow(N_USERS, N_ITEMS)
    columns = ratings.by_item
    items = np.repeat(np.arange(N_ITEMS), columns.lengths)
    fixed = model.mean, start.user_baseline[columns.items], model.item_baseline[items], model.middle
    params = params_as(CulshParams, model)
    weights = psi(params, model.scale, 0.0, columns.values, *fixed)
    return simlsh.weighted_sums(ratings, weights, simlsh.n_words(params), params.seed)


@pytest.mark.parametrize("kind", [CulshParams, CulshImplicitParams])
def test_lists_of_new_items_follow_every_signature(kind: type[Params]) -> None:
    online_model = settled(kind, density=0.4)
    rng = np.random.default_rng(8)
    for _ in range(25):
        n = int(rng.integers(1, 4))
        values = [None if rng.random() < 0.4 else float(rng.integers(1, 6)) for _ in range(n)]
        online_model.learn(
            [Event(*event) for event in zip(rng.integers(0, 8, n), rng.integers(0, 12, n), values, strict=True)]
        )
        online_model.online.settle()
        model, counts = online_model.online.model, online_model.table.item_counts
        sums = sums_of(online_model)
        np.testing.assert_array_equal(model.projections, sums)
        lists = simlsh.top_k(
            simlsh.signatures(sums), counts, model.neighbors.shape[1], 5, ITEM_KEYS, np.arange(TRAINED_ITEMS, N_ITEMS)
        )
        np.testing.assert_array_equal(model.neighbors[TRAINED_ITEMS:], lists.neighbors)


@pytest.mark.parametrize("at_once", [1, 3, 5])
def test_sums_follow_what_changes_while_they_are_computed(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "HASHED_PER_SLICE", at_once)
    rng = np.random.default_rng(at_once)
    ratings = {(user, item): 3.0 for user in range(N_USERS) for item in range(TRAINED_ITEMS) if rng.random() < 0.6}
    online_model = OnlineModel(CulshParams, ratings)
    online_model.learn([Event(0, TRAINED_ITEMS, 4.0)])  # the first new item
    for step in range(40):
        online_model.online.settle(0.0)
        if step % 4 == 1:
            online_model.learn([Event(int(rng.integers(1, N_USERS)), int(rng.integers(0, N_ITEMS)), 5.0)])
        if step == 13:
            online_model.forget(3)
    assert online_model.online.settle()
    np.testing.assert_array_equal(online_model.online.model.projections, sums_of(online_model))


def test_nothing_is_hashed_while_every_item_is_trained() -> None:
    online_model = OnlineModel(CulshParams, {(0, 0): 4.0, (7, 3): 2.0})
    before = online_model.online.model.projections.copy()
    online_model.learn([Event(1, 1, 5.0)])
    assert online_model.online.settle()
    np.testing.assert_array_equal(online_model.online.model.projections, before)


def test_agreement_is_the_share_of_equal_bits() -> None:
    online_model = settled(CulshParams)
    packed = simlsh.signatures(sums_of(online_model))
    bits = np.unpackbits(packed.view(np.uint8), axis=1)
    shares = online_model.online.agreement(2, np.array([0, 2, 10]))
    np.testing.assert_allclose(shares, [(bits[2] == bits[other]).mean() for other in (0, 2, 10)], rtol=1e-6)


def test_lists_among_many_items_are_made_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made, top_k = [], simlsh.top_k

    def spy(*given: Any, **named: Any) -> simlsh.Ranking:
        made.append(len(named["queries"]))
        return top_k(*given, **named)

    monkeypatch.setattr(simlsh, "top_k", spy)
    apart, together = settled(CulshParams, density=0.4), settled(CulshParams, density=0.4)
    assert max(made) > 1
    for online_model, pairs in ((together, 1 << 20), (apart, 2 * N_ITEMS - 1)):
        made.clear()
        monkeypatch.setattr(signatures, "PAIRS_PER_SLICE", pairs)
        online_model.learn([Event(user, TRAINED_ITEMS + user % 2, 4.0) for user in range(N_USERS)])
        online_model.online.settle()
    assert set(made) == {1}
    np.testing.assert_array_equal(apart.online.model.neighbors, together.online.model.neighbors)
