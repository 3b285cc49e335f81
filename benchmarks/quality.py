"""Lists of disliked and new items, and of new users: `python -m benchmarks dislikes`, `new-items` and `new-users`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks import datasets, options
from benchmarks.datasets import SOURCES, Dataset, Fold, items_of
from benchmarks.defaults import Ours
from benchmarks.options import Data, Fits, Names, Seed, Where
from benchmarks.results import Fit, Row, Store, say
from benchmarks.timing import NAN
from gpu.algorithms import params_for
from gpu.online import OnlineModel, prepare_online
from gpu.online.model import HostModel
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.requests import Users
from gpu.training.list_quality import Lists, interval
from service.cli import offline
from service.cli.files import ratings_file
from service.jobs.content import Described, Tags, fitted, user_map_of
from service.storage.snapshots.content_map import ContentMap

# Of `dislikes`:
SET = "ml-1m-lists"
N_FILMS = (1, 3, 10)  # values of k
N_ANONYMOUS, N_NEAREST = 300, 10  # users for each k; films of a list, and neighbors
WELL_RATED = 50  # ratings of a drawn film; with fewer its neighbors would be mostly noise
RELEVANT_FROM = 4.0  # stars
# Of `new-items`:
SHARE = 0.05  # of the films, that are new
N_KNOWN = 0, 1, 3, 10  # values of k
FEWEST_RATINGS = 20  # of a new film, so that half of them are 10
N_LISTED = 20
FIGURES = "hr_at_10", "recall_at_20", "hr_at_10_of_all", "recall_at_20_of_all", "rmse"
# Of `new-users`:
SHARE_OF_USERS = 0.1  # that are new
PEOPLE = "gender", "age", "occupation"  # fields of `users.dat`
_TITLE = re.compile(r"(?P<item>\d+)::.*\((?P<year>\d{4})\)::(?P<genres>.*)")


def dislikes(
    data: Data,
    algorithms: Names = "als-implicit,culsh-implicit,culsh,als,sgd,esgd",
    backend: Where = "auto",
    json: Fits = None,
) -> None:
    """Share of a disliked item's nearest neighbors in the next list, and NDCG@10 of liked items, on ml-1m.

    An anonymous user gives one star to k films. The result is the share of each film's ten nearest neighbors, as the
    service lists them, that is in the user's next list of ten; and the same share after five stars. NDCG@10 counts only
    held-out ratings of four stars and more as relevant.
    """
    store, where, names = Store(json), options.chosen(backend), options.algorithms(algorithms)
    if datasets.available(data, [SET]):
        dataset = Dataset.of(SET, datasets.lists_fold(data / datasets.SOURCES[SET][1]))
        for algorithm in names:
            say(f"training {algorithm}")
            blank = Ours(algorithm, where).row(dataset, "dislikes", {})
            store.get(blank, functools.partial(_measured, blank, dataset.whole, where))
    store.put_metrics("dislikes")


def _measured(blank: Fit, fold: Fold, backend: gpu.Backend) -> Fit:
    """NDCG@10, and the share of neighbors in the next list for each k, after one star and after five."""
    model = gpu.fit(fold.train, params_for(blank.method, {}), backend=backend)
    keys = fold.train.user_keys, fold.train.item_keys
    ranks = gpu.evaluate.ranking(model, fold.train.by_user, fold.test, RELEVANT_FROM)
    metrics = {"NDCG@10, 4 and up": ranks["ndcg@10"]}
    online_model = prepare_online(model, datasets.table_of(fold.train), *keys, backend).follow(*keys)
    online_model.settle()
    pool = np.flatnonzero(fold.train.by_item.lengths >= WELL_RATED)
    for k in N_FILMS:
        generator = np.random.default_rng(datasets.SEED)
        drawn = [np.sort(generator.choice(pool, k, replace=False)) for _ in range(N_ANONYMOUS)]
        for name, value in zip(("one star", "five stars"), fold.train.scale, strict=True):
            each = [_share_of_neighbors(online_model, items, value) for items in drawn]
            metrics[f"k = {k}, {name}"] = float(np.mean(each))
    return blank._replace(metrics=metrics)


def _share_of_neighbors(online_model: OnlineModel, items: NDArray[np.int64], value: float) -> float:
    """Mean over `items` of the share of their neighbors in the next list, after `value` was given to all of them."""
    values = np.full(len(items), value, dtype=np.float32)
    row = gpu.Rows(np.zeros(1, dtype=np.int64), np.array([len(items)]), items.astype(np.int32), values)
    shown, _ = topn.recommend(online_model.index, online_model.fold_in(row.items, values), row, N_NEAREST)
    return float(np.mean([np.isin(_neighbors(online_model.model, item), shown[0]).mean() for item in items.tolist()]))


def _neighbors(model: gpu.Model, item: int) -> NDArray[np.int32]:
    """The first `N_NEAREST` neighbors of an item: from the model's list if it has one, else by cosines of factors."""
    if model.neighbors.shape[1]:
        of_item = model.neighbors[item, :N_NEAREST]
        neighbors: NDArray[np.int32] = of_item[of_item != gpu.NO_NEIGHBOR]
        return neighbors
    return topn.similar(model.item_factors, item, N_NEAREST, model.item_trained)[0]


