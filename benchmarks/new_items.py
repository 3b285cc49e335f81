"""`python -m benchmarks new-items`: lists of films that a model was not trained on, on MovieLens-1M.

A random twentieth of the films is new, among those with enough ratings. A model is trained without their ratings. Half
of the ratings of each new film is the test part; of the other half the film has the first k when lists are made. Tags
are the genres and years of `movies.dat`. Users keep the parameters of the training.

A list is of the new films alone that its user has not rated, as with a filter, or of all films. HR@10 is the share of
users with at least one relevant new film among the first 10, Recall@20 the mean share of a user's relevant new films
among the first 20. Relevant are ratings of the test part of 4 stars and more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks import datasets
from benchmarks.report import say
from gpu.online.host_model import HostModel
from gpu.online.rating_table import RatingTable
from gpu.params import params_for
from gpu.ranking import topn
from service.cli import offline
from service.cli.files import ratings_file
from service.jobs.content import Described, fitted
from service.storage.snapshots.content_map import ContentMap

SHARE = 0.05
N_KNOWN = 0, 1, 3, 10  # values of k
FEWEST_RATINGS = 20  # of a new film, so that half of them are 10
RELEVANT_FROM = 4.0
N_SHOWN = 20
_TITLE = re.compile(r"(?P<item>\d+)::.*\((?P<year>\d{4})\)::(?P<genres>.*)")


@dataclass(frozen=True)
class Row:
    """Lists of one kind after each new film has had `ratings` ratings.

    `rmse` is that of the test ratings, in the first row that of a model that knows nothing of a new film; NaN for
    implicit models.
    """

    algorithm: str
    ratings: int
    ranked_by: str
    hr_at_10: float
    recall_at_20: float
    hr_at_10_of_all: float
    recall_at_20_of_all: float
    rmse: float


@dataclass(frozen=True)
class Split:
    """One drawing of new films.

    Attributes:
        is_new: bool (I,).
        train: ratings of the other films.
        known: ratings of new films that may become known, at random: those of a film in an order that does not change.
        test: the other ratings of new films.
    """

    is_new: NDArray[np.bool_]
    train: gpu.Ratings
    known: gpu.Ratings
    test: gpu.Ratings

    @classmethod
    def drawn(cls, ratings: gpu.Ratings, seed: int) -> Split:
        """Draw `SHARE` of the films, and half of the ratings of each."""
        generator = np.random.default_rng(seed)
        is_new = np.zeros(ratings.n_items, dtype=np.bool_)
        pool = np.flatnonzero(ratings.by_item.lengths >= FEWEST_RATINGS)
        is_new[generator.permutation(pool)[: round(SHARE * ratings.n_items)]] = True
        of_new = is_new[ratings.coo()[1]]
        is_test = of_new & (generator.random(len(ratings)) < 0.5)
        parts = (ratings.where(part) for part in (~of_new, of_new & ~is_test, is_test))
        return cls(is_new, *parts)

    def learned(self, k: int) -> gpu.Ratings:
        """The training ratings and the first `k` known ones of each new film."""
        items = self.known.coo()[1]
        order = np.argsort(items, kind="stable")
        firsts = np.searchsorted(items[order], items[order])
        is_first = np.zeros(len(items), dtype=np.bool_)
        is_first[order] = np.arange(len(items)) - firsts < k
        return _joined(self.train, self.known.where(is_first))


class Fixed:
    """The priors of films; see `gpu.online.priors`."""

    def __init__(self, content: ContentMap, described: Sequence[Described]) -> None:
        self._content, self._described, self.most = content, described, 1

    def of(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """The prior of each item."""
        return self._content.priors([self._described[item] for item in items.tolist()])[0]


def run(data: Path, algorithms: Sequence[str], seed: int) -> Iterator[Row]:
    """Rows for each algorithm: at random, without content and with content, for each k."""
    file = offline.Data.split(ratings_file.read(data / datasets.SOURCES["ml-1m"].file), 0.0, seed)
    described = films(data / "ml-1m" / "movies.dat", file.ids()[1])
    split = Split.drawn(file.train, seed)
    for algorithm in algorithms:
        say(f"training {algorithm}")
        model = gpu.fit(split.train, params_for(algorithm, {}))
        items = np.flatnonzero(model.item_trained)
        items = items[np.argsort(-model.item_counts[items], kind="stable")]
        content = fitted(model, items, [described[item] for item in items.tolist()])
        if content is None:
            raise ValueError(f"{algorithm}: tags say nothing of factors")
        yield Row(algorithm, 0, "chance", *at_random(split, seed), measured(model, split, 0, None)[-1])
        for k in N_KNOWN:
            for name, priors in (("ratings alone", None), ("ratings and tags", Fixed(content, described))):
                if k or priors:
                    yield Row(algorithm, k, name, *measured(model, split, k, priors))


def films(path: Path, ids: Sequence[str]) -> list[Described]:
    """Genres and year of each film of `ids`."""
    found: dict[str, Described] = {}
    for line in path.read_text("latin-1").splitlines():
        if match := _TITLE.fullmatch(line):
            tags = {"genre": match["genres"].split("|"), "year": [match["year"]]}
            found[match["item"]] = tags, None
    return [found.get(item, ({}, None)) for item in ids]


Figures = tuple[float, float, float, float, float]  # HR@10 and Recall@20 of new films, then of all films; RMSE


def measured(model: gpu.Model, split: Split, k: int, priors: Fixed | None) -> Figures:
    """The figures of a copy of `model` that has learned k ratings each."""
    arrays = {name: array.copy() for name, array in model.arrays.items()}
    own = gpu.Model(model.params, model.mean, model.scale, arrays, model.calibration)
    learned, table = split.learned(k), RatingTable(model.n_users, model.n_items)
    positions = np.arange(len(learned))
    table.apply(*learned.coo(), positions.astype(np.float64), positions)
    online = HostModel(own, table, learned.user_keys, learned.item_keys, priors=priors)
    online.renew(np.flatnonzero(split.is_new))
    online.settle()
    users = np.unique(split.test.coo()[0])
    figures: list[float] = []
    for hidden in (~split.is_new, np.zeros(model.n_items, dtype=np.bool_)):
        online.index.hide(hidden)
        rows = topn.rows_of(table.rows, users)
        lists, _ = topn.recommend(online.index, topn.users_of(own, users), rows, N_SHOWN)
        figures += hits_of(split.test, users, lists)
    error = float("nan") if own.is_implicit else gpu.evaluate.rmse(own, table.rows, *split.test.coo())
    return figures[0], figures[1], figures[2], figures[3], error


def at_random(split: Split, seed: int) -> tuple[float, float, float, float]:
    """HR@10 and Recall@20 of lists at random."""
    generator, users = np.random.default_rng(seed), np.unique(split.test.coo()[0])
    figures: list[float] = []
    for pool in (np.flatnonzero(split.is_new), np.arange(len(split.is_new))):
        lists = np.array([generator.choice(pool, N_SHOWN, replace=False) for _ in users])
        figures += hits_of(split.test, users, lists)
    return figures[0], figures[1], figures[2], figures[3]


def hits_of(test: gpu.Ratings, users: NDArray[np.int32], lists: NDArray[np.integer]) -> tuple[float, float]:
    """HR@10 and Recall@20 of the lists of `users` (B,)."""
    hits, shares = [], []
    for user, shown in zip(users.tolist(), lists, strict=True):
        start, n = test.by_user.starts[user], test.by_user.lengths[user]
        row = slice(start, start + n)
        relevant = test.by_user.items[row][test.by_user.values[row] >= RELEVANT_FROM]
        if len(relevant):
            hits.append(np.isin(shown[:10], relevant).any())
            shares.append(np.isin(relevant, shown[:20]).mean())
    return float(np.mean(hits)), float(np.mean(shares))


def _joined(one: gpu.Ratings, other: gpu.Ratings) -> gpu.Ratings:
    columns = [np.concatenate(pair) for pair in zip(one.coo(), other.coo(), strict=True)]
    users, items, values = columns
    return gpu.Ratings.from_coo(users, items, values, (one.n_users, one.n_items), one.user_keys, one.item_keys)
