"""`python -m benchmarks ranking`: quality of the lists of each model, offline and served over HTTP.

The full ranking holds out a fifth of each user's ratings and ranks every unseen item; held-out ratings of at least
`RELEVANT_FROM` are relevant. Leave-one-out holds out one rating of each user and ranks it among 99 unrated items.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gpu
from benchmarks.leave_one_out import leave_one_out
from benchmarks.report import say
from benchmarks.running import post, retrain, serving
from gpu.params import params_for
from service.cli import offline
from service.cli.client import Client
from service.cli.files import ratings_file
from service.engine.state.id_table import IdTable
from service.settings.settings import Settings

HELD_OUT = 0.2
RELEVANT_FROM = 4.0
N_SERVED = 20


@dataclass(frozen=True)
class Row:
    """One order of the items. `lead` is its NDCG@10 divided by that of the most popular items; NaN means not measured.

    `hr_at_10` and `sampled_ndcg_at_10` belong to the leave-one-out ranking, the other metrics to the full one.
    """

    ranked_by: str
    ndcg_at_10: float
    lead: float
    recall_at_20: float
    hr_at_10: float
    sampled_ndcg_at_10: float
    seconds: float


def run(ratings: Path, seed: int, algorithms: Sequence[str]) -> Iterator[Row]:
    """A row for the most popular items, for each algorithm's defaults, and for the default of `GET /recommend`."""
    data = offline.Data.split(ratings_file.read(ratings), 0.0, seed)
    train, test = per_user_split(data.train, HELD_OUT, seed)
    rest, positives, negatives = leave_one_out(data.train, seed)
    popular = by_popularity(train)
    base = gpu.evaluate.ranking(popular, train.by_user, test, RELEVANT_FROM)
    hits = gpu.evaluate.sampled_ranking(by_popularity(rest), rest.by_user, positives, negatives)
    yield Row("most popular", base["ndcg@10"], 1.0, base["recall@20"], hits["hr@10"], hits["ndcg@10"], 0.0)
    for name in algorithms:
        say(f"training {name}")
        reports: list[gpu.EpochReport] = []
        model = gpu.fit(train, params_for(name, {}), on_epoch=reports.append)
        full = gpu.evaluate.ranking(model, train.by_user, test, RELEVANT_FROM)
        hits = gpu.evaluate.sampled_ranking(gpu.fit(rest, params_for(name, {})), rest.by_user, positives, negatives)
        lead = full["ndcg@10"] / base["ndcg@10"]
        seconds = reports[-1].seconds
        yield Row(name, full["ndcg@10"], lead, full["recall@20"], hits["hr@10"], hits["ndcg@10"], seconds)
    yield _served(data, train, test, base["ndcg@10"])


def per_user_split(ratings: gpu.Ratings, fraction: float, seed: int) -> tuple[gpu.Ratings, gpu.Ratings]:
    """(training part, test part): the test part has a random `round(fraction · n)` of each user's n ratings."""
    users, _, _ = ratings.coo()
    draws = np.random.default_rng(seed).random(len(users))
    order = np.lexsort((draws, users))
    position = np.empty(len(users), dtype=np.int64)
    position[order] = np.arange(len(users)) - np.repeat(ratings.by_user.starts, ratings.by_user.lengths)
    is_test = position < np.round(fraction * ratings.by_user.lengths)[users]
    return ratings.where(~is_test), ratings.where(is_test)


def by_popularity(ratings: gpu.Ratings) -> gpu.Model:
    """A model that scores an item by its number of ratings."""
    params = params_for("sgd", {"n_factors": 1})
    scale = (0.0, float(ratings.by_item.lengths.max()))
    model = gpu.Model.zeros(params, 0.0, scale, ratings.n_users, ratings.n_items)
    model.item_bias[:] = ratings.by_item.lengths
    return model


def _served(data: offline.Data, train: gpu.Ratings, test: gpu.Ratings, base: float) -> Row:
    """Post the training part to a service, train its default model, and score its lists."""
    users, items, values = train.coo()
    default = Settings().default_models[0]
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder, serving(Path(folder)) as (client, _):
        say("posting the training part to a service")
        post(client, _ids(data.users, users), _ids(data.items, items), values)
        say(f"training {default} there")
        retrain(client, default)
        ndcg, recall = _score_lists(client, data, test)
    return Row(f"GET /recommend ({default})", ndcg, ndcg / base, recall, *[float("nan")] * 3)


def _score_lists(client: Client, data: offline.Data, test: gpu.Ratings) -> tuple[float, float]:
    discounts = 1 / np.log2(np.arange(N_SERVED) + 2)
    ndcg, recall = [], []
    for user in range(test.n_users):
        start, length = test.by_user.starts[user], test.by_user.lengths[user]
        liked = test.by_user.values[start : start + length] >= RELEVANT_FROM
        relevant = set(_ids(data.items, test.by_user.items[start : start + length][liked]))
        if not relevant:
            continue
        answer = client.recommend(str(data.users.id(user)), n=N_SERVED)
        is_hit = np.array([line["item"] in relevant for line in answer["items"]])
        ndcg.append(discounts[:10][is_hit[:10]].sum() / discounts[: min(10, len(relevant))].sum())
        recall.append(is_hit.sum() / len(relevant))
    return float(np.mean(ndcg)), float(np.mean(recall))


def _ids(table: IdTable, rows: NDArray[np.int32]) -> list[str]:
    return [str(table.id(row)) for row in rows.tolist()]