def new_items(data: Data, algorithms: Names = "als-implicit,als", seed: Seed = 42) -> Iterator[Row]:
    """HR@10 and Recall@20 of films of ml-1m that the model was not trained on, with and without their tags.

    A random twentieth of the films is new, among those with enough ratings. A model is trained without their ratings.
    Half of the ratings of each new film is the test part; of the other half the film has the first k when lists are
    made. Tags are the genres and years of `movies.dat`. Users keep the parameters of the training. A list is of the new
    films alone that its user has not rated, as with a filter, or of all films. Relevant are test ratings of 4 stars and
    more. `rmse` is that of the test ratings, in the first row of a model that knows nothing of a new film.
    """
    file = offline.Data.split(ratings_file.read(data / SOURCES["ml-1m"][1]), 0.0, seed)
    described = films(data / "ml-1m" / "movies.dat", file.ids()[1])
    split = NewFilms.drawn(file.train, seed)
    for algorithm in options.algorithms(algorithms):
        say(f"training {algorithm}")
        model = gpu.fit(split.train, params_for(algorithm, {}))
        items = np.flatnonzero(model.item_trained)
        items = items[np.argsort(-model.item_counts[items], kind="stable")]
        targets = np.column_stack([model.item_factors[items], model.item_bias[items]])
        content = fitted(targets, model.item_counts[items], [described[item] for item in items.tolist()])
        if content is None:
            raise ValueError(f"{algorithm}: tags say nothing of factors")
        generator, users = np.random.default_rng(seed), np.unique(split.test.coo()[0])
        chance: list[float] = []
        for pool in (np.flatnonzero(split.is_new), np.arange(len(split.is_new))):
            lists = np.array([generator.choice(pool, N_LISTED, replace=False) for _ in users])
            chance += _hits(split.test, users, lists)
        figures = dict(zip(FIGURES, [*chance, _figures_of_new(model, split, 0, None)[-1]], strict=True))
        yield {"algorithm": algorithm, "ratings": 0, "ranked_by": "chance", **figures}
        for k in N_KNOWN:
            for name, priors in (("ratings alone", None), ("ratings and tags", Priors(content, described))):
                if k or priors:
                    figures = dict(zip(FIGURES, _figures_of_new(model, split, k, priors), strict=True))
                    yield {"algorithm": algorithm, "ratings": k, "ranked_by": name, **figures}


