from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.online.host import exact

BOUND = 2.0**20


@given(n_rows=st.integers(0, 30), n_factors=st.integers(1, 9), size=st.sampled_from([1e-3, 0.3, 20.0]), data=st.data())
@settings(max_examples=40)
def test_sums_over_a_side_are_exact_in_any_order_and_back(
    n_rows: int, n_factors: int, size: float, data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    factors = (size * rng.standard_normal((n_rows, n_factors))).astype(np.float32)
    whole, pieced = np.zeros((2, n_factors, n_factors))
    exact.add_gram(whole, factors, 1.0, BOUND)
    wide = factors.astype(np.float64)
    np.testing.assert_allclose(whole, np.triu(wide.T @ wide), rtol=1e-9, atol=1e-8)
    for row in rng.permutation(n_rows):
        exact.add_gram(pieced, factors[row : row + 1], 1.0, BOUND)
    extra = (size * rng.standard_normal((5, n_factors))).astype(np.float32)
    exact.add_gram(pieced, extra, 1.0, BOUND)
    exact.add_gram(pieced, extra[::-1].copy(), -1.0, BOUND)
    np.testing.assert_array_equal(whole, pieced)
