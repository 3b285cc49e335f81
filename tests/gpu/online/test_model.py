import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.data import refit_rules
from gpu.data.model import Model
from gpu.data.param_kinds import GradientParams, Params
from gpu.descent.params import CulshImplicitParams, CulshParams, EsgdParams, SgdParams
from gpu.online import explain, sampled
from gpu.online.exact import add_side
from gpu.online.host import exact
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from tests import reference
from tests.gpu.models import KINDS, dense, matrix_of, params_as, random_matrix
from tests.gpu.online_models import (
    ITEM_KEYS,
    MEANS,
    N_ITEMS,
    N_USERS,
    TRAINED_ITEMS,
    TRAINED_USERS,
    USER_KEYS,
    Event,
    History,
    OnlineModel,
    assert_same_state,
    catch_up_in_slices,
    histories,
    history_of,
    settled,
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def short_slices() -> Iterator[None]:
    """Rows of more than four ratings are refitted in several slices, between which something may happen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "ADDS_PER_SLICE", 1)
        yield


@given(
    kind=st.sampled_from(KINDS), before=histories, after=histories, noise=histories, data=st.data(),
)  # fmt: skip
@settings(max_examples=60)
def test_the_way_to_a_history_leaves_no_trace(
    kind: type[Params], before: History, after: History, noise: History, data: st.DataObject
) -> None:
    """Batching, order, values that were overwritten or deleted, when it settled, and replay from the snapshot."""
    touched = np.array(sorted({user for user, _ in [*before, *after, *noise]}), dtype=np.int64)
    direct = OnlineModel(kind, after)
    direct.online.touch(touched)
    catch_up_in_slices(direct)

    winding = OnlineModel(kind, before)
    winding.online.touch(touched)
    events = [Event(*pair, value) for pair, value in noise.items()]
    events += [Event(*pair, None) for pair in [*before, *noise] if pair not in after]
    events += [Event(*pair, value) for pair, value in data.draw(st.permutations(list(after.items())))]
    while events:
        n = data.draw(st.integers(1, len(events)))
        winding.learn(events[:n])
        events = events[n:]
        for _ in range(data.draw(st.integers(0, 3))):
            winding.online.settle(0.0)
    winding.online.settle(None)
    assert_same_state(direct, winding)


@pytest.mark.parametrize("kind", KINDS)
def test_new_items_have_as_many_ratings_as_they_have_raters(kind: type[Params]) -> None:
    online_model = settled(kind)
    trained = online_model.online.model.item_counts[:TRAINED_ITEMS].copy()
    history = history_of(matrix_of(online_model.table))
    online_model.learn([Event(user, TRAINED_ITEMS, 4.0) for user in range(N_USERS)])
    online_model.learn([Event(*pair, None) for pair in history if pair[1] == TRAINED_ITEMS + 1])
    online_model.online.settle()
    model, expected = online_model.online.model, online_model.table.item_counts
    if not kind.has_item_lists:  # these learn from all ratings, of new and of trained items
        assert model.item_counts[:TRAINED_ITEMS].tolist() == trained.tolist()
    assert model.item_counts[TRAINED_ITEMS:].tolist() == expected[TRAINED_ITEMS:].tolist()
    assert model.item_counts[TRAINED_ITEMS : TRAINED_ITEMS + 2].tolist() == [N_USERS, 0]
    users = np.arange(N_USERS)
    kept, fresh = (
        topn.recommend(index, topn.users_of(model, users), topn.rows_of(online_model.table.rows, users), 5)
        for index in (online_model.online.index, ItemIndex(model))
    )
    assert kept[0].tolist() == fresh[0].tolist()
    assert kept[1].tobytes() == fresh[1].tobytes()


@given(kind=st.sampled_from(KINDS), history=histories, gone=st.integers(0, N_USERS - 1), settled=st.booleans())
@settings(max_examples=40)
def test_a_forgotten_user_was_never_seen(kind: type[Params], history: History, gone: int, settled: bool) -> None:
    others = {pair: value for pair, value in history.items() if pair[0] != gone}
    never = OnlineModel(kind, others)
    never.forget(gone)  # a snapshot without the user
    never.online.settle()
    forgetting = OnlineModel(kind, others)
    forgetting.learn([Event(*pair, value) for pair, value in history.items() if pair[0] == gone])
    if settled:
        forgetting.online.settle()
    forgetting.forget(gone)
    forgetting.online.settle()
    assert_same_state(never, forgetting)
    assert not forgetting.online.model.user_factors[gone].any()
    assert not forgetting.online.model.user_trained[gone]


@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_nothing(kind: type[Params], monkeypatch: pytest.MonkeyPatch) -> None:
    history = history_of(random_matrix(N_USERS, N_ITEMS, 0.5))
    alone, together = OnlineModel(kind, history), OnlineModel(kind, history)
    catch_up_in_slices(alone)
    for refits in (exact, sampled):
        monkeypatch.setattr(refits, "PARALLEL_FROM", 1)
    together.online.settle()
    assert_same_state(alone, together)


@pytest.mark.parametrize("kind", [SgdParams, EsgdParams, CulshParams])
def test_users_solve_the_ridge_regression_of_their_ratings(kind: type[Params]) -> None:
    online_model = settled(kind)
    model = online_model.online.model
    params = params_as(GradientParams, model)
    constants = refit_rules.user_rules(params)
    matrix, arrays = matrix_of(online_model.table), dense(model)
    ridge = refit_rules.SHARE_BESIDE_SPREAD * params.regularization, 0, constants.bias, constants.bias_prior
    spread = reference.spread_prior(arrays, model.item_trained, refit_rules.SPREAD_PRIOR, refit_rules.SPREAD_FLOOR)
    known = np.where(model.item_trained, matrix, np.nan)
    for user in range(N_USERS):
        rated = matrix[user][~np.isnan(matrix[user])]
        baseline = np.sum(rated - model.mean) / (len(rated) + constants.baseline_prior)
        assert model.user_baseline[user] == pytest.approx(baseline, rel=1e-5)
        expected = reference.refit_user(matrix, arrays, user, ~np.isnan(known[user]), ridge, spread)
        np.testing.assert_allclose(model.user_factors[user], expected[:-1], rtol=1e-4, atol=1e-5)
        assert model.user_bias[user] == pytest.approx(expected[-1], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kind", [SgdParams, EsgdParams, CulshParams])
def test_new_items_solve_the_ridge_regression_of_their_raters(kind: type[Params]) -> None:
    online_model = settled(kind)
    model = online_model.online.model
    constants = refit_rules.item_rules(params_as(GradientParams, model))
    ridge = (
        constants.factor, constants.factor_prior, constants.bias, constants.bias_prior,
        constants.weight, constants.weight_prior,
    )  # fmt: skip
    k = model.neighbors.shape[1]
    for item in range(TRAINED_ITEMS, N_ITEMS):
        expected = reference.refit_item(matrix_of(online_model.table), dense(model), item, ridge)
        found = [*model.item_factors[item], model.item_bias[item]]
        found += [*model.explicit_weights[item], *model.implicit_weights[item]]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        assert (model.neighbors[item] >= 0).sum() == k


def test_untouched_users_and_trained_items_keep_what_they_learned() -> None:
    online_model = OnlineModel(CulshParams, {(user, item): 3.0 for user in range(6) for item in range(0, 9, 2)})
    before = {name: array.copy() for name, array in online_model.online.model.arrays.items()}
    online_model.learn([Event(2, 1, 5.0), Event(6, 11, 4.0)])
    online_model.online.settle()
    for name, array in online_model.online.model.arrays.items():
        if name.startswith("user"):
            np.testing.assert_array_equal(np.delete(array, [2, 6], 0), np.delete(before[name], [2, 6], 0))
        elif name != "projections":
            np.testing.assert_array_equal(array[:TRAINED_ITEMS], before[name][:TRAINED_ITEMS])
    assert (online_model.online.model.user_factors[2] != before["user_factors"][2]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_one_rating_makes_a_user_personal(kind: type[Params]) -> None:
    online_model = OnlineModel(kind, {})
    online_model.learn([Event(6, 4, 5.0), Event(7, 2, 1.0)])
    online_model.online.settle()
    users = topn.users_of(online_model.online.model, np.array([6, 7]))
    has_factor = not kind.has_item_weights or kind.has_item_lists  # else only who likes nothing has one
    assert users.factors.any(axis=1).tolist() == [has_factor, True]
    rows = topn.rows_of(online_model.table.rows, np.array([6, 7]))
    items, _ = topn.recommend(online_model.online.index, users, rows, N_ITEMS, include_seen=True)
    if not kind.has_item_lists:  # nobody has rated two items, so none lists another
        assert items[0].tolist() != items[1].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_the_index_is_kept_up(kind: type[Params]) -> None:
    online_model = settled(kind)
    model = online_model.online.model
    users = np.arange(N_USERS)
    args = topn.users_of(model, users), topn.rows_of(online_model.table.rows, users), N_ITEMS
    kept = topn.recommend(online_model.online.index, *args, include_seen=True)
    fresh = topn.recommend(ItemIndex(model), *args, include_seen=True)
    np.testing.assert_array_equal(kept[0], fresh[0])
    np.testing.assert_array_equal(kept[1], fresh[1])


def test_deleting_every_rating_leaves_nothing_learned() -> None:
    online_model = OnlineModel(CulshParams, {(7, 2): 5.0, (7, 11): 5.0})
    online_model.online.settle()
    assert online_model.online.model.item_factors[11].any()
    online_model.learn([Event(7, 2, None), Event(7, 11, None)])
    online_model.online.settle()
    model = online_model.online.model
    for array in (model.user_factors[7], model.user_bias[7], model.item_factors[11], model.explicit_weights[11]):
        assert not np.any(array)
    assert (model.neighbors[11] == -1).all()


def test_a_long_history_is_cut_to_its_newest_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refit_rules, "MAX_RATINGS_OF_USERS", 3)
    newest = {(6, 1): 5.0, (6, 8): 1.0, (6, 4): 2.0}
    long = OnlineModel(CulshParams, {(6, 0): 4.0, (6, 3): 3.0, **newest})
    short = OnlineModel(CulshParams, newest)
    for online_model in (long, short):
        online_model.online.settle()
    np.testing.assert_array_equal(long.online.model.user_factors[6], short.online.model.user_factors[6])
    assert long.online.model.user_bias[6] == short.online.model.user_bias[6]


@pytest.mark.parametrize("kind", [SgdParams, EsgdParams, CulshParams])
def test_an_anonymous_user_gets_what_a_known_one_would(kind: type[Params]) -> None:
    online_model = settled(kind)
    items, values, _, _ = online_model.table.row(3)
    folded = online_model.online.fold_in(items, values)
    for one, other in zip(folded, topn.users_of(online_model.online.model, np.array([3])), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_anonymous_user_of_an_implicit_model_leaves_no_trace() -> None:
    online_model = settled(CulshImplicitParams)
    before = {name: array.copy() for name, array in online_model.online.model.arrays.items()}
    one, other = (online_model.online.fold_in(np.array([1, 4]), np.array([5, 1], dtype=np.float32)) for _ in range(2))
    assert one.factors.any()
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first, second)
    for name, array in online_model.online.model.arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_growing_with_the_table() -> None:
    online_model = OnlineModel(CulshParams, {(0, 1): 3.0})
    online_model.online.settle()
    online_model.table.grow(N_USERS + 5, N_ITEMS + 5)
    users = np.append(USER_KEYS, np.arange(5, dtype=np.uint64))
    items = np.append(ITEM_KEYS, np.arange(5, dtype=np.uint64))
    online_model.online.grow(users, items)
    online_model.learn([Event(N_USERS + 4, 1, 5.0), Event(N_USERS + 4, N_ITEMS + 4, 5.0)])
    online_model.online.settle()
    model = online_model.online.model
    assert isinstance(model, Model)
    assert (model.n_users, model.n_items) == (N_USERS + 5, N_ITEMS + 5)
    assert model.user_factors[-1].any()
    assert model.item_factors[-1].any()


@pytest.mark.parametrize("kind", KINDS)
def test_an_item_with_very_many_raters_reads_some_of_them(kind: type[Params], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refit_rules, "MAX_RATERS", 3)
    monkeypatch.setattr(refit_rules, "MAX_RATERS_IMPLICIT", 3)
    everybody = {(user, item): float(3 + (user * item) % 3) for user in range(N_USERS) for item in (2, 10)}
    ways = OnlineModel(kind, everybody), OnlineModel(kind, {})
    for pair in sorted(everybody, reverse=True):
        ways[1].learn([Event(*pair, everybody[pair])])
        ways[1].online.settle()
    for online_model in ways:
        online_model.online.touch(np.arange(N_USERS))
        online_model.online.settle()
    assert_same_state(*ways)
    assert ways[0].online.model.item_factors[10].any() == (kind.has_item_lists or not kind.has_item_weights)


@pytest.mark.parametrize("kind", KINDS)
def test_items_that_come_before_the_first_refit(kind: type[Params]) -> None:
    """Sums over the snapshot are made in slices, between which the model may grow."""
    keys = np.append(ITEM_KEYS, np.arange(4, dtype=np.uint64))
    online_model = OnlineModel(kind, history_of(random_matrix(N_USERS, N_ITEMS, 0.5)))
    for n in range(1, 4):
        online_model.online.settle(0.0)
        online_model.table.grow(N_USERS, N_ITEMS + n)
        online_model.online.grow(USER_KEYS, keys[: N_ITEMS + n])
        online_model.learn([Event(n, N_ITEMS + n - 1, 5.0)])
    online_model.settle_in_slices()
    are_learned = online_model.online.model.item_factors[N_ITEMS : N_ITEMS + 3].any(axis=1)
    assert are_learned.tolist() == [kind.has_item_lists or not kind.has_item_weights] * 3


@dataclass(frozen=True)
class Plain(Params):
    """Of an algorithm that says nothing but its name: it learns from likes, and refits nothing."""

    algorithm: ClassVar[str] = "plain"
    is_implicit: ClassVar[bool] = True


def test_a_model_without_refits_learns_only_who_has_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEANS, Plain, 0.0)
    online_model = OnlineModel(Plain, {(0, 1): 5.0})
    items = online_model.online.model.item_factors.copy()
    online_model.learn([Event(3, 1, 5.0), Event(TRAINED_USERS, TRAINED_ITEMS, 4.0), Event(0, 1, None)])
    online_model.settle_in_slices()
    catch_up_in_slices(online_model)
    model = online_model.online.model
    np.testing.assert_array_equal(model.item_factors, items)
    assert model.user_factors[[0, 3, TRAINED_USERS], 0].tolist() == [0, 1, 1]
    rated = np.array([1, 2])
    assert not explain.shares(model, rated, np.full(2, 5, dtype=np.float32), np.arange(3)).any()


def test_a_dropped_generator_has_no_threads_to_end() -> None:
    """The collector may close it within the start of a thread, which the end of its own threads would wait for."""
    generator = add_side(np.zeros((3, 3)), np.ones((100_000, 3), dtype=np.float32), np.ones(100_000, bool), 1.0)
    next(generator)
    before = set(threading.enumerate())
    generator.close()
    assert set(threading.enumerate()) == before
    assert {thread.name[:6] for thread in before} >= {"online"}
