from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from service.errors import NewerSnapshot
from service.storage import content_map
from service.storage.content_map import ContentMap, Features

FEATURES = Features([("genre", "war"), ("genre", "love"), ("year", "1999")], 2)
MAP = ContentMap(FEATURES, np.arange(30, dtype=np.float32).reshape(6, 5))


def test_a_prior_is_the_sum_of_its_features() -> None:
    tags = {"genre": ["love", "unknown", "war"], "mood": ["war"]}
    weights = MAP.weights.astype(np.float64)
    expected = (weights[0] + weights[1]) / np.sqrt(2) + weights[5]
    assert MAP.prior(tags, None) == pytest.approx(expected)
    expected += 0.6 * weights[3] - 0.8 * weights[4]
    found = MAP.prior(tags, np.array([3, -4], dtype=np.float32))
    assert found == pytest.approx(expected)
    assert MAP.prior(tags, np.array([3e37, -4e37], dtype=np.float32)) == pytest.approx(expected)


@pytest.mark.parametrize("embedding", [None, np.zeros(2, dtype=np.float32), np.ones(3, dtype=np.float32)])
def test_an_item_without_known_attributes_has_none(embedding: np.ndarray | None) -> None:
    assert MAP.prior({"genre": ["unknown"], "Genre": ["war"]}, embedding) is None


def test_what_is_written_is_read(tmp_path: Path) -> None:
    MAP.write(tmp_path / "map")
    found = ContentMap.read(tmp_path / "map", n_factors=4)
    assert found.features == FEATURES
    np.testing.assert_array_equal(found.weights, MAP.weights)
    with pytest.raises(ValueError, match=r"expected weights of shape \(6, 4\), got \(6, 5\)"):
        ContentMap.read(tmp_path / "map", n_factors=3)


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(content_map, "FORMAT", 2)
        MAP.write(tmp_path / "map")
    with pytest.raises(NewerSnapshot, match=r"format 2.*reads up to 1: upgrade"):
        ContentMap.read(tmp_path / "map", n_factors=4)
