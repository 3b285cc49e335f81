"""Trained items that learn online: which of them, from which ratings, and that the way there leaves no trace."""

import copy
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.data.refit_rules import trained_item_rules
from gpu.descent.params import CulshImplicitParams, SgdParams
from gpu.online import drift, sampled
from gpu.online import exact as online_exact
from gpu.online.drift import SHARE, looks
from gpu.online.host import exact
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from tests.gpu.models import KINDS, params_as
from tests.gpu.online_models import (
    N_TRAINED,
    N_USERS,
    RATING,
    TRAINED_ITEMS,
    TRAINED_USERS,
    Event,
    Events,
    OnlineModel,
    assert_same_state,
    catch_up_in_slices,
    learn_in_turns,
    online_model_of,
    watched_refits,
)  # fmt: skip

LEARNING = [kind for kind in KINDS if kind is not CulshImplicitParams and not kind.has_item_weights]
OF_ITEMS = "item_factors", "item_bias", "explicit_weights", "implicit_weights", "item_counts"
BEFORE = [Event(user, item, 1.0 + (user + 2 * item) % 5) for user in range(3) for item in range(TRAINED_ITEMS)]


@pytest.fixture(scope="module", autouse=True)
def small_slices() -> Iterator[None]:
    """Rows of more than four ratings take several slices, and so do a few users that are counted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "ADDS_PER_SLICE", 1)
        patch.setattr(sampled, "ITEMS_AT_ONCE", 2)
        patch.setattr(drift, "USERS_PER_SLICE", 3)
        yield


def learned_items(online_model: OnlineModel, fresh: Model) -> list[int]:
    """Trained items that are not as they were trained."""
    model = online_model.online.model
    return [
        item
        for item in range(TRAINED_ITEMS)
        if any((getattr(model, name)[item] != getattr(fresh, name)[item]).any() for name in OF_ITEMS)
    ]


@given(
    kind=st.sampled_from(KINDS), before=st.lists(RATING, max_size=40), later=st.lists(RATING, max_size=60),
    gone=st.none() | st.integers(0, N_USERS - 1), data=st.data(),
)  # fmt: skip
@settings(max_examples=120, deadline=None)
def test_the_way_to_a_history_leaves_no_trace(
    kind: type[Params], before: Events, later: Events, gone: int | None, data: st.DataObject
) -> None:
    """Batches, turns of work, overwritten and deleted ratings, forgetting, and a start from the snapshot."""
    since, events = len(before), [*before, *later]
    direct = online_model_of(kind, events, since, gone)
    if gone is not None:
        direct.forget(gone)  # the snapshot knows them still
    direct.online.settle(None)

    winding = online_model_of(kind, before, since)
    learn_in_turns(winding, later, data)
    if gone is not None:
        winding.forget(gone)
    catch_up_in_slices(winding)
    assert_same_state(direct, winding)
    assert direct.online.n_waiting == winding.online.n_waiting == 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.has_item_lists])  # those: tests/gpu/neighbors
def test_items_learn_from_new_ratings_and_unlearn_what_is_deleted(kind: type[Params]) -> None:
    online_model = online_model_of(kind, BEFORE, len(BEFORE))
    fresh = copy.deepcopy(online_model.online.model)
    online_model.learn([Event(user, item, 1.0) for user in range(3, TRAINED_USERS) for item in range(3)])
    if not online_model.online.settle(0.0):
        online_model.settle_in_slices()
    assert learned_items(online_model, fresh) == []  # events come first
    catch_up_in_slices(online_model)
    assert learned_items(online_model, fresh) == ([0, 1, 2] if kind in LEARNING else [])
    online_model.learn([Event(user, item, None) for user in range(3, TRAINED_USERS) for item in range(3)])
    catch_up_in_slices(online_model)
    assert learned_items(online_model, fresh) == []


@pytest.mark.parametrize("kind", LEARNING)
def test_what_is_being_refitted_counts_as_waiting(kind: type[Params], monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads ask meanwhile: numba's kernels release the GIL."""
    online_model = online_model_of(kind, BEFORE, len(BEFORE))
    catch_up_in_slices(online_model)
    seen = watched_refits(online_model.online, monkeypatch)
    online_model.learn([Event(user, item, 1.0) for user in range(3, TRAINED_USERS) for item in range(3)])
    online_model.settle_in_slices()
    catch_up_in_slices(online_model)
    assert seen.keys() == {"items", "users"}
    assert min(seen.values()) > 0
    assert online_model.online.n_waiting == 0


