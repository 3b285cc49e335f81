"""Random rating matrices and models for property tests: small, with empty rows, ties and repeated values."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpu.data.model import Model
from gpu.data.ratings import NO_MIDDLE
from gpu.data.signals import Calibration
from gpu.descent.params import CulshImplicitParams, CulshParams


@st.composite
def matrices(draw, max_users: int = 7, max_items: int = 9, min_ratings: int = 0) -> np.ndarray:
    """Dense (M, N) ratings of 1 to 5, NaN where there is none; rows and columns may be empty."""
    shape = (draw(st.integers(1, max_users)), draw(st.integers(1, max_items)))
    cell = st.sampled_from([np.nan, np.nan, 1.0, 2.0, 3.0, 4.0, 5.0])
    matrix = draw(hnp.arrays(np.float64, shape, elements=cell))
    for place in range(min(min_ratings, matrix.size)):
        if np.count_nonzero(~np.isnan(matrix)) < min_ratings:
            matrix.flat[place] = 3.0
    return matrix


def random_model(matrix: np.ndarray, k: int, implicit: bool, seed: int, n_factors: int = 3) -> Model:
    """A model with random parameters; some of its neighbor slots are empty, anywhere in a list.

    Implicit models of odd seeds take ratings of 1 and 2 for dislikes.
    """
    kind = CulshImplicitParams if implicit else CulshParams
    params = kind(n_factors=n_factors, n_neighbors=k, n_bits=64)
    generator = np.random.default_rng(seed)
    n_users, n_items = matrix.shape
    middle = 3.0 if implicit and seed % 2 else NO_MIDDLE
    model = Model.zeros(params, 0.5, (1.0, 5.0), n_users, n_items, calibration=Calibration(middle=middle))
    for name in ("user_factors", "item_factors", "user_bias", "item_bias", "explicit_weights", "implicit_weights"):
        array = getattr(model, name)
        array[:] = 0.5 * generator.standard_normal(array.shape)
    if not implicit:
        model.user_baseline[:] = generator.standard_normal(n_users)
        model.item_baseline[:] = generator.standard_normal(n_items)
    model.neighbors[:] = generator.integers(-1, n_items, (n_items, k))
    return model


def as_reference(model: Model) -> dict:
    """The model as the oracle wants it: a dict of float64 copies."""
    arrays = {name: a.astype(np.float64) for name, a in model.arrays.items() if a.dtype == np.float32}
    numbers = {"mean": model.mean, "middle": model.middle, "implicit": model.is_implicit}
    return (
        arrays
        | numbers
        | {"neighbors": model.neighbors.tolist(), "item_slots": model.item_slots, "listed": model.listed}
    )
