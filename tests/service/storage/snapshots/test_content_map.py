from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from service.storage.errors import NewerSnapshot
from service.storage.snapshots import content_map
from service.storage.snapshots.content_map import ContentMap, Features

FEATURES = Features([("genre", "war"), ("genre", "love"), ("year", "1999")], 2)
MAP = ContentMap(FEATURES, np.arange(30, dtype=np.float32).reshape(6, 5))


def prior(tags: dict[str, list[str]], embedding: NDArray[np.float32] | None) -> NDArray[np.float64] | None:
    (found,), (exists,) = MAP.priors([(tags, embedding)])
    assert exists or not found.any()
    return found if exists else None


def by_hand(
    features: Features, weights: NDArray[np.float32], tags: dict[str, list[str]], embedding: NDArray[np.float32] | None
) -> NDArray[np.float64]:
    """The prior of one item alone, as the sum over its features in their order."""
    columns, numbers = features.of(tags, embedding)
    total = np.zeros(weights.shape[1])
    for column, number in zip(columns.tolist(), numbers, strict=True):
        total = total + weights[column] * number
    return total + weights[-1] if len(columns) else total


def test_a_prior_is_the_sum_of_its_features() -> None:
    tags = {"genre": ["love", "unknown", "war"], "mood": ["war"]}
    weights = MAP.weights.astype(np.float64)
    expected = (weights[0] + weights[1]) / np.sqrt(2) + weights[5]
    assert prior(tags, None) == pytest.approx(expected)
    expected += 0.6 * weights[3] - 0.8 * weights[4]
    assert prior(tags, np.array([3, -4], dtype=np.float32)) == pytest.approx(expected)
    assert prior(tags, np.array([3e37, -4e37], dtype=np.float32)) == pytest.approx(expected)


@pytest.mark.parametrize("n_dimensions", [0, 3])
def test_priors_have_the_bits_of_each_item_alone(n_dimensions: int) -> None:
    generator = np.random.default_rng(n_dimensions)
    names = [("genre", str(n)) for n in range(40)]
    features = Features(names, n_dimensions)
    weights = generator.standard_normal((40 + n_dimensions + 1, 9)).astype(np.float32)
    items: list[tuple[dict[str, list[str]], NDArray[np.float32] | None]] = []
    for n in range(300):
        known = generator.integers(0, 60, generator.integers(0, 12))  # the last twenty are unknown
        embedding = generator.standard_normal(3).astype(np.float32) if n_dimensions and n % 3 else None
        items.append(({"genre": [str(one) for one in known], "mood": ["x"]}, embedding))
    content = ContentMap(features, weights)
    priors, exist = content.priors(items)
    expected = np.array([by_hand(features, weights, *one) for one in items])
    np.testing.assert_allclose(priors, expected, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(exist, [bool(len(features.of(*one)[0])) for one in items])
    for first, last in ((0, 1), (1, 7), (290, 300), (7, 290)):
        np.testing.assert_array_equal(content.priors(items[first:last])[0], priors[first:last])


@pytest.mark.parametrize("embedding", [None, np.zeros(2, dtype=np.float32), np.ones(3, dtype=np.float32)])
def test_an_item_without_known_attributes_has_none(embedding: NDArray[np.float32] | None) -> None:
    assert prior({"genre": ["unknown"], "Genre": ["war"]}, embedding) is None


def test_what_is_written_is_read(tmp_path: Path) -> None:
    MAP.write(tmp_path / "map")
    found = ContentMap.read(tmp_path / "map", n_factors=4)
    assert found.features == FEATURES
    np.testing.assert_array_equal(found.weights, MAP.weights)
    with pytest.raises(ValueError, match=r"expected weights of float32 \(6, 4\), got float32 \(6, 5\)"):
        ContentMap.read(tmp_path / "map", n_factors=3)


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(content_map, "FORMAT", 2)
        MAP.write(tmp_path / "map")
    with pytest.raises(NewerSnapshot, match=r"format 2.*reads up to 1: upgrade"):
        ContentMap.read(tmp_path / "map", n_factors=4)