@pytest.mark.parametrize("kind", LEARNING)
def test_without_a_position_trained_items_stay(kind: type[Params]) -> None:
    online_model = online_model_of(kind, BEFORE, None)
    fresh = copy.deepcopy(online_model.online.model)
    online_model.learn([Event(user, item, 1.0) for user in range(TRAINED_USERS) for item in range(TRAINED_ITEMS)])
    online_model.online.settle()
    assert learned_items(online_model, fresh) == []


@pytest.mark.parametrize("kind", LEARNING)
def test_an_item_learns_when_a_share_of_its_ratings_is_gone(kind: type[Params]) -> None:
    online_model = online_model_of(kind, BEFORE, len(BEFORE))  # of three ratings each, two were trained
    fresh = copy.deepcopy(online_model.online.model)
    online_model.learn([Event(0, 0, None)])
    catch_up_in_slices(online_model)
    assert learned_items(online_model, fresh) == []
    online_model.learn([Event(1, 0, None)])
    catch_up_in_slices(online_model)
    assert learned_items(online_model, fresh) == [0]


@pytest.mark.parametrize("kind", LEARNING)
def test_ratings_of_new_users_leave_trained_items(kind: type[Params]) -> None:
    online_model = online_model_of(kind, BEFORE, len(BEFORE))
    fresh = copy.deepcopy(online_model.online.model)
    online_model.learn(
        [Event(user, item, 1.0) for user in range(TRAINED_USERS, N_USERS) for item in range(TRAINED_ITEMS)]
    )
    catch_up_in_slices(online_model)
    assert learned_items(online_model, fresh) == []