def new_users(data: Data, algorithms: Names = "als-implicit,als", seed: Seed = 42) -> Iterator[Row]:
    """NDCG@10 and HR@10 of users of ml-1m who have no ratings, by their tags and by the most popular films.

    A random tenth of the users is new: a model, and its map from tags of users to factors, are trained without them, as
    the service does. Tags are the gender, age and occupation of `users.dat`. Relevant are all films to which a new user
    has given 4 stars and more. `gain_low` and `gain_high` bound the gain in NDCG@10 over the most popular films (95 %).
    `is_kept` tells whether a training of the service, which asks the same of its own users, keeps the map.
    """
    file = offline.Data.split(ratings_file.read(data / SOURCES["ml-1m"][1]), 0.0, seed)
    tags = people(data / "ml-1m" / "users.dat", file.ids()[0])
    drawn = np.random.default_rng(seed).permutation(len(tags))[: round(SHARE_OF_USERS * len(tags))]
    of_new = datasets.mask_of(drawn, len(tags))[file.train.coo()[0]]
    train, test = file.train.where(~of_new), file.train.where(of_new)
    for algorithm in options.algorithms(algorithms):
        say(f"training {algorithm}")
        model = gpu.fit(train, params_for(algorithm, {}))
        users = np.flatnonzero(model.user_trained)
        users = users[np.argsort(-train.by_user.lengths[users], kind="stable")]
        targets = np.column_stack([model.user_factors[users], model.user_bias[users]])
        content = fitted(targets, train.by_user.lengths[users], [(tags[user], None) for user in users.tolist()])
        if content is None:
            raise ValueError(f"{algorithm}: tags say nothing of factors")
        measures = [
            [lists.of_users(measure, 10) for measure in ("ndcg", "hit_rate")]
            for lists in (
                Lists.of(model, train.by_user, test, RELEVANT_FROM, 10, listing=listing)
                for listing in (Popular(model), ByTags(model, content, tags))
            )
        ]
        gain = interval(measures[1][0] - measures[0][0])
        is_kept = user_map_of(model, train, tags.__getitem__, gpu.HOST) is not None
        for name, (ndcg, hits), bounds in zip(("the most popular", "tags"), measures, ((NAN, NAN), gain), strict=True):
            yield {
                "algorithm": algorithm, "users": len(ndcg), "ranked_by": name, "ndcg_at_10": float(ndcg.mean()),
                "hr_at_10": float(hits.mean()), "gain_low": bounds[0], "gain_high": bounds[1], "is_kept": is_kept,
            }  # fmt: skip


class Popular:
    """Lists the items with the most ratings for everybody."""

    def __init__(self, model: gpu.Model) -> None:
        self._items = np.argsort(-model.item_counts.astype(np.int64), kind="stable").astype(np.int32)

    def __call__(self, users: NDArray[np.int64], k: int) -> NDArray[np.int32]:
        """The lists of users (B,), (B, k)."""
        return np.tile(self._items[:k], (len(users), 1))


class ByTags:
    """Lists by the parameters that a content map gives to users without ratings."""

    def __init__(self, model: gpu.Model, content: ContentMap, tags: Sequence[Tags]) -> None:
        self._index, self._content, self._tags = ItemIndex(model, gpu.HOST), content, tags

    def __call__(self, users: NDArray[np.int64], k: int) -> NDArray[np.int32]:
        """The lists of users (B,), (B, k)."""
        own = self._content.priors([(self._tags[user], None) for user in users.tolist()])[0].astype(np.float32)
        nothing = np.zeros(len(users), dtype=np.int64)
        rows = gpu.Rows(nothing, nothing, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))
        asking = Users(own[:, :-1].copy(), own[:, -1].copy(), np.zeros(len(users), dtype=np.float32))
        return topn.recommend(self._index, asking, rows, k)[0]


def people(path: Path, ids: Sequence[str]) -> list[Tags]:
    """Gender, age and occupation of each user of `ids`."""
    fields = [line.split("::") for line in path.read_text("latin-1").splitlines()]
    tags = {user: {name: [value] for name, value in zip(PEOPLE, values, strict=False)} for user, *values in fields}
    return [tags.get(user, {}) for user in ids]


