import numpy as np
import pytest

from gpu.base.backend import Backend
from gpu.data.model import NO_NEIGHBOR, Model
from gpu.data.param_kinds import Params
from gpu.ranking.item_index import ItemIndex
from tests.gpu.models import KINDS, random_matrix, random_model, random_params, table_of
from tests.gpu.ranking.test_topn import ask


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_follows_its_model(kind: type[Params], backend: Backend) -> None:
    model = random_model(random_params(kind), 5, 250)
    index = ItemIndex(model, backend)
    rng = np.random.default_rng(3)
    table = table_of(random_matrix(5, 600, 0.2))
    for n_items in (255, 280, 280, 600):
        known = model.n_items
        model.grow(5, n_items)
        changed = np.union1d(np.arange(known, n_items), rng.integers(250, n_items, 5))
        model.item_factors[changed] = rng.standard_normal((len(changed), model.item_factors.shape[1]))
        model.item_bias[changed] = rng.standard_normal(len(changed))
        model.neighbors[changed] = rng.integers(NO_NEIGHBOR, 250, (len(changed), model.neighbors.shape[1]))
        model.explicit_weights[changed] = rng.standard_normal(model.explicit_weights[changed].shape)
        model.implicit_weights[changed] = rng.standard_normal(model.implicit_weights[changed].shape)
        index.refresh(changed)
        kept, fresh = (ask(one, table, [0, 4], 50) for one in (index, ItemIndex(model, backend)))
        assert kept[0].tolist() == fresh[0].tolist()
        np.testing.assert_allclose(kept[1], fresh[1], rtol=1e-6)  # inverse lists may have another order


@pytest.mark.parametrize("kind", KINDS)
def test_lifts_are_added_to_scores_and_stay_when_items_change(kind: type[Params], backend: Backend) -> None:
    """Lists with lifts are those of a model whose biases have them; hidden items stay hidden."""
    model, rng = random_model(random_params(kind), 5, 300), np.random.default_rng(4)
    table = table_of(random_matrix(5, 340, 0.2))
    index, lifts = ItemIndex(model, backend), np.zeros(340, dtype=np.float32)
    hidden = rng.random(340) < 0.1
    for n_items in (300, 340, 340):
        known = model.n_items
        model.grow(5, n_items)
        changed = np.union1d(np.arange(known, n_items), rng.integers(0, n_items, 5))
        model.item_factors[changed] = rng.standard_normal((len(changed), model.item_factors.shape[1]))
        index.refresh(changed)
        lifted = np.unique(rng.integers(0, n_items, 60))
        lifts[lifted] = rng.uniform(0, 3, len(lifted))
        index.lift(lifted, lifts[lifted])
        index.hide(hidden)
        found = ask(index, table, [0, 4], 50)
        other = copy_of(model)
        other.item_bias[:] += lifts[:n_items]
        fresh = ItemIndex(other, backend)
        fresh.hide(hidden)
        expected = ask(fresh, table, [0, 4], 50)
        assert found[0].tolist() == expected[0].tolist()
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-6)
        assert not hidden[found[0][found[0] >= 0]].any()


def copy_of(model: Model) -> Model:
    arrays = {name: array.copy() for name, array in model.arrays.items()}
    return Model(model.params, model.mean, model.scale, arrays, model.calibration)
