import numpy as np
import pytest

from gpu.base.backend import Backend
from gpu.data.model import NO_NEIGHBOR
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
