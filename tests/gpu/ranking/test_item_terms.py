"""What explicit models take off items with few ratings, and the counts that it is made from."""

import numpy as np
import pytest

import gpu
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.data.param_kinds import Params
from gpu.data.signals import Calibration
from gpu.descent.params import CulshImplicitParams, SgdParams
from gpu.nmf.params import NmfParams
from gpu.ranking.item_terms import ItemTerms
from tests import reference
from tests.gpu.models import KINDS, dense, matrix_of, random_matrix, random_model, random_params, ratings_of, table_of


def model_of(kind: type[Params], counts: list[int], unit: float = 1.0) -> gpu.Model:
    model = random_model(random_params(kind), 3, len(counts))
    model.item_counts[:], model.calibration = counts, Calibration(unit=unit)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_every_training_counts_the_ratings_of_items(kind: type[Params]) -> None:
    matrix = random_matrix(30, 12, 0.4)
    matrix[:, 7] = np.nan
    ratings = ratings_of(matrix)
    model = gpu.fit(ratings, random_params(kind))
    assert model.item_counts.tolist() == np.count_nonzero(~np.isnan(matrix), axis=0).tolist()
    assert not model.item_trained[7]
    assert model.item_trained.sum() == 11


def test_the_amount_is_a_unit_for_each_e_fold_fewer_ratings() -> None:
    model = model_of(SgdParams, [19, 9, 0, 4], unit=2.5)
    amounts = model.item_bias - ItemTerms(model).biases(model, np.arange(4))
    np.testing.assert_allclose(amounts, 2.5 * np.log([1, 2, 20, 4]), rtol=1e-6)


def test_a_newer_item_counts_at_most_as_the_most_rated_one_of_the_training() -> None:
    model = model_of(SgdParams, [19, 9, 800])
    model.item_trained[2] = False
    found = ItemTerms(model).biases(model, np.arange(3))
    assert found[[0, 2]].tolist() == model.item_bias[[0, 2]].tolist()
    assert found[1] < model.item_bias[1]


def test_an_item_without_ratings_begins_where_it_would_once_it_is_named() -> None:
    model = model_of(AlsParams, [19, 9])
    terms = ItemTerms(model)
    model.grow(3, 3)
    assert terms.biases(model, np.array([2])).tolist() == [terms.unrated]


@pytest.mark.parametrize("kind", [AlsImplicitParams, CulshImplicitParams, NmfParams])
def test_implicit_models_take_nothing_off(kind: type[Params]) -> None:
    model = model_of(kind, [19, 9, 0])
    assert ItemTerms(model).unrated == 0
    assert ItemTerms(model).biases(model, np.arange(3)).tolist() == model.item_bias.tolist()


def test_bits_do_not_depend_on_other_items_of_the_call() -> None:
    model = model_of(SgdParams, np.random.default_rng(0).integers(0, 3000, 500).tolist(), unit=0.9)
    terms = ItemTerms(model)
    together = terms.biases(model, np.arange(500))
    assert [terms.biases(model, np.array([item]))[0] for item in range(500)] == together.tolist()


def test_the_model_itself_does_not_change() -> None:
    model = model_of(SgdParams, [19, 9, 0])
    before = model.item_bias.copy()
    ItemTerms(model).biases(model, np.arange(3))
    assert model.item_bias.tolist() == before.tolist()


def test_counts_move_and_grow_with_their_items() -> None:
    moved = model_of(SgdParams, [19, 9, 5]).mapped(np.arange(3), np.array([2, -1, 0]), 3, 4)
    moved.grow(3, 5)
    assert moved.item_counts.tolist() == [5, 0, 19, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_rankings_are_measured_in_the_order_of_lists_and_errors_are_not(kind: type[Params]) -> None:
    model, table = random_model(random_params(kind), 6, 15), table_of(random_matrix(6, 15))
    matrix, arrays = matrix_of(table), dense(model)
    test = np.where(np.isnan(matrix), 5.0, np.nan)
    test[:, ::2] = np.nan
    ndcgs = []
    for user in range(6):
        scores = [reference.list_score(matrix, arrays, user, item) for item in range(15)]
        unseen = np.flatnonzero(np.isnan(matrix[user])).tolist()
        ranks = [reference.rank(scores, unseen, item) for item in np.flatnonzero(~np.isnan(test[user]))]
        ndcgs.append(reference.ndcg(ranks, len(ranks), 10))
    assert gpu.evaluate.ranking(model, table.rows, ratings_of(test), 4)["ndcg@10"] == pytest.approx(np.mean(ndcgs))
    pairs = np.arange(6), np.arange(6)
    expected = [reference.score(matrix, arrays, *pair) for pair in zip(*pairs, strict=True)]
    expected = expected if model.is_implicit else np.clip(expected, *model.scale)
    np.testing.assert_allclose(gpu.evaluate.predict(model, table.rows, *pairs), expected, rtol=1e-5, atol=1e-5)
