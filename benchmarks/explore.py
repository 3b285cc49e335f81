"""`python -m benchmarks explore`: which items with few ratings places for exploration should take.

Three tenths of the items with at least `FROM` ratings keep 1 to 9 of them, drawn at random; the rest is held out. A
model is trained on what is left. Each of `N_USERS` random users with held-out ratings gets the first three items to
explore, in three orders: by score, by score and bonus as the service does, and those with the fewest ratings first. A
hit is an item that its user has rated in the held-out part, where values are stars with 4 or more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks import datasets
from benchmarks.report import say
from gpu.online import prepare_online
from gpu.params import params_for
from gpu.ranking import topn
from service.cli import offline
from service.cli.files import ratings_file
from service.engine.lists.exploration import Exploration, bonus, leveling
from service.engine.lists.selection import Selection
from service.engine.models.live_model import LiveModel
from service.engine.queries import Items
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.snapshots.manifest import Manifest

SETS = {"ml-100k": 4.0, "lastfm": -np.inf}  # lowest relevant value
FROM, SHARE, BELOW = 12, 0.3, 10
N_USERS, N_SHOWN, FEW = 400, 3, 2
BATCH = 100_000


@dataclasses.dataclass(frozen=True)
class Row:
    """One order of the items to explore.

    Attributes:
        hits: share of the shown items that are hits.
        few: share of the shown items with at most two ratings.
    """

    data: str
    algorithm: str
    order: str
    hits: float
    few: float


@dataclasses.dataclass(frozen=True)
class Split:
    """Training ratings, and the relevant ones among those held out."""

    train: gpu.Ratings
    relevant: gpu.Ratings

    @classmethod
    def drawn(cls, ratings: gpu.Ratings, relevant_from: float, seed: int) -> Split:
        """Take most ratings from a share of the items."""
        generator, items = np.random.default_rng(seed), ratings.coo()[1]
        most = np.full(ratings.n_items, len(ratings))
        pool = np.flatnonzero(ratings.by_item.lengths >= FROM)
        chosen = generator.permutation(pool)[: round(SHARE * len(pool))]
        most[chosen] = generator.integers(1, BELOW, len(chosen))
        order = generator.permutation(len(items))
        order = order[np.argsort(items[order], kind="stable")]
        is_held_out = np.empty(len(items), dtype=np.bool_)
        is_held_out[order] = np.arange(len(items)) - np.searchsorted(items[order], items[order]) >= most[items[order]]
        return cls(ratings.where(~is_held_out), ratings.where(is_held_out & (ratings.coo()[2] >= relevant_from)))


def run(data: Path, sets: Sequence[str], algorithms: Sequence[str], seed: int) -> Iterator[Row]:
    """Rows for each set and algorithm; the first one of a set is an item drawn at random."""
    for name in sets:
        file = offline.Data.split(ratings_file.read(data / datasets.SOURCES[name].file), 0.0, seed)
        split = Split.drawn(file.train, SETS[name], seed)
        with_any = np.flatnonzero(split.relevant.by_user.lengths)
        users = np.sort(np.random.default_rng(seed).permutation(with_any)[:N_USERS])
        yield chance(name, split, users)
        for algorithm in algorithms:
            say(f"{name}: training {algorithm}")
            for order, rows in orders(split, algorithm, users).items():
                yield Row(name, algorithm, order, *_figures(split, users, rows))


def chance(name: str, split: Split, users: NDArray[np.int64]) -> Row:
    """The figures of an item drawn at random among those with few ratings that its user has not rated."""
    counts, shares = split.train.by_item.lengths, []
    pool = np.flatnonzero((counts > 0) & (counts < BELOW))
    for user in users.tolist():
        left = np.setdiff1d(pool, _row(split.train, user))
        shares.append(np.isin(left, _row(split.relevant, user)).mean())
    return Row(name, "", "at random", float(np.mean(shares)), float((counts[pool] <= FEW).mean()))


def orders(split: Split, algorithm: str, users: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """The first three items to explore of each user, int64 (B, 3), by order."""
    history, live_model = _trained(split.train, algorithm)
    counts, exploration = live_model.table.item_counts, Exploration()
    asked = (
        topn.users_of(live_model.model, users),
        live_model.rows_of(users),
        N_SHOWN,
        Selection(history).hidden(Items()),
    )
    levels = exploration.levels(live_model, BELOW, None).items
    best = [live_model.recommend(*asked, eligible=[items] * len(users)) for items in levels]
    found: dict[str, list[NDArray[np.int64]]] = {"score": [], "bonus": [], "fewest": []}
    for user in range(len(users)):
        rows, scores = (np.concatenate([part[user] for part in parts]) for parts in zip(*best, strict=True))
        rows, scores = rows[rows >= 0].astype(np.int64), scores[rows >= 0].astype(np.float64)
        numbers = counts[rows]
        c, _ = leveling(np.zeros_like(rows), numbers, scores, 1)  # numbers ascend
        added = c * bonus(numbers)
        for name, keys in (
            ("score", (-scores,)),
            ("bonus", (-(scores + added),)),
            ("fewest", (-scores, numbers)),
        ):
            found[name].append(rows[np.lexsort((rows, *keys))[:N_SHOWN]])
    return {name: np.array(own) for name, own in found.items()}


def _figures(split: Split, users: NDArray[np.int64], shown: NDArray[np.int64]) -> tuple[float, float]:
    pairs = zip(users.tolist(), shown, strict=True)
    hits = [np.isin(own, _row(split.relevant, user)).mean() for user, own in pairs]
    return float(np.mean(hits)), float((split.train.by_item.lengths[shown] <= FEW).mean())


def _row(ratings: gpu.Ratings, user: int) -> NDArray[np.integer]:
    start = ratings.by_user.starts[user]
    items: NDArray[np.integer] = ratings.by_user.items[start : start + ratings.by_user.lengths[user]]
    return items


def _trained(train: gpu.Ratings, algorithm: str) -> tuple[History, LiveModel]:
    """A history whose rows are those of `train`, and a model of it."""
    history = History()
    history.users.rows_or_new([f"u{n}" for n in range(train.n_users)])
    history.items.rows_or_new([f"i{n}" for n in range(train.n_items)])
    columns = [column.tolist() for column in train.coo()]
    ratings = [RatingEvent(f"u{u}", f"i{i}", value, 1e9) for u, i, value in zip(*columns, strict=True)]
    for n, first in enumerate(range(0, len(ratings), BATCH)):
        history.apply([Entry(StreamId(n + 1, 0), "rating", ratings[first : first + BATCH])])
    params, keys = params_for(algorithm, {}), (history.users.keys, history.items.keys)
    model = gpu.fit(history.table.ratings(*keys), params)
    sizes, watermark = (model.n_users, model.n_items), str(history.position)
    fields = dataclasses.asdict(params)
    manifest = Manifest("", algorithm, fields, model.mean, model.scale, {}, watermark, *sizes, {})
    live_model = LiveModel(manifest, prepare_online(model, history.table, *keys), history)
    live_model.settle(None)
    return history, live_model
