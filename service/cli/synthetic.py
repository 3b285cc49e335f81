"""A synthetic catalog with planted tastes: ratings for trying the service without real ones.

Every id contains "synthetic" ("synthetic-viewer-0007", "synthetic-western-012"), and every title is invented. Each
viewer loves one genre, likes a second and avoids a third. A rating is the item's quality plus that taste plus noise.
Viewers meet popular items and their own genres more often. So a model that has learned recommends a viewer's own
genres.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

GENRES = ("western", "noir", "space", "comedy", "romance", "mystery", "history", "music")
ADJECTIVES = ("Quiet", "Last", "Crooked", "Silver", "Forgotten", "Restless", "Second", "Hollow", "Burning", "Distant")
NOUNS = {  # 5 a genre: with 10 adjectives, 400 items have different titles
    "western": ("Canyon", "Saddle", "Sheriff", "Prairie", "Homestead"),
    "noir": ("Alibi", "Harbor", "Witness", "Shadow", "Ledger"),
    "space": ("Orbit", "Comet", "Station", "Signal", "Horizon"),
    "comedy": ("Wedding", "Neighbor", "Umbrella", "Holiday", "Waiter"),
    "romance": ("Letter", "Summer", "Promise", "Garden", "Waltz"),
    "mystery": ("Clue", "Manor", "Key", "Portrait", "Clock"),
    "history": ("Crown", "Treaty", "Voyage", "Empire", "Siege"),
    "music": ("Song", "Encore", "Orchestra", "Drummer", "Record"),
}
FIRST_YEAR, N_YEARS, YEAR_STEP = 1950, 75, 31
N_VIEWERS = 1500
N_ITEMS = 400
RATINGS_PER_VIEWER = (12, 70)
LOVES, LIKES, AVOIDS = 1.2, 0.6, -1.0
MEAN, QUALITY_SPREAD, NOISE = 3.3, 0.4, 0.5
PULL_OF_TASTE = 2.0  # log odds per point of taste with which a viewer meets an item
POPULARITY_SKEW = 0.3  # exponent: the odds of meeting the item of popularity rank x are proportional to x ** -0.3
LOWEST, HIGHEST = 0.5, 5.0


class PlantedRatings(NamedTuple):
    """Planted ratings as parallel arrays of length N, with the tastes and genres they were drawn from.

    Attributes:
        viewers, items: rows, int64 (N,).
        ratings: half points from 0.5 to 5, float64 (N,).
        taste: taste of each viewer for each genre, float64 (viewers, genres).
        genre: genre of each item, int64 (items,).
    """

    viewers: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: NDArray[np.float64]
    taste: NDArray[np.float64]
    genre: NDArray[np.int64]

    def viewer_id(self, viewer: int) -> str:
        """The id of a viewer row."""
        return f"synthetic-viewer-{viewer:04d}"

    def item_id(self, item: int) -> str:
        """The id of an item row, which names its genre."""
        return f"synthetic-{GENRES[self.genre[item]]}-{item:03d}"

    def title(self, item: int) -> str:
        """The invented title of an item row, such as "The Quiet Harbor (2004)"."""
        nouns = NOUNS[GENRES[self.genre[item]]]
        n_th = item // len(GENRES)
        adjective = ADJECTIVES[n_th // len(nouns) % len(ADJECTIVES)]
        return f"The {adjective} {nouns[n_th % len(nouns)]} ({FIRST_YEAR + item * YEAR_STEP % N_YEARS})"

    def described_items(self) -> list[dict[str, Any]]:
        """Every item with its title, and its genre as a tag, as the body of POST /items has it."""
        return [
            {"item": self.item_id(item), "title": self.title(item), "tags": {"genre": [GENRES[genre]]}}
            for item, genre in enumerate(self.genre)
        ]

    def loves(self, viewer: int) -> str:
        """The genre planted as the viewer's favorite."""
        return GENRES[int(self.taste[viewer].argmax())]


def planted(seed: int = 0, n_viewers: int = N_VIEWERS, n_items: int = N_ITEMS) -> PlantedRatings:
    """Draw a catalog; equal arguments give equal ratings, in a shuffled order."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(0, 0.2, (n_viewers, len(GENRES)))
    genres = rng.permuted(np.tile(np.arange(len(GENRES)), (n_viewers, 1)), axis=1)
    for column, strength in enumerate((LOVES, LIKES, AVOIDS)):
        taste[np.arange(n_viewers), genres[:, column]] = strength
    genre = np.arange(n_items) % len(GENRES)
    quality = rng.normal(0, QUALITY_SPREAD, n_items)
    # The pairs to rate: distinct items for each viewer, drawn by popularity and taste with Gumbel noise.
    log_popularity = -POPULARITY_SKEW * np.log1p(rng.permutation(n_items))
    keys = log_popularity + PULL_OF_TASTE * taste[:, genre] + rng.gumbel(size=(n_viewers, n_items))
    ranking = np.argsort(-keys, axis=1)
    low, high = RATINGS_PER_VIEWER
    counts = np.minimum(rng.integers(low, high, n_viewers), n_items)
    viewers, items = np.repeat(np.arange(n_viewers), counts), ranking[np.arange(n_items) < counts[:, None]]
    points = MEAN + quality[items] + taste[viewers, genre[items]] + rng.normal(0, NOISE, len(items))
    ratings = np.clip(np.round(points * 2) / 2, LOWEST, HIGHEST)
    order = rng.permutation(len(items))
    return PlantedRatings(viewers[order], items[order], ratings[order], taste, genre)


def write(path: Path, catalog: PlantedRatings) -> None:
    """Write the ratings as CSV with a header: user,item,rating."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("user", "item", "rating"))
        for viewer, item, rating in zip(catalog.viewers, catalog.items, catalog.ratings, strict=True):
            rows.writerow((catalog.viewer_id(viewer), catalog.item_id(item), f"{rating:g}"))
