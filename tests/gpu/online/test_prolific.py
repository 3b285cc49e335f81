"""A user who rates very many new items costs others nothing, and the order of learning changes no bits."""

from typing import Any

import numpy as np
import pytest

from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.data.param_kinds import Params
from gpu.descent.params import SgdParams
from gpu.nmf.params import NmfParams
from gpu.online import exact, prolific
from gpu.online.prolific import Prolific
from tests.gpu.models import KINDS
from tests.gpu.online_models import N_ITEMS, N_USERS, TRAINED_ITEMS, Event, OnlineModel, assert_same_state

HOT, MOST = N_USERS - 1, 2
NEW_ITEMS = range(TRAINED_ITEMS, N_ITEMS)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prolific, "MAX_NEW_ITEMS", MOST)


def random_events(rng: np.random.Generator, n: int) -> list[Event]:
    """Many by one user, so that new items are followed and left alone in turns."""
    events = []
    for _ in range(n):
        user = HOT if rng.random() < 0.5 else int(rng.integers(N_USERS))
        value = None if rng.random() < 0.3 else float(rng.integers(1, 6))
        events.append(Event(user, int(rng.integers(N_ITEMS)), value))
    return events


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.has_item_lists])
def test_the_way_to_a_history_leaves_no_trace(kind: type[Params], seed: int) -> None:
    """Random lists are not those of any ratings: tests/gpu/neighbors trains models of them."""
    events = random_events(np.random.default_rng(seed), 60)
    one, other = OnlineModel(kind, {}), OnlineModel(kind, {})
    for n in range(0, len(events), 5):
        one.learn(events[n : n + 5])
        if n % 3:
            one.settle_in_slices()
    one.settle_in_slices()
    other.learn(events)
    other.online.settle()
    assert_same_state(one, other)


@pytest.mark.usefixtures("few")
def test_new_items_follow_everybody_else() -> None:
    online_model = OnlineModel(
        SgdParams, {(0, item): 4.0 for item in NEW_ITEMS} | {(HOT, item): 1.0 for item in NEW_ITEMS}
    )
    without = OnlineModel(SgdParams, {(0, item): 4.0 for item in NEW_ITEMS})
    online_model.online.settle()
    without.online.settle()
    new = list(NEW_ITEMS)
    np.testing.assert_array_equal(online_model.online.model.item_factors[new], without.online.model.item_factors[new])
    assert (online_model.online.model.item_counts[new] == 2).all()


@pytest.mark.usefixtures("few")
def test_one_more_rating_makes_no_new_item_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    online_model = OnlineModel(AlsParams, {(HOT, item): 1.0 for item in NEW_ITEMS})
    online_model.online.settle()
    refitted: list[int] = []
    refit_items = online_model.online._refits.refit_items

    def spy(items: np.ndarray) -> Any:
        refitted.extend(items.tolist())
        return refit_items(items)

    monkeypatch.setattr(online_model.online._refits, "refit_items", spy)
    online_model.learn([Event(HOT, 0, 5.0)])
    online_model.online.settle()
    assert refitted == []
    online_model.learn([Event(HOT, NEW_ITEMS[0], None)])  # now there are few enough
    online_model.online.settle()
    assert sorted(refitted) == list(NEW_ITEMS)


@pytest.mark.usefixtures("few")
def test_a_user_who_rates_many_trained_items_is_followed() -> None:
    online_model = OnlineModel(SgdParams, {(HOT, item): 1.0 for item in range(TRAINED_ITEMS)})
    raters = np.array([HOT], dtype=np.int32)
    assert len(Prolific(online_model.online.model, online_model.table).others(raters)) == 1


@pytest.mark.parametrize("kind", [AlsParams, AlsImplicitParams, NmfParams])
def test_exact_refits_read_the_newest_ratings_of_a_user(kind: type[Params], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MAX_RATINGS_OF_USERS", 4)
    given = {(HOT, item): float(1 + item % 5) for item in (8, 3, 5, 0, 6, 2, 7)}
    newest = dict(list(given.items())[-4:])
    one, other = OnlineModel(kind, given), OnlineModel(kind, newest)
    one.online.settle()
    other.online.settle()
    np.testing.assert_array_equal(one.online.model.user_factors[HOT], other.online.model.user_factors[HOT])
    assert one.online.model.user_factors[HOT].any()
