"""A model, a table and the same on the device, for tests of online learning."""

import copy
import importlib
from typing import Any, NamedTuple

import numpy as np

from gpu.data.model import ARRAYS, HOST_ONLY, Model
from gpu.data.param_kinds import GradientParams, Params
from gpu.data.rating_table import RatingTable
from gpu.online.drift import AsTrained
from gpu.online.prolific import Prolific
from gpu.online.sampled import SampledRefits
from tests.gpu.models import params_as, random_model, random_params

ON_DEVICE = [name for name in ARRAYS if name not in HOST_ONLY]
LEARNED = [name for name, (_, dtype) in ARRAYS.items() if dtype is np.float32]


class World(NamedTuple):
    """Some ratings and a model whose last items are new."""

    model: Model
    table: RatingTable
    user_keys: np.ndarray
    item_keys: np.ndarray

    def refits(self) -> SampledRefits:
        """Of the host; for models of ratings without what `prepare` finds out about where users are expected."""
        found = SampledRefits(
            self.model,
            params_as(GradientParams, self.model),
            self.table,
            AsTrained(self.model),
            Prolific(self.model, self.table),
            self.user_keys,
            self.item_keys,
        )
        for _ in found.prepare() if self.model.is_implicit else ():
            pass
        return found

    def on_device(self) -> tuple[Any, Any]:
        """(table, parameters)."""
        table = importlib.import_module("gpu.online.device.rating_table").RatingTable(
            self.table.rows, self.table.positions, self.table.n_items
        )
        parameters = importlib.import_module("gpu.online.device.parameters")
        return table, parameters.LiveParameters(self.model, self.user_keys, self.item_keys)


def world(kind: type[Params], sizes: tuple[int, int], lengths: list[int], n_items: int, n_new: int) -> World:
    """Users with these numbers of ratings of random items; F and K in `sizes`. New items get raters at random."""
    rng = np.random.default_rng(len(lengths))
    model = random_model(random_params(kind, *sizes), len(lengths), n_items, seed=sizes[0])
    model.mean = -1.4 if model.is_implicit else 3.5
    model.item_trained[n_items - n_new :] = False
    rows = [np.sort(rng.permutation(n_items)[:length]) for length in lengths]
    users = np.repeat(np.arange(len(lengths)), lengths)
    table, n = RatingTable(len(lengths), n_items), len(users)
    order, values = rng.permutation(n), rng.integers(1, 6, n).astype(float)
    table.apply(users[order], np.concatenate(rows)[order], values[order], np.arange(n).astype(float), np.arange(n))
    keys = (rng.integers(0, 2**63, size).astype(np.uint64) for size in (len(lengths), n_items))
    return World(model, table, *keys)


def fetched(parameters: Any) -> dict[str, np.ndarray]:
    return {name: getattr(parameters, name).get() for name in ON_DEVICE}


def copy_of(model: Model) -> Model:
    return copy.deepcopy(model)


def assert_near(found: dict[str, np.ndarray], model: Model, tolerance: float = 1e-4) -> None:
    """Learned arrays row by row within a share of the row's length; all others alike."""
    for name, array in found.items():
        expected = getattr(model, name)
        if name not in LEARNED or not array.size:
            np.testing.assert_array_equal(array, expected, err_msg=name)
            continue
        one, other = (rows.reshape(len(rows), -1).astype(np.float64) for rows in (array, expected))
        bound = tolerance * np.linalg.norm(other, axis=1) + 1e-5
        worst = int(np.argmax(np.nan_to_num(np.linalg.norm(one - other, axis=1) / bound, nan=np.inf)))
        np.testing.assert_allclose(one[worst], other[worst], rtol=0, atol=bound[worst], err_msg=f"{name} {worst}")
