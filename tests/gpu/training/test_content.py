"""The content map: it recovers what was planted, and there is none where features say nothing."""

import numpy as np
import pytest

from gpu.training import content


def planted(n: int = 200, n_tags: int = 6, n_factors: int = 4, noise: float = 0.05) -> tuple[np.ndarray, ...]:
    """Items with tags at random, whose parameters follow from them; some have very few ratings, and only noise."""
    rng = np.random.default_rng(0)
    features = (rng.random((n, n_tags)) < 0.4).astype(np.float32)
    weights = rng.standard_normal((n_tags + 1, n_factors + 1))
    targets = features @ weights[:-1] + weights[-1] + noise * rng.standard_normal((n, n_factors + 1))
    counts = rng.integers(50, 500, n)
    counts[:20] = 1
    targets[:20] += rng.standard_normal((20, n_factors + 1))
    return features, weights, targets.astype(np.float32), counts


def test_planted_weights_are_recovered() -> None:
    features, weights, targets, counts = planted()
    found = content.fit(features, targets, counts)
    assert found is not None
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, weights, atol=0.1)


def test_the_map_solves_its_normal_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "NUMBERS_AT_ONCE", 100)  # several batches
    monkeypatch.setattr(content, "RIDGES", (7.0,))
    features, _, targets, counts = planted(noise=0.5)
    found = content.fit(features, targets, counts)
    assert found is not None
    w = np.minimum(counts, content.MAX_WEIGHT) / np.minimum(counts, content.MAX_WEIGHT).mean()
    x = np.column_stack([features, np.ones(len(features))]).astype(np.float64)
    ridge = np.diag([7.0] * features.shape[1] + [0.0])
    np.testing.assert_allclose(found, np.linalg.solve(x.T * w @ x + ridge, x.T * w @ targets), atol=1e-5)


@pytest.mark.parametrize("n", [0, content.FEWEST - 1, 200])
def test_features_that_say_nothing_give_no_map(n: int) -> None:
    features, _, targets, counts = planted()
    noise = np.random.default_rng(1).standard_normal(targets.shape).astype(np.float32)
    assert content.fit(features[:n], noise[:n], counts[:n]) is None


def test_many_dimensions_need_a_ridge() -> None:
    """As many dimensions as items: without a ridge the map would only remember."""
    rng = np.random.default_rng(2)
    features = (rng.standard_normal((100, 100)) / 10).astype(np.float32)
    targets = (features[:, :2] @ rng.standard_normal((2, 5)) * 10).astype(np.float32)
    found = content.fit(features, targets, np.full(100, 10))
    assert found is not None
    new = rng.standard_normal((50, 100)) / 10
    truth = new[:, :2] @ np.linalg.lstsq(features[:, :2], targets, rcond=None)[0]
    assert ((new @ found[:-1] + found[-1] - truth) ** 2).sum() < 0.9 * (truth**2).sum()