def films(path: Path, ids: Sequence[str]) -> list[Described]:
    """Genres and year of each film of `ids`."""
    matches = [match for line in path.read_text("latin-1").splitlines() if (match := _TITLE.fullmatch(line))]
    tags = {match["item"]: {"genre": match["genres"].split("|"), "year": [match["year"]]} for match in matches}
    return [(tags.get(item, {}), None) for item in ids]


class NewFilms(NamedTuple):
    """One drawing of new films: ratings of the others, and two halves of theirs, to become known and to test."""

    is_new: NDArray[np.bool_]
    train: gpu.Ratings
    known: gpu.Ratings
    test: gpu.Ratings

    @classmethod
    def drawn(cls, ratings: gpu.Ratings, seed: int) -> NewFilms:
        """Draw `SHARE` of the films, and half of the ratings of each."""
        generator = np.random.default_rng(seed)
        pool = generator.permutation(np.flatnonzero(ratings.by_item.lengths >= FEWEST_RATINGS))
        is_new = datasets.mask_of(pool[: round(SHARE * ratings.n_items)], ratings.n_items)
        of_new = is_new[ratings.coo()[1]]
        is_test = of_new & (generator.random(len(ratings)) < 0.5)
        return cls(is_new, *(ratings.where(part) for part in (~of_new, of_new & ~is_test, is_test)))

    def learned(self, k: int) -> gpu.Ratings:
        """The training ratings and the first `k` known ones of each new film."""
        return datasets.joined([self.train, self.known.where(_numbers(self.known.coo()[1]) < k)])


class Priors:
    """The priors of films; see `gpu.online.priors`."""

    def __init__(self, content: ContentMap, described: Sequence[Described]) -> None:
        self._content, self._described, self.most = content, described, 1

    def of(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """The prior of each item."""
        return self._content.priors([self._described[item] for item in items.tolist()])[0]


def _figures_of_new(model: gpu.Model, split: NewFilms, k: int, priors: Priors | None) -> list[float]:
    """HR@10 and Recall@20 of new films, then of all films, and RMSE, of a copy of `model` with k ratings each."""
    own, learned = datasets.copy_of(model), split.learned(k)
    table = datasets.table_of(learned)
    online = HostModel(own, table, learned.user_keys, learned.item_keys, priors=priors)
    online.renew(np.flatnonzero(split.is_new))
    online.settle()
    users, figures = np.unique(split.test.coo()[0]), list[float]()
    for hidden in (~split.is_new, np.zeros(model.n_items, dtype=np.bool_)):
        online.index.hide(hidden)
        lists, _ = topn.recommend(online.index, topn.users_of(own, users), topn.rows_of(table.rows, users), N_LISTED)
        figures += _hits(split.test, users, lists)
    return [*figures, NAN if own.is_implicit else gpu.evaluate.rmse(own, table.rows, *split.test.coo())]


def _hits(test: gpu.Ratings, users: NDArray[np.int32], lists: NDArray[np.integer]) -> tuple[float, float]:
    """HR@10 and Recall@20 of the lists of `users` (B,)."""
    liked, hits, shares = test.where(test.coo()[2] >= RELEVANT_FROM), [], []
    for user, shown in zip(users.tolist(), lists, strict=True):
        relevant = items_of(liked, user)
        if len(relevant):
            hits.append(np.isin(shown[:10], relevant).any())
            shares.append(np.isin(relevant, shown[:20]).mean())
    return float(np.mean(hits)), float(np.mean(shares))


def _numbers(items: NDArray[np.int32]) -> NDArray[np.int64]:
    """The number of each rating among those of its item, in their order."""
    order, numbers = np.argsort(items, kind="stable"), np.empty(len(items), dtype=np.int64)
    numbers[order] = np.arange(len(items)) - np.searchsorted(items[order], items[order])
    return numbers
