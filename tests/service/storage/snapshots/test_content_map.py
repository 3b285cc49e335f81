import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from service.storage.errors import NewerSnapshot
from service.storage.snapshots import array_file, content_map
from service.storage.snapshots.array_values import MAX_PARAMETER
from service.storage.snapshots.content_map import ContentMap, ContentMaps, Features

FEATURES = Features([("genre", "war"), ("genre", "love"), ("year", "1999")], 2)
MAP = ContentMap(FEATURES, np.arange(30, dtype=np.float32).reshape(6, 5))
OF_USERS = ContentMap(Features([("country", "ch")]), np.arange(10, dtype=np.float32).reshape(2, 5))


def read_header(path: Path) -> tuple[object, object]:
    with path.open("rb") as file:
        arrays, metadata = array_file.read_header(file, 2**20)
    return arrays, {key: json.loads(value) for key, value in metadata.items()}


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


@pytest.mark.parametrize("given", [ContentMaps(MAP), ContentMaps(None, OF_USERS), ContentMaps(MAP, OF_USERS)])
def test_what_is_written_is_read(given: ContentMaps, tmp_path: Path) -> None:
    given.write(tmp_path / "map")
    found = ContentMaps.read(tmp_path / "map", n_factors=4)
    for one, expected in zip(found, given, strict=True):
        assert (one and one.features) == (expected and expected.features)
        np.testing.assert_array_equal(one and one.weights, expected and expected.weights)
    with pytest.raises(ValueError, match=r"weights of float32 \([26], 4\), got float32 \([26], 5\)"):
        ContentMaps.read(tmp_path / "map", n_factors=3)


def test_weights_have_bounds(tmp_path: Path) -> None:
    for bound in (-MAX_PARAMETER, MAX_PARAMETER):
        for weight, is_right in ((bound, True), (2 * bound, False), (np.nan, False)):
            ContentMaps(None, ContentMap(OF_USERS.features, np.full((2, 5), weight, np.float32))).write(
                tmp_path / "map"
            )
            with (
                contextlib.nullcontext() if is_right else pytest.raises(ValueError, match="expected weights within 1e")
            ):
                ContentMaps.read(tmp_path / "map", n_factors=4)


def test_maps_of_items_alone_have_the_bytes_of_format_1(tmp_path: Path) -> None:
    ContentMaps(MAP).write(tmp_path / "map")
    tags = [["genre", "war"], ["genre", "love"], ["year", "1999"]]
    names = {"format": 1, "tags": tags, "n_dimensions": 2}
    save_file({"weights": MAP.weights}, tmp_path / "old", {"names": json.dumps(names, separators=(",", ":"))})
    arrays, metadata = (read_header(tmp_path / name) for name in ("map", "old"))
    assert arrays == metadata
    old = ContentMaps.read(tmp_path / "old", n_factors=4)
    assert old.users is None
    assert old.items is not None
    assert old.items.features == FEATURES


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(content_map, "FORMAT", 3)
        ContentMaps(MAP, OF_USERS).write(tmp_path / "map")
    with pytest.raises(NewerSnapshot, match=r"format 3.*reads up to 2: upgrade"):
        ContentMaps.read(tmp_path / "map", n_factors=4)


def test_an_array_of_another_name_is_refused(tmp_path: Path) -> None:
    names = json.dumps({"format": 1})
    save_file({"user_weights": OF_USERS.weights}, tmp_path / "map", {"names": names})
    with pytest.raises(ValueError, match="expected an array weights, got user_weights"):
        ContentMaps.read(tmp_path / "map", n_factors=4)
