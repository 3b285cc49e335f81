from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.als.params import AlsParams
from gpu.base.backend import Backend
from gpu.base.errors import InvalidInput
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.data.rating_table import RatingTable
from gpu.data.signals import Calibration
from gpu.descent.params import CulshParams
from gpu.ranking import host_topn as host
from gpu.ranking import topn
from gpu.ranking.eligible import Eligible
from gpu.ranking.host_item_index import PANEL
from gpu.ranking.item_index import ItemIndex
from tests import reference
from tests.gpu.models import KINDS, dense, matrix_of, random_matrix, random_model, random_params, table_of


def ask(
    index: ItemIndex, table: RatingTable, users: list[int], n: int, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    rows = topn.rows_of(table.rows, np.array(users))
    return topn.recommend(index, topn.users_of(index.model, np.array(users)), rows, n, **options)


def expected_scores(model: Model, table: RatingTable, user: int) -> np.ndarray:
    matrix, arrays = matrix_of(table), dense(model)
    return np.array([reference.list_score(matrix, arrays, user, item) for item in range(model.n_items)])


def assert_ranked(items: np.ndarray, scores: np.ndarray, exact: np.ndarray, allowed: np.ndarray) -> None:
    """Scores as the oracle's, in order, and no allowed item left out that is better than the last."""
    found = items[items >= 0]
    assert len(set(found.tolist())) == len(found) == min(len(items), allowed.sum())
    assert allowed[found].all()
    np.testing.assert_allclose(scores[: len(found)], exact[found], rtol=1e-5, atol=1e-5)
    assert (np.diff(scores[: len(found)]) <= 0).all()
    left_out = allowed.copy()
    left_out[found] = False
    if left_out.any():
        assert exact[left_out].max() <= exact[found].min() + 1e-5
    assert (scores[len(found) :] == -np.inf).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_items", "n_factors"), [(7, 5), (PANEL + 5, 8)])
def test_lists_are_those_of_a_full_sort(kind: type[Params], n_items: int, n_factors: int, backend: Backend) -> None:
    model = random_model(random_params(kind, n_factors), 9, n_items)
    table = table_of(random_matrix(9, n_items, 0.3))
    index, users = ItemIndex(model, backend), [3, 0, 8, 3, 5]
    for seen in (False, True):
        items, scores = ask(index, table, users, 10, include_seen=seen)
        for b, user in enumerate(users):
            allowed = np.ones(n_items, dtype=bool)
            allowed[table.row(user)[0]] = seen
            assert_ranked(items[b], scores[b], expected_scores(model, table, user), allowed)


@given(data=st.data())
@settings(max_examples=30)
def test_masks_offsets_and_pages(backend: Backend, data: st.DataObject) -> None:
    model = random_model(random_params(data.draw(st.sampled_from(KINDS))), 4, 12, seed=data.draw(st.integers(0, 9)))
    table = table_of(random_matrix(4, 12, 0.3, seed=1))
    some = st.lists(st.integers(0, 11), max_size=8).map(lambda rows: np.array(rows, dtype=np.int64))
    hidden = np.zeros(12, dtype=np.bool_)
    hidden[data.draw(some)] = True
    exclude, candidates, among = data.draw(some), data.draw(st.one_of(st.none(), some)), data.draw(some)
    eligible = data.draw(st.sampled_from([None, Eligible.of(np.isin(np.arange(9), among))]))
    allowed = ~hidden
    allowed[exclude] = False
    allowed[table.row(2)[0]] = False
    if candidates is not None:
        allowed &= np.isin(np.arange(12), candidates)
    if eligible is not None:
        allowed &= eligible.mask(12)
    index = ItemIndex(model, backend)
    options = {"exclude": [exclude], "candidates": [candidates], "eligible": [eligible]}
    index.hide(hidden)
    items, scores = ask(index, table, [2], 12, **options)
    assert_ranked(items[0], scores[0], expected_scores(model, table, 2), allowed)
    offset, n = data.draw(st.integers(0, 13)), data.draw(st.integers(1, 12))
    page, page_scores = ask(index, table, [2], n, offset=offset, **options)
    padded = np.append(items[0], np.full(25, -1))
    assert page[0].tolist() == padded[offset : offset + n].tolist()
    assert page_scores.shape == (1, n)


def test_ties_go_to_the_lower_row(backend: Backend) -> None:
    model = Model.zeros(random_params(CulshParams), 3.0, (1, 5), 1, 600, 0)
    model.item_bias[[7, 400]] = 1
    items, scores = ask(ItemIndex(model, backend), RatingTable(1, 600), [0], 5)
    assert items[0].tolist() == [7, 400, 0, 1, 2]
    assert scores[0].tolist() == [4, 4, 3, 3, 3]


@pytest.mark.parametrize("kind", [CulshParams, AlsParams])
def test_an_answer_does_not_depend_on_its_batch(
    kind: type[Params], backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = ItemIndex(random_model(random_params(kind, 10), 40, 700), backend)
    table = table_of(random_matrix(40, 700, 0.1))
    everyone = list(range(40))
    together = ask(index, table, everyone, 20)
    alone = [ask(index, table, [user], 20) for user in everyone]
    monkeypatch.setattr(host, "PARALLEL_FROM", 0)
    in_parallel = ask(index, table, everyone, 20)
    among_candidates = ask(index, table, everyone, 20, candidates=[np.arange(700)] + [None] * 39)
    filtered = ask(index, table, everyone, 20, eligible=[None] * 3 + [Eligible.of(np.ones(700, dtype=bool))] * 37)
    for b in everyone:
        for answers in zip(alone[b], together, in_parallel, among_candidates, filtered, strict=True):
            assert len({answers[0][0].tobytes(), *(answer[b].tobytes() for answer in answers[1:])}) == 1


def test_hidden_items_come_back(backend: Backend) -> None:
    index, table = ItemIndex(random_model(random_params(CulshParams), 3, 300), backend), RatingTable(3, 300)
    before = ask(index, table, [1], 300)
    hidden = np.zeros(400, dtype=np.bool_)
    hidden[before[0][0][:50]] = True
    index.hide(hidden)
    assert ask(index, table, [1], 250)[0].tolist() == before[0][:, 50:].tolist()
    index.hide(np.zeros(300, dtype=np.bool_))
    np.testing.assert_array_equal(ask(index, table, [1], 300)[1], before[1])
    with pytest.raises(InvalidInput, match="Invalid length of hidden: expected at least 300"):
        index.hide(hidden[:299])


def test_candidates_in_few_panels(backend: Backend) -> None:
    model, table = random_model(random_params(CulshParams), 3, 3 * PANEL), table_of(random_matrix(3, 3 * PANEL, 0.2))
    some, exclude = np.array([700, 3, 700, 5, 9999]), np.array([600, 5])
    items, scores = ask(ItemIndex(model, backend), table, [1], 9, candidates=[some], exclude=[exclude])
    allowed = np.zeros(3 * PANEL, dtype=bool)
    allowed[[3, 700]] = True
    allowed[table.row(1)[0]] = False
    assert_ranked(items[0], scores[0], expected_scores(model, table, 1), allowed)


@pytest.mark.parametrize("kind", KINDS)
def test_filters_while_items_arrive(kind: type[Params], backend: Backend) -> None:
    n_items = PANEL + 4
    model, table = random_model(random_params(kind), 9, n_items), table_of(random_matrix(9, n_items, 0.2))
    index, rng, some = ItemIndex(model, backend), np.random.default_rng(3), np.arange(0, n_items, 3)
    filters = [rng.permutation(n_items) < n for n in (0, 1, n_items // 2, n_items - 1, n_items)]
    shared = Eligible.of(filters[2])
    eligible = [*map(Eligible.of, filters), None, shared, shared, shared]  # the last of these users shares no read
    candidates = [None] * 7 + [some, None]
    for n_new in (0, 40):
        model.grow(9, n_items + n_new)
        table.grow(9, n_items + n_new)
        index.refresh(np.zeros(0, dtype=np.int64))
        items, scores = ask(index, table, list(range(9)), 12, eligible=eligible, candidates=candidates)
        for user, one in enumerate(eligible):
            allowed = np.ones(n_items + n_new, dtype=bool) if one is None else one.mask(n_items + n_new)
            if candidates[user] is not None:
                allowed &= np.isin(np.arange(n_items + n_new), some)
            allowed[table.row(user)[0]] = False
            assert_ranked(items[user], scores[user], expected_scores(model, table, user), allowed)


def test_panels_without_eligible_items_are_skipped(backend: Backend) -> None:
    model, table = random_model(random_params(CulshParams), 9, 4 * PANEL), table_of(random_matrix(9, 4 * PANEL, 0.2))
    mask = np.zeros(4 * PANEL, dtype=bool)
    mask[[2 * PANEL, 3 * PANEL - 1]] = True
    index, eligible = ItemIndex(model, backend), [Eligible.of(mask)] * 9
    items, scores = ask(index, table, list(range(9)), 5, include_seen=True, eligible=eligible)
    for user in range(9):
        assert_ranked(items[user], scores[user], expected_scores(model, table, user), mask)
    with pytest.raises(InvalidInput, match=r"Invalid length of eligible: expected one per user \(9\), got 8"):
        ask(index, table, list(range(9)), 5, eligible=eligible[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_estimates(kind: type[Params]) -> None:
    model, table = random_model(random_params(kind), 6, 15), table_of(random_matrix(6, 15))
    users, items = np.repeat(np.arange(6), 15), np.tile(np.arange(15), 6)
    found = topn.estimate(model, topn.users_of(model, users), topn.rows_of(table.rows, users), items[:, None])[:, 0]
    matrix, arrays = matrix_of(table), dense(model)
    exact = np.array([reference.score(matrix, arrays, user, item) for user, item in zip(users, items, strict=True)])
    exact = 1 / (1 + np.exp(-exact)) if model.params.is_logit else np.clip(exact, *model.scale)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimate_does_not_depend_on_other_pairs(kind: type[Params]) -> None:
    model, table = random_model(random_params(kind, 13), 6, 15), table_of(random_matrix(6, 15))
    several, items = np.array([4, 1, 5]), np.random.default_rng(0).integers(-1, 15, (3, 40))
    found = topn.estimate(model, topn.users_of(model, several), topn.rows_of(table.rows, several), items)
    assert (np.isnan(found) == (items < 0)).all()
    for b, n in np.argwhere(items >= 0).tolist():
        user = several[b : b + 1]
        one = topn.estimate(
            model, topn.users_of(model, user), topn.rows_of(table.rows, user), items[b : b + 1, n : n + 1]
        )
        assert one.tobytes() == found[b, n].tobytes()


@pytest.mark.parametrize("kind", [AlsParams, CulshParams])
def test_explicit_models_list_what_few_have_rated_below_its_estimate(kind: type[Params], backend: Backend) -> None:
    model, table = random_model(random_params(kind), 1, 4), RatingTable(1, 5)
    model.item_factors[:], model.explicit_weights[:], model.implicit_weights[:], model.item_bias[:] = 0, 0, 0, 0
    model.item_counts[:], model.calibration = [99, 9, 0, 99], Calibration(unit=2.0)
    model.item_trained[2:] = False
    model.item_counts[3] = 5000  # of an item that is newer: counts as many as the most rated one
    index = ItemIndex(model, backend)
    model.grow(1, 5)
    index.refresh(np.zeros(0, dtype=np.int64))
    items, scores = ask(index, table, [0], 5, include_seen=True)
    assert items[0].tolist() == [0, 3, 1, 2, 4]
    base = model.mean + model.user_bias[0]
    amounts = 2 * np.log([1, 1, 10, 100, 100])
    np.testing.assert_allclose(scores[0], base - amounts, rtol=1e-6)


def test_lists_of_models_without_counts_are_ordered_by_the_estimate(backend: Backend) -> None:
    model, table = random_model(random_params(AlsParams), 3, 9), table_of(random_matrix(3, 9))
    model.item_trained[5:], model.item_counts[:5] = False, 0  # items that are newer have been counted since
    matrix, arrays = matrix_of(table), dense(model)
    exact = np.array([reference.score(matrix, arrays, 1, item) for item in range(9)])
    items, scores = ask(ItemIndex(model, backend), table, [1], 9, include_seen=True)
    assert_ranked(items[0], scores[0], exact, np.ones(9, dtype=bool))


def test_similar_rows_by_cosine() -> None:
    factors = np.array([[1, 0], [0, 0], [2, 2], [-1, 0], [5, 0.1], [2, 2]], dtype=np.float32)
    allowed = np.ones(6, dtype=np.bool_)
    rows, cosines = topn.similar(factors, 0, 4, allowed)
    assert rows.tolist() == [4, 2, 5, 3]
    np.testing.assert_allclose(cosines, [5 / np.hypot(5, 0.1), 0.5**0.5, 0.5**0.5, -1], rtol=1e-6)
    allowed[4] = False
    assert topn.similar(factors, 0, 2, allowed)[0].tolist() == [2, 5]
    assert len(topn.similar(factors, 1, 2, allowed)[0]) == 0


@pytest.mark.parametrize("n_factors", [1, 7, 64])
def test_similar_rows_among_many(n_factors: int) -> None:
    rng = np.random.default_rng(n_factors)
    factors = rng.standard_normal((5001, n_factors)).astype(np.float32)
    factors[rng.random(5001) < 0.1] = 0
    factors[7], allowed = rng.standard_normal(n_factors), rng.random(5001) < 0.8
    exact, norms = factors.astype(np.float64), np.linalg.norm(factors.astype(np.float64), axis=1)
    expected = exact @ exact[7] / np.where(norms > 0, norms * norms[7], 1)
    expected[~allowed | (norms == 0)] = expected[7] = -np.inf
    rows, cosines = topn.similar(factors, 7, 50, allowed)
    np.testing.assert_allclose(cosines, np.sort(expected)[::-1][:50], rtol=1e-5)
    np.testing.assert_allclose(expected[rows], cosines, rtol=1e-5)
    assert len(set(rows.tolist())) == 50


@pytest.mark.parametrize("options", [{"n": 0}, {"n": 1001}, {"offset": -1}])
def test_impossible_questions_are_refused(options: dict[str, int]) -> None:
    index = ItemIndex(random_model(random_params(CulshParams), 2, 5))
    with pytest.raises(InvalidInput, match="Invalid"):
        ask(index, RatingTable(2, 5), [0], **{"n": 5, **options})


def test_a_model_without_items_recommends_nothing(backend: Backend) -> None:
    model = Model.zeros(random_params(CulshParams), 3.0, (1, 5), 1, 0, 0)
    items, scores = ask(ItemIndex(model, backend), RatingTable(1, 0), [0], 3)
    assert items.tolist() == [[-1, -1, -1]]
    assert (scores == -np.inf).all()


@pytest.mark.parametrize("n_ratings", [2, 90])
def test_few_and_many_ratings_of_a_long_catalog(n_ratings: int, backend: Backend) -> None:
    """Blocks of items are set up one by one, or all."""
    rng = np.random.default_rng(0)
    model = Model.zeros(random_params(CulshParams), 3.0, (1, 5), 2, 5000, 0)
    model.neighbors[:] = (np.arange(5000)[:, None] + rng.integers(1, 5000, 4)) % 5000
    for array in (model.explicit_weights, model.implicit_weights, model.item_factors, model.user_factors):
        array[:] = rng.standard_normal(array.shape)
    matrix = np.full((2, 5000), np.nan)
    matrix[:, rng.permutation(5000)[:n_ratings]] = 4
    table = table_of(matrix)
    items, scores = ask(ItemIndex(model, backend), table, [0, 1], 40, include_seen=True)
    for b in range(2):
        assert_ranked(items[b], scores[b], expected_scores(model, table, b), np.ones(5000, dtype=bool))