@pytest.mark.parametrize("kind", LEARNING)
def test_users_read_the_items_as_they_are_now(kind: type[Params]) -> None:
    """A user without changes is refitted too, after an item that the user has rated."""
    online_model = online_model_of(kind, [*BEFORE, Event(0, 5, 2.0)], len(BEFORE))
    catch_up_in_slices(online_model)
    online_model.learn([Event(user, 1, 5.0) for user in range(3, TRAINED_USERS)])
    catch_up_in_slices(online_model)
    model, (items, values, _, _) = online_model.online.model, online_model.table.row(0)
    found = online_model.online.fold_in(items, values)
    if kind is not AlsImplicitParams:  # NMF and all others: the factors of a user with the same ratings
        np.testing.assert_allclose(model.user_factors[0], found.factors[0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", LEARNING)
def test_lists_are_those_of_the_model(kind: type[Params]) -> None:
    history = {(event.user, event.item): event.value for event in BEFORE if event.value is not None}
    online_model = OnlineModel(
        kind, history, since=len(BEFORE), n_trained=40
    )  # most of them are gone: every item learns
    fresh_model = copy.deepcopy(online_model.online.model)
    online_model.learn([Event(user, item, 4.0) for user in range(3, TRAINED_USERS) for item in range(4)])
    catch_up_in_slices(online_model)
    assert learned_items(online_model, fresh_model) == list(range(TRAINED_ITEMS))
    users = np.arange(N_USERS)
    rows = topn.rows_of(online_model.table.rows, users)
    kept, fresh = (
        topn.recommend(index, topn.users_of(online_model.online.model, users), rows, 5, include_seen=True)
        for index in (online_model.online.index, ItemIndex(online_model.online.model))
    )
    assert kept[0].tolist() == fresh[0].tolist()


def test_an_item_of_als_solves_its_system_beside_users_as_a_stronger_ridge_leaves_them() -> None:
    online_model = online_model_of(AlsParams, BEFORE, len(BEFORE))
    online_model.online.model.calibration = replace(online_model.online.model.calibration, density=0.3)
    snapshot = copy.deepcopy(online_model.online.model)
    online_model.learn([Event(user, 0, 5.0) for user in range(3, TRAINED_USERS)])
    catch_up_in_slices(online_model)
    model, params = online_model.online.model, params_as(AlsParams, online_model.online.model)
    raters, values = online_model.table.column(0)
    n_read, _ = looks(3, N_TRAINED)
    assert n_read == 3
    calibration, trained = snapshot.calibration, snapshot.item_trained
    counts, items = snapshot.item_counts[trained].astype(np.float64), snapshot.item_factors[trained].astype(np.float64)
    n = calibration.density * len(items)  # a usual user's ratings; their system, and that with 8 λ
    usual, one = n * (items.T * counts) @ items / counts.sum(), calibration.unit * np.eye(params.n_factors)
    system = usual + (params.regularization * n + calibration.prior) * one
    stronger = np.linalg.inv(usual + (8 * params.regularization * n + calibration.prior) * one)
    users = snapshot.user_factors[raters].astype(np.float64) @ system @ stronger
    observed = np.column_stack([users, np.ones(len(raters))])
    targets = values.astype(np.float64) - snapshot.mean - snapshot.user_bias[raters]
    ridge = params.regularization * len(raters) + calibration.prior
    penalty = ridge * np.append(np.full(params.n_factors, 0.65 * calibration.unit), 1.0)
    expected = np.linalg.solve(observed.T @ observed + np.diag(penalty), observed.T @ targets)
    np.testing.assert_allclose(model.item_factors[0], expected[:-1], rtol=1e-5, atol=1e-6)
    assert model.item_bias[0] == pytest.approx(expected[-1], rel=1e-5)


@pytest.mark.parametrize("kind", LEARNING)
def test_rows_that_come_between_two_slices_change_nothing(kind: type[Params], monkeypatch: pytest.MonkeyPatch) -> None:
    """The model grows between any two slices, also of the sums that the first refit of a trained item needs."""
    monkeypatch.setattr(online_exact, "NUMBERS_PER_SLICE", 1)
    monkeypatch.setattr(exact, "SUMMING_THREADS", 1)
    learned = []
    for is_growing in (False, True):
        online_model = online_model_of(kind, BEFORE, len(BEFORE))
        online_model.online.model.calibration = replace(online_model.online.model.calibration, density=0.3)
        online_model.learn([Event(user, 0, 5.0) for user in range(3, TRAINED_USERS)])
        n_slices = 0
        while not (online_model.online.settle(0.0) and online_model.online.catch_up(0.0)):
            if is_growing:
                online_model.table.grow(online_model.table.n_users + 1, online_model.table.n_items + 1)
                keys = (np.arange(n, dtype=np.uint64) for n in (online_model.table.n_users, online_model.table.n_items))
                online_model.online.grow(*keys)
            n_slices += 1
        learned.append(online_model.online.model.item_factors[:TRAINED_ITEMS].tobytes())
        assert n_slices > 1
    assert learned[0] == learned[1]


def test_an_item_of_sgd_solves_a_ridge_regression_beside_the_snapshots_users() -> None:
    online_model = online_model_of(SgdParams, BEFORE, len(BEFORE))
    snapshot = copy.deepcopy(online_model.online.model)
    online_model.learn([Event(user, 0, 5.0) for user in range(3, TRAINED_USERS)])
    catch_up_in_slices(online_model)
    params = snapshot.params
    assert isinstance(params, SgdParams)
    rules, (raters, values) = trained_item_rules(params, snapshot.calibration.unit), online_model.table.column(0)
    observed = np.column_stack([snapshot.user_factors[raters], np.ones(len(raters))]).astype(np.float64)
    targets = values.astype(np.float64) - snapshot.mean - snapshot.user_bias[raters]
    n = len(raters)
    penalty = np.append(
        np.full(params.n_factors, rules.factor * n + rules.factor_prior), rules.bias * n + rules.bias_prior
    )
    expected = np.linalg.solve(observed.T @ observed + np.diag(penalty), observed.T @ targets)
    np.testing.assert_allclose(online_model.online.model.item_factors[0], expected[:-1], rtol=1e-5, atol=1e-6)


@given(n_new=st.integers(0, 500), n_trained=st.integers(0, 200))
def test_an_item_is_looked_at_when_a_share_is_full(n_new: int, n_trained: int) -> None:
    n_read, due = looks(n_new, n_trained)
    assert n_read <= n_new < due
    assert due - n_read == max(1, int(np.ceil(SHARE * (n_trained + n_read))))
    assert looks(n_read, n_trained) == (n_read, due)


@pytest.mark.parametrize("n_trained", [1, 10, 1000])
def test_the_work_that_a_rating_causes_is_bounded(n_trained: int) -> None:
    """However many come: ratings read by all refits of an item, for each that came."""
    n_read, due, n_new = 0, looks(0, n_trained)[1], 100 * n_trained
    while due <= n_new:
        n_read += n_trained + due
        due = looks(due, n_trained)[1]
    assert n_read <= (1 / SHARE + 1) * (n_trained + n_new)
