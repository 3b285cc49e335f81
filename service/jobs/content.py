"""`content_maps_of`: the content maps of a trained model, from the attributes of its items and its users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu.base.backend import Backend
from gpu.data.model import Model
from gpu.data.ratings import Ratings
from gpu.training import content
from service.engine.state.catalog import Catalog
from service.jobs.corpus import Corpus
from service.storage.snapshots.content_map import ContentMap, ContentMaps, Features

MOST_TAGS = 512  # columns
FEWEST_ITEMS = 3  # trained items or users that have a tag; rarer ones say nothing of others beyond them
MOST_ITEMS = 2**17  # items with the most ratings, and users
MOST_NUMBERS = 2**26  # numbers of features, 256 MB: fewer items if they have many

Tags = Mapping[str, Sequence[str]]
Described = tuple[Tags, NDArray[np.float32] | None]  # tags and embedding of an item


def content_maps_of(model: Model, corpus: Corpus, backend: Backend) -> ContentMaps:
    """The content maps of a model that was trained on `corpus`."""
    return ContentMaps(
        None if corpus.catalog is None else content_map_of(model, corpus.catalog),
        None if corpus.tags_of is None else user_map_of(model, corpus.training, corpus.tags_of, backend),
    )


def content_map_of(model: Model, catalog: Catalog) -> ContentMap | None:
    """The content map of a model whose items have the rows of `catalog`.

    None if its algorithm has none, or if attributes do not help to predict factors.
    """
    if not model.params.is_predictable or not catalog.n_changes:
        return None
    items = np.flatnonzero(model.item_trained)
    items = items[np.argsort(-model.item_counts[items], kind="stable")][:MOST_ITEMS]
    targets = np.column_stack([model.item_factors[items], model.item_bias[items]])
    return fitted(targets, model.item_counts[items], list(map(catalog.features, items.tolist())))


def user_map_of(model: Model, ratings: Ratings, tags_of: Callable[[int], Tags], backend: Backend) -> ContentMap | None:
    """The content map of the users of a model that was trained on `ratings`; `tags_of` has the tags of a row.

    None if its algorithm has none, or if lists by attributes are no better than the most popular items.
    """
    if not model.params.is_predictable:
        return None
    counts = ratings.by_user.lengths
    users = [user for user in np.argsort(-counts, kind="stable").tolist() if counts[user] and tags_of(user)]
    rows = np.array(users[:MOST_ITEMS], dtype=np.int64)
    targets = np.column_stack([model.user_factors[rows], model.user_bias[rows]])

    def are_better(at: NDArray[np.int64], priors: NDArray[np.float32]) -> bool:
        return content.lists_gain(model, rows[at], priors, ratings, backend)[0] > 0

    return fitted(targets, counts[rows], [(tags_of(user), None) for user in rows.tolist()], are_better)


def fitted(
    targets: NDArray[np.float32],
    n_ratings: NDArray[np.integer],
    described: Sequence[Described],
    judge: content.Judge = lambda _rows, _priors: True,
) -> ContentMap | None:
    """The content map from items or users (B,) and what describes them, the most important ones first.

    Args:
        targets, n_ratings, judge: as `gpu.training.content.fit` takes them.
    """
    # The features are the most frequent tags of these items, and the dimensions of their embeddings.
    counts = Counter((name, value) for tags, _ in described for name, values in tags.items() for value in values)
    frequent = sorted((tag for tag, n in counts.items() if n >= FEWEST_ITEMS), key=lambda tag: (-counts[tag], tag))
    n_dimensions = next((len(embedding) for _, embedding in described if embedding is not None), 0)
    features = Features(frequent[:MOST_TAGS], n_dimensions)
    n_rows = min(len(targets), MOST_NUMBERS // max(features.n_columns, 1))
    matrix = np.zeros((n_rows, features.n_columns), dtype=np.float32)
    for row, (tags, embedding) in zip(matrix, described, strict=False):
        columns, numbers = features.of(tags, embedding)
        row[columns] = numbers
    known = np.flatnonzero(matrix.any(axis=1))
    weights = content.fit(matrix[known], targets[known], n_ratings[known], lambda at, priors: judge(known[at], priors))
    return None if weights is None else ContentMap(features, weights)
