from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu import online, rules, simlsh, topn
from gpu.model import Model
from gpu.online import OnlineModel
from gpu.params import CulshImplicitParams, CulshParams, Params, SgdParams
from gpu.table import RatingTable
from tests import reference
from tests.gpu.models import KINDS, dense, matrix_of, random_matrix, random_model, random_params

N_USERS, N_ITEMS = 8, 12
TRAINED_USERS, TRAINED_ITEMS = 6, 9
USER_KEYS = np.random.default_rng(0).integers(0, 2**63, N_USERS).astype(np.uint64)
ITEM_KEYS = np.random.default_rng(1).integers(0, 2**63, N_ITEMS).astype(np.uint64)

Pair = tuple[int, int]
History = dict[Pair, float]
histories = st.dictionaries(
    st.tuples(st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1)), st.integers(1, 5).map(float), max_size=40
)


class Event(NamedTuple):
    user: int
    item: int
    value: float | None


class Service:
    """A table and a model that follows it, as the service has them."""

    def __init__(self, kind: type[Params], history: History) -> None:
        model = random_model(random_params(kind), TRAINED_USERS, TRAINED_ITEMS)
        model.mean = -1.4 if model.is_implicit else 3.5
        self.table, self.position = RatingTable(N_USERS, N_ITEMS), 0
        self._apply([Event(*pair, value) for pair, value in history.items()])
        self.online = OnlineModel(model, self.table, USER_KEYS, ITEM_KEYS)

    def learn(self, events: list[Event]) -> None:
        self.online.note(*self._apply(events))

    def _apply(self, events: list[Event]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        users = np.array([event.user for event in events], dtype=np.int64)
        items = np.array([event.item for event in events], dtype=np.int64)
        new = np.array([np.nan if event.value is None else event.value for event in events], dtype=np.float32)
        positions = np.arange(len(events)) + self.position
        self.position += len(events)
        return users, items, self.table.apply(users, items, new, positions.astype(np.float64), positions), new

    def forget(self, user: int) -> None:
        self.online.forget(user, *self.table.drop_user(user))

    def settle_in_slices(self) -> None:
        for _ in range(10_000):
            if self.online.settle(0.0):
                return
        pytest.fail("never settled")


def assert_same_state(one: Service, other: Service) -> None:
    for name, array in one.online.model.arrays.items():
        if name != "projections":  # hashed only where a list is wanted
            assert array.tobytes() == getattr(other.online.model, name).tobytes(), name


@given(
    kind=st.sampled_from(KINDS), before=histories, after=histories, noise=histories, data=st.data(),
)  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_the_way_to_a_history_leaves_no_trace(
    kind: type[Params], before: History, after: History, noise: History, data: st.DataObject
) -> None:
    """Batching, order, values that were overwritten or deleted, when it settled, and replay from the snapshot."""
    touched = np.array(sorted({user for user, _ in [*before, *after, *noise]}), dtype=np.int64)
    direct = Service(kind, after)
    direct.online.touch(touched)
    direct.settle_in_slices()

    winding = Service(kind, before)
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


@given(kind=st.sampled_from(KINDS), history=histories, gone=st.integers(0, N_USERS - 1), settled=st.booleans())
@settings(deadline=None, max_examples=40)
def test_a_forgotten_user_was_never_seen(kind: type[Params], history: History, gone: int, settled: bool) -> None:
    others = {pair: value for pair, value in history.items() if pair[0] != gone}
    never = Service(kind, others)
    never.forget(gone)  # a snapshot without the user
    never.online.settle()
    forgetting = Service(kind, others)
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
    alone, together = Service(kind, history), Service(kind, history)
    alone.settle_in_slices()
    monkeypatch.setattr(online, "PARALLEL_FROM", 1)
    together.online.settle()
    assert_same_state(alone, together)


def history_of(matrix: np.ndarray) -> History:
    return {(int(user), int(item)): float(matrix[user, item]) for user, item in np.argwhere(~np.isnan(matrix))}


def settled(kind: type[Params], seed: int = 0, density: float = 0.5) -> Service:
    service = Service(kind, history_of(random_matrix(N_USERS, N_ITEMS, density, seed)))
    service.online.touch(np.arange(N_USERS))
    service.online.settle()
    return service


@pytest.mark.parametrize("kind", [SgdParams, CulshParams])
def test_users_solve_the_ridge_regression_of_their_ratings(kind: type[Params]) -> None:
    service = settled(kind)
    model, constants = service.online.model, rules.user_rules(service.online.model.params)
    matrix, arrays = matrix_of(service.table), dense(model)
    ridge = constants.factor, constants.factor_prior, constants.bias, constants.bias_prior
    known = np.where(model.item_trained, matrix, np.nan)
    for user in range(N_USERS):
        rated = matrix[user][~np.isnan(matrix[user])]
        baseline = np.sum(rated - model.mean) / (len(rated) + constants.baseline_prior)
        assert model.user_baseline[user] == pytest.approx(baseline, rel=1e-5)
        expected = reference.refit_user(matrix, arrays, user, ~np.isnan(known[user]), ridge)
        np.testing.assert_allclose(model.user_factors[user], expected[:-1], rtol=1e-4, atol=1e-5)
        assert model.user_bias[user] == pytest.approx(expected[-1], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kind", [SgdParams, CulshParams])
def test_new_items_solve_the_ridge_regression_of_their_raters(kind: type[Params]) -> None:
    service = settled(kind)
    model, constants = service.online.model, rules.item_rules(service.online.model.params)
    ridge = (
        constants.factor, constants.factor_prior, constants.bias, constants.bias_prior,
        constants.weight, constants.weight_prior,
    )  # fmt: skip
    k = model.neighbours.shape[1]
    for item in range(TRAINED_ITEMS, N_ITEMS):
        expected = reference.refit_item(matrix_of(service.table), dense(model), item, ridge)
        found = [*model.item_factors[item], model.item_bias[item]]
        found += [*model.explicit_weights[item], *model.implicit_weights[item]]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        assert (model.neighbours[item] >= 0).sum() == k


def sums_of(service: Service) -> np.ndarray:
    """Sums of simLSH of the present ratings, computed at once."""
    model, ratings = service.online.model, service.table.ratings(USER_KEYS, ITEM_KEYS)
    start = random_model(model.params, TRAINED_USERS, TRAINED_ITEMS)
    start.grow(N_USERS, N_ITEMS)
    columns = ratings.by_item
    items = np.repeat(np.arange(N_ITEMS), columns.lengths)
    baselines = start.user_baseline[columns.items], model.item_baseline[items]
    weights = simlsh.psi(model.params, model.scale, columns.values, model.mean, *baselines)
    return simlsh.weighted_sums(ratings, weights, simlsh.n_words(model.params), model.params.seed)


@pytest.mark.parametrize("kind", [CulshParams, CulshImplicitParams])
def test_lists_of_new_items_follow_every_signature(kind: type[Params]) -> None:
    service = settled(kind, density=0.4)
    rng = np.random.default_rng(8)
    for _ in range(25):
        n = rng.integers(1, 4)
        values = np.where(rng.random(n) < 0.4, None, rng.integers(1, 6, n).astype(float))
        service.learn(
            [Event(*event) for event in zip(rng.integers(0, 8, n), rng.integers(0, 12, n), values, strict=True)]
        )
        service.online.settle()
        model, counts = service.online.model, service.table.item_counts
        sums = sums_of(service)
        np.testing.assert_array_equal(model.projections, sums)
        lists = simlsh.top_k(
            simlsh.signatures(sums), counts, model.neighbours.shape[1], 5, ITEM_KEYS, np.arange(TRAINED_ITEMS, N_ITEMS)
        )
        np.testing.assert_array_equal(model.neighbours[TRAINED_ITEMS:], lists.neighbours)


def test_nothing_is_hashed_while_every_item_is_trained() -> None:
    service = Service(CulshParams, {(0, 0): 4.0, (7, 3): 2.0})
    before = service.online.model.projections.copy()
    service.learn([Event(1, 1, 5.0)])
    assert service.online.settle()
    np.testing.assert_array_equal(service.online.model.projections, before)


def test_untouched_users_and_trained_items_keep_what_they_learned() -> None:
    service = Service(CulshParams, {(user, item): 3.0 for user in range(6) for item in range(0, 9, 2)})
    before = {name: array.copy() for name, array in service.online.model.arrays.items()}
    service.learn([Event(2, 1, 5.0), Event(6, 11, 4.0)])
    service.online.settle()
    for name, array in service.online.model.arrays.items():
        if name.startswith("user"):
            np.testing.assert_array_equal(np.delete(array, [2, 6], 0), np.delete(before[name], [2, 6], 0))
        elif name != "projections":
            np.testing.assert_array_equal(array[:TRAINED_ITEMS], before[name][:TRAINED_ITEMS])
    assert (service.online.model.user_factors[2] != before["user_factors"][2]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_one_rating_makes_a_user_personal(kind: type[Params]) -> None:
    service = Service(kind, {})
    service.learn([Event(6, 4, 5.0), Event(7, 2, 1.0)])
    service.online.settle()
    users = topn.users_of(service.online.model, np.array([6, 7]))
    assert users.factors.any(axis=1).all()
    rows = topn.rows_of(service.table.rows, np.array([6, 7]))
    hidden = np.zeros(N_ITEMS, dtype=np.bool_)
    items, _ = topn.recommend(
        service.online.model, users, rows, N_ITEMS, hidden=hidden, index=service.online.index, include_seen=True
    )
    assert items[0].tolist() != items[1].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_the_index_is_kept_up(kind: type[Params]) -> None:
    service = settled(kind)
    model = service.online.model
    users, hidden = np.arange(N_USERS), np.zeros(N_ITEMS, dtype=np.bool_)
    args = model, topn.users_of(model, users), topn.rows_of(service.table.rows, users), N_ITEMS
    kept = topn.recommend(*args, hidden=hidden, index=service.online.index, include_seen=True)
    fresh = topn.recommend(*args, hidden=hidden, include_seen=True)
    np.testing.assert_array_equal(kept[0], fresh[0])
    np.testing.assert_array_equal(kept[1], fresh[1])


def test_deleting_every_rating_leaves_nothing_learned() -> None:
    service = Service(CulshParams, {(7, 2): 5.0, (7, 11): 5.0})
    service.online.settle()
    assert service.online.model.item_factors[11].any()
    service.learn([Event(7, 2, None), Event(7, 11, None)])
    service.online.settle()
    model = service.online.model
    for array in (model.user_factors[7], model.user_bias[7], model.item_factors[11], model.explicit_weights[11]):
        assert not np.any(array)
    assert (model.neighbours[11] == -1).all()


def test_a_long_history_is_cut_to_its_newest_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_RATINGS_OF_USERS", 3)
    newest = {(6, 1): 5.0, (6, 8): 1.0, (6, 4): 2.0}
    long = Service(CulshParams, {(6, 0): 4.0, (6, 3): 3.0, **newest})
    short = Service(CulshParams, newest)
    for service in (long, short):
        service.online.settle()
    np.testing.assert_array_equal(long.online.model.user_factors[6], short.online.model.user_factors[6])
    assert long.online.model.user_bias[6] == short.online.model.user_bias[6]


@pytest.mark.parametrize("kind", [SgdParams, CulshParams])
def test_an_anonymous_user_gets_what_a_known_one_would(kind: type[Params]) -> None:
    service = settled(kind)
    items, values, _, _ = service.table.row(3)
    folded = service.online.fold_in(items, values)
    for one, other in zip(folded, topn.users_of(service.online.model, np.array([3])), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_anonymous_user_of_an_implicit_model_leaves_no_trace() -> None:
    service = settled(CulshImplicitParams)
    before = {name: array.copy() for name, array in service.online.model.arrays.items()}
    one, other = (service.online.fold_in(np.array([1, 4]), np.array([5, 1], dtype=np.float32)) for _ in range(2))
    assert one.factors.any()
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first, second)
    for name, array in service.online.model.arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_agreement_is_the_share_of_equal_bits() -> None:
    service = settled(CulshParams)
    packed = simlsh.signatures(sums_of(service))
    bits = np.unpackbits(packed.view(np.uint8), axis=1)
    shares = service.online.agreement(2, np.array([0, 2, 10]))
    np.testing.assert_allclose(shares, [(bits[2] == bits[other]).mean() for other in (0, 2, 10)], rtol=1e-6)


def test_growing_with_the_table() -> None:
    service = Service(CulshParams, {(0, 1): 3.0})
    service.online.settle()
    service.table.grow(N_USERS + 5, N_ITEMS + 5)
    users = np.append(USER_KEYS, np.arange(5, dtype=np.uint64))
    items = np.append(ITEM_KEYS, np.arange(5, dtype=np.uint64))
    service.online.grow(users, items)
    service.learn([Event(N_USERS + 4, 1, 5.0), Event(N_USERS + 4, N_ITEMS + 4, 5.0)])
    service.online.settle()
    model = service.online.model
    assert isinstance(model, Model)
    assert (model.n_users, model.n_items) == (N_USERS + 5, N_ITEMS + 5)
    assert model.user_factors[-1].any()
    assert model.item_factors[-1].any()


@pytest.mark.parametrize("kind", KINDS)
def test_an_item_with_very_many_raters_reads_some_of_them(kind: type[Params], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_RATERS", 3)
    monkeypatch.setattr(rules, "MAX_RATERS_IMPLICIT", 3)
    everybody = {(user, item): float(1 + (user * item) % 5) for user in range(N_USERS) for item in (2, 10)}
    ways = Service(kind, everybody), Service(kind, {})
    for pair in sorted(everybody, reverse=True):
        ways[1].learn([Event(*pair, everybody[pair])])
        ways[1].online.settle()
    for service in ways:
        service.online.touch(np.arange(N_USERS))
        service.online.settle()
    assert_same_state(*ways)
    assert ways[0].online.model.item_factors[10].any()
