"""Random models and tables for tests that need no training."""

from typing import Any, TypeVar

import numpy as np

from gpu.algorithms import ALGORITHMS, params_of
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.data.model import ARRAYS, NO_NEIGHBOR, NO_SLOT, Model
from gpu.data.param_kinds import FactorParams, GradientParams, Params
from gpu.data.rating_table import RatingTable
from gpu.data.ratings import Ratings
from gpu.data.signals import Calibration
from gpu.descent.params import CulshParams

# Without those whose rows need an order; `tests.gpu.next` has these.
KINDS = tuple(known.params for known in ALGORITHMS.values() if not known.params.is_ordered)
SAMPLED_KINDS = tuple(kind for kind in KINDS if issubclass(kind, GradientParams))
EXACT_KINDS = AlsParams, AlsImplicitParams
MIDDLE = 3.0
Kind = TypeVar("Kind", bound=Params)
OF_RATINGS = Calibration(
    values="ratings", middle=MIDDLE, scale=(1.0, 5.0), typical=0.4, alpha=1.5, regularization=0.03, density=0.3
)


def random_params(kind: type[Kind], n_factors: int = 6, n_neighbors: int = 4, n_bits: int = 128) -> Kind:
    if issubclass(kind, CulshParams):
        return kind(n_factors=n_factors, n_neighbors=n_neighbors, n_bits=n_bits, seed=5)
    if not issubclass(kind, FactorParams):
        return params_of(kind, {"n_neighbors": n_neighbors} if kind.has_item_lists else {})
    return kind(n_factors=n_factors, seed=5)


def params_as(kind: type[Kind], model: Model) -> Kind:
    """The parameters of `model`, which must be of `kind`."""
    assert isinstance(model.params, kind)
    return model.params


def random_model(params: Params, n_users: int, n_items: int, seed: int = 0) -> Model:
    """All parameters at random; every fourth slot or so has no neighbor, every row is trained.

    Implicit models take ratings of 1 and 2 for dislikes.
    """
    rng = np.random.default_rng(seed)
    n_bits = params.n_bits
    scale, calibration = ((0, 1), OF_RATINGS) if params.is_implicit else ((1, 5), Calibration(values="ratings"))
    model = Model.zeros(params, 3.5, scale, n_users, n_items, n_bits, calibration)
    if params.has_item_weights and not params.has_item_lists:
        model = weighted_model(model, rng.permutation(n_items)[: n_items - n_items // 5])
    for name, (_, dtype) in ARRAYS.items():
        if dtype is np.float32:
            array = getattr(model, name)
            array[:] = 0.3 * rng.standard_normal(array.shape)
    model.user_trained[:], model.item_trained[:] = True, True
    for item in range(n_items):
        others = np.delete(np.arange(n_items), item)
        rows = model.listed if params.has_item_lists else model.neighbors
        chosen = rng.permutation(others)[: rows.shape[1]]
        chosen[rng.random(len(chosen)) < 0.25] = NO_NEIGHBOR
        rows[item, : len(chosen)] = chosen
    model.item_counts[:] = rng.integers(1, 50, n_items)
    return model


def weighted_model(model: Model, items: np.ndarray) -> Model:
    """`model` with weights of zeros between `items`, in this order."""
    slots = np.full(model.n_items, NO_SLOT, dtype=np.int32)
    slots[items] = np.arange(len(items))
    weights = np.zeros((len(items), len(items)), dtype=np.float32)
    arrays = {**model.arrays, "item_slots": slots, "item_weights": weights}
    return Model(model.params, model.mean, model.scale, arrays, model.calibration)


def dense(model: Model) -> dict[str, Any]:
    """The model as the oracle takes it."""
    arrays = {
        name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in model.arrays.items()
    }
    return {
        **arrays,
        "mean": model.mean,
        "middle": model.middle,
        "implicit": model.is_implicit,
        "unit": model.calibration.unit,
    }


def matrix_of(table: RatingTable) -> np.ndarray:
    matrix = np.full((table.n_users, table.n_items), np.nan)
    users, items, values = table.ratings().coo()
    matrix[users, items] = values
    return matrix


def table_of(matrix: np.ndarray) -> RatingTable:
    table = RatingTable(*matrix.shape)
    users, items = np.nonzero(~np.isnan(matrix))
    positions = np.arange(len(users))
    table.apply(users, items, matrix[users, items], positions.astype(np.float64), positions)
    return table


def random_matrix(n_users: int, n_items: int, density: float = 0.3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(1, 6, (n_users, n_items)).astype(np.float64)
    matrix[rng.random(matrix.shape) >= density] = np.nan
    return matrix


def ratings_of(matrix: np.ndarray) -> Ratings:
    users, items = np.nonzero(~np.isnan(matrix))
    return Ratings.from_coo(users, items, matrix[users, items], matrix.shape)
