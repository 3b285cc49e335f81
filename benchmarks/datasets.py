"""Reads the sets of a data folder and splits each into a training part and a test part.

Each set has its own folder (`ml-1m/ratings.csv`, …); missing sets are skipped. Test parts are used neither for training
nor to choose settings: settings are chosen on a tenth of the training part.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.als_lists import as_ones
from benchmarks.peers.contract import ESTIMATES, FACTORS, LISTS, Facts
from benchmarks.ranking import per_user_split
from gpu.params import NmfParams
from service.cli import offline
from service.cli.files import ratings_file

SEED = 42  # seed of every split
TEST_SHARE, TEST_SHARE_OF_A_USER, VALIDATION_SHARE = 0.1, 0.2, 0.1
VALIDATION_USERS = 2000  # users whose lists choose the settings; all of them would take longer than the fits


@dataclass(frozen=True)
class Source:
    """A set: its task, its file within the data folder, and whether ones replace its values."""

    task: str
    file: str
    is_ones: bool = False


SOURCES = {
    "ml-100k": Source(ESTIMATES, "ml-100k/u.data"),
    "ml-1m": Source(ESTIMATES, "ml-1m/ratings.csv"),
    "jester": Source(ESTIMATES, "jester/ratings.csv"),
    "bookcrossing": Source(ESTIMATES, "bookcrossing/ratings.csv"),
    "ml-1m-lists": Source(LISTS, "ml-1m/ratings.csv"),
    "ml-1m-ones": Source(LISTS, "ml-1m/ratings.csv", is_ones=True),
    "lastfm": Source(LISTS, "lastfm/counts.csv"),
    "yelp2018": Source(LISTS, "yelp2018/pairs.csv"),
    "bookcrossing-ones": Source(LISTS, "bookcrossing/ratings.csv", is_ones=True),
    "tdt2": Source(FACTORS, "tdt2/TDT2_all.mat"),
    "faces": Source(FACTORS, "faces/ORL.mat"),
}


@dataclass(frozen=True)
class Fold:
    """A training part and a test part with the same rows. For factorizations both are the same."""

    train: gpu.Ratings
    test: gpu.Ratings

    def scaled(self, factor: float, shift: float = 0.0) -> Fold:
        """The fold with every value r replaced by r · factor + shift."""
        return Fold(_mapped(self.train, factor, shift), _mapped(self.test, factor, shift))


@dataclass(frozen=True)
class Dataset:
    """One set.

    Attributes:
        name: its key in `SOURCES`.
        task: `ESTIMATES`, `LISTS` or `FACTORS`.
        whole: the training part and the test part.
        inner: nine tenths of the training part, and the remaining tenth, which chooses settings.
        facts: facts of the training part.
    """

    name: str
    task: str
    whole: Fold
    inner: Fold
    facts: Facts


def available(data: Path, names: list[str]) -> list[str]:
    """The sets among `names` (all sets if it is empty) whose file exists in `data`."""
    return [name for name in names or SOURCES if (data / SOURCES[name].file).is_file()]


def load(data: Path, name: str) -> Dataset:
    """Read a set and split it."""
    source = SOURCES[name]
    path = data / source.file
    if source.task == FACTORS:
        matrix = offline.Data.split(ratings_file.read(path), 0.0, SEED).train
        fold = Fold(matrix, matrix)
        return Dataset(name, source.task, fold, fold, facts_of(fold.train))
    if source.task == ESTIMATES:
        whole = estimates_fold(path)
        return Dataset(name, source.task, whole, Fold(*random_split(whole.train)), facts_of(whole.train))
    whole = lists_fold(path, source.is_ones)
    train, held_out = random_split(whole.train)
    return Dataset(name, source.task, whole, Fold(train, of_some_users(held_out)), facts_of(whole.train))


def estimates_fold(path: Path) -> Fold:
    """A random tenth of the file's ratings held out."""
    data = offline.Data.split(ratings_file.read(path), TEST_SHARE, SEED)
    assert data.test is not None  # noqa: S101 - a tenth of a set is never empty; narrows the type
    return Fold(data.train, data.test)


def lists_fold(path: Path, is_ones: bool = False) -> Fold:
    """A fifth of each user's pairs held out."""
    ratings = offline.Data.split(ratings_file.read(path), 0.0, SEED).train
    return Fold(*per_user_split(as_ones(ratings) if is_ones else ratings, TEST_SHARE_OF_A_USER, SEED))


def random_split(ratings: gpu.Ratings, share: float = VALIDATION_SHARE) -> tuple[gpu.Ratings, gpu.Ratings]:
    """(remaining ratings, held-out ratings): a random `round(share · N)` of the N ratings are held out."""
    is_held_out = np.zeros(len(ratings), dtype=np.bool_)
    is_held_out[np.random.default_rng(SEED).permutation(len(ratings))[: round(share * len(ratings))]] = True
    return ratings.where(~is_held_out), ratings.where(is_held_out)


def of_some_users(ratings: gpu.Ratings, n_users: int = VALIDATION_USERS) -> gpu.Ratings:
    """The ratings of at most `n_users` random users who have ratings."""
    chosen = np.random.default_rng(SEED).permutation(np.flatnonzero(ratings.by_user.lengths))[:n_users]
    is_chosen = np.zeros(ratings.n_users, dtype=np.bool_)
    is_chosen[chosen] = True
    return ratings.where(is_chosen[ratings.coo()[0]])


def facts_of(ratings: gpu.Ratings) -> Facts:
    """The facts on which the settings of grids depend."""
    values: NDArray[Any] = ratings.by_user.values.astype(np.float64)
    density = len(ratings) / ratings.n_users / ratings.n_items
    return Facts(float(values.mean()), float(values.std()), density, NmfParams().n_factors)


def _mapped(ratings: gpu.Ratings, factor: float, shift: float) -> gpu.Ratings:
    users, items, values = ratings.coo()
    changed = (values * np.float64(factor) + shift).astype(np.float32)
    shape = (ratings.n_users, ratings.n_items)
    return gpu.Ratings.from_coo(users, items, changed, shape, ratings.user_keys, ratings.item_keys)
