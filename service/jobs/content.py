"""`content_map_of`: the content map of a trained model, from the attributes of its items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.data.model import Model
from gpu.training import content
from service.engine.state.catalog import Catalog
from service.storage.snapshots.content_map import ContentMap, Features

MOST_TAGS = 512  # columns
FEWEST_ITEMS = 3  # trained items that have a tag; rarer ones say nothing of an item beyond them
MOST_ITEMS = 2**17  # the most rated ones
MOST_NUMBERS = 2**26  # numbers of features, 256 MB: fewer items if they have many

Described = tuple[Mapping[str, Sequence[str]], NDArray[np.float32] | None]  # tags and embedding of an item


def content_map_of(model: Model, catalog: Catalog) -> ContentMap | None:
    """The content map of a model whose items have the rows of `catalog`.

    None if its algorithm has none, or if attributes do not help to predict factors.
    """
    if not model.params.is_predictable or not catalog.n_changes:
        return None
    items = np.flatnonzero(model.item_trained)
    items = items[np.argsort(-model.item_counts[items], kind="stable")][:MOST_ITEMS]
    return fitted(model, items, list(map(catalog.features, items.tolist())))


def fitted(model: Model, items: NDArray[np.int64], described: Sequence[Described]) -> ContentMap | None:
    """The content map from `items` (B,) and what describes them, the most important ones first."""
    # The features are the most frequent tags of these items, and the dimensions of their embeddings.
    counts = Counter((name, value) for tags, _ in described for name, values in tags.items() for value in values)
    frequent = sorted((tag for tag, n in counts.items() if n >= FEWEST_ITEMS), key=lambda tag: (-counts[tag], tag))
    n_dimensions = next((len(embedding) for _, embedding in described if embedding is not None), 0)
    features = Features(frequent[:MOST_TAGS], n_dimensions)
    n_items = MOST_NUMBERS // max(features.n_columns, 1)
    matrix = np.zeros((min(len(items), n_items), features.n_columns), dtype=np.float32)
    for row, (tags, embedding) in zip(matrix, described, strict=False):
        columns, numbers = features.of(tags, embedding)
        row[columns] = numbers
    is_known = matrix.any(axis=1)
    items = items[: len(matrix)][is_known]
    targets = np.column_stack([model.item_factors[items], model.item_bias[items]])
    weights = content.fit(matrix[is_known], targets, model.item_counts[items])
    return None if weights is None else ContentMap(features, weights)
