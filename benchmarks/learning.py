"""What learning online is worth: `python -m benchmarks stream`, `newcomers`, `prequential`, `half-life`,
`trend`, `repeat` and `ab`.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

import gpu
from benchmarks import datasets, options
from benchmarks.datasets import Dataset, Fold, apply
from benchmarks.defaults import Ours
from benchmarks.options import Algorithm, Data, Factors, File, Fits, Names, Seed, Seeds, Source, Where
from benchmarks.results import Fit, Row, Store, say
from benchmarks.running import post, retrain, serving
from benchmarks.timing import median_of, timed
from gpu.algorithms import params_for
from gpu.base.errors import InvalidInput
from gpu.data.decay import DAY_S
from gpu.data.param_kinds import Params, with_changes
from gpu.data.ratings import Occasions
from gpu.online import prepare_online
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.weighted import rows_in_time
from gpu.repeat.learn import NEWEST, pairs_of
from gpu.repeat.learn import learned as how_items_repeat
from gpu.repeat.own import parts_of as own_parts
from gpu.training.list_quality import Lists
from gpu.trend.host_counts import lifts_of_training
from gpu.trend.learn import learned
from service.cli import offline
from service.cli.client import Client
from service.cli.files import ratings_file

SET, TEST_SHARE, N_BATCHES = "ml-1m", 0.05, 20  # of `stream`
SHARE = 0.01  # of users and items, that are new
TRAINED, RETRAIN_EVERY = 0.9, 1000  # of `prequential`: share that is trained first, and ratings between retrainings
N_PARTS, N_TRAINED = 20, 10  # of `half-life`: parts of equal length, and those that are only trained on
BASKETS = 800, 500  # of `repeat`: users and items
EXPERIMENT, BATCH = "ab", 50  # of `ab`: ratings of one batch
SETTINGS = {"NEARFIELD_EVENTS": "impression=seen,hit=seen", "NEARFIELD_BACKEND": "host"}


def stream(data: Data, algorithms: Names = "als,sgd,culsh,esgd", backend: Where = "auto", json: Fits = None) -> None:
    """Test RMSE after half of ml-1m was learned online, and of the static and the retrained model; ms per batch.

    The ratings are in random order. A twentieth is the test part, and half of the rest is the training part. The other
    half arrives in 20 batches, and the online model learns each before the next arrives. It is compared with the
    trained model without online learning, and with a model trained on everything.
    """
    store, where, names = Store(json), options.chosen(backend), options.algorithms(algorithms)
    if datasets.available(data, [SET]):
        first, batches, test = parts_of(datasets.ratings_of(data / datasets.SOURCES[SET][1]))
        dataset = Dataset.of(SET, Fold(first, test))
        for algorithm in names:
            say(f"training {algorithm}")
            blank = Ours(algorithm, where).row(dataset, "stream", {})
            store.get(blank, lambda blank=blank: _streamed(blank, first, batches, test, where))  # type: ignore[misc]
    store.put_metrics("stream")


def parts_of(ratings: gpu.Ratings) -> tuple[gpu.Ratings, list[gpu.Ratings], gpu.Ratings]:
    """(trained first, batches in order, test): a random permutation of the ratings, divided."""
    order = np.random.default_rng(datasets.SEED).permutation(len(ratings))
    n_test = round(TEST_SHARE * len(order))
    test, first, later = np.split(order, [n_test, n_test + (len(order) - n_test) // 2])
    parts = [ratings.where(datasets.mask_of(part, len(ratings))) for part in (first, *np.array_split(later, N_BATCHES))]
    return parts[0], parts[1:], ratings.where(datasets.mask_of(test, len(ratings)))


def _streamed(
    blank: Fit, first: gpu.Ratings, batches: Sequence[gpu.Ratings], test: gpu.Ratings, backend: gpu.Backend
) -> Fit:
    """The RMSE of the three models on the test part, and the median milliseconds of a batch."""
    params, whole = params_for(blank.method, {}), datasets.joined([first, *batches])
    model = gpu.fit(first, params, backend=backend)
    static = gpu.evaluate.rmse(model, first.by_user, *test.coo())
    table, keys, n_seen, taken = datasets.table_of(first), (first.user_keys, first.item_keys), len(first), list[float]()
    online = prepare_online(model, table, *keys, backend).follow(*keys, since=len(first))
    online.settle()
    for batch in batches:
        began = time.perf_counter()
        online.note(apply(table, batch, n_seen))
        online.settle()
        taken.append(1e3 * (time.perf_counter() - began))
        n_seen += len(batch)
    learned = gpu.evaluate.rmse(online.model, table.rows, *test.coo())
    again, seconds = timed(lambda: gpu.fit(whole, params, backend=backend))
    retrained = gpu.evaluate.rmse(again, whole.by_user, *test.coo())
    metrics = {"as trained": static, "online": learned, "retrained": retrained, "ms a batch": statistics.median(taken)}
    return blank._replace(metrics=metrics, seconds=seconds)


class Trial(NamedTuple):
    """One seed with known users learned or kept: RMSE of the test ratings, and seconds; see `newcomers`."""

    retrained: float
    unseen: float
    online: float
    retraining_s: float
    online_s: float


def newcomers(
    ratings: Source,
    algorithms: Names = "culsh",
    factors: Factors = "128,32",
    seeds: Seeds = "0,1,2,3,4",
    backend: Where = "auto",
) -> Iterator[Row]:
    """Test RMSE after 1 % of the users and items were learned online, and after retraining on everything.

    A tenth of a file is held out. A random hundredth of the users and of the items is new ([004] table 9 has 698 of
    69,878 users and 106 of 10,677 items). A model is trained without their training ratings. These then arrive in one
    batch and are learned as in the service: new users and items are refitted, and so are known users who rated new
    items. In rows with `kept`, known users stay as trained, as in [004] Alg. 4. The model to compare with is trained on
    all training ratings. Both are tested on the same ratings, including those of new users and items.

    `retrained`, `unseen` and `online` are the RMSE of the model trained on everything, of the one without newcomers,
    and of the latter after it has learned them; medians over seeds. `online_s` is the time from their arrival until all
    are learned; on a device with kept known users it includes the start of the learner.
    """
    (train, test), where = datasets.train_and_test(ratings), options.chosen(backend)
    for algorithm in options.algorithms(algorithms):
        for n_factors in options.whole(factors):
            params = params_for(algorithm, {"n_factors": n_factors})
            say(f"{params} ({where.name})")
            pairs = [_trials(train, test, params, seed, where) for seed in options.whole(seeds)]
            size = {"n_factors": params.width, "n_neighbors": params.n_neighbors}
            for known_users, trials in zip(("learned", "kept"), zip(*pairs, strict=True), strict=True):
                differences = tuple(trial.online - trial.retrained for trial in trials)
                row = {"algorithm": algorithm, **size, "known_users": known_users}
                row |= dict(zip(Trial._fields, median_of(trials, *Trial._fields), strict=True))
                yield {**row, "difference": statistics.median(differences), "difference_by_seed": differences}


def _trials(
    train: gpu.Ratings, test: gpu.Ratings, params: Params, seed: int, backend: gpu.Backend
) -> tuple[Trial, Trial]:
    """The trials of one seed: with known users learned, and with known users kept."""
    params, generator = with_changes(params, seed=seed), np.random.default_rng(seed)
    new_users, new_items = (
        datasets.mask_of(generator.permutation(n)[: round(SHARE * n)], n) for n in (train.n_users, train.n_items)
    )
    is_new = new_users[train.coo()[0]] | new_items[train.coo()[1]]

    def rmse(model: gpu.Model) -> float:
        return gpu.evaluate.rmse(model, train.by_user, *test.coo())

    without = gpu.fit(train.where(~is_new), params, backend=backend)
    model, retraining_s = timed(lambda: gpu.fit(train, params, backend=backend))
    retrained, unseen, trials = rmse(model), rmse(without), []
    for is_kept in (False, True):
        learned, online_s = _learned(datasets.copy_of(without), train, is_new, is_kept, backend)
        trials.append(Trial(retrained, unseen, rmse(learned), retraining_s, online_s))
    return trials[0], trials[1]


def _learned(
    model: gpu.Model, ratings: gpu.Ratings, is_new: NDArray[np.bool_], is_kept: bool, backend: gpu.Backend
) -> tuple[gpu.Model, float]:
    """(`model` after it has learned the newcomers, seconds); an online model refits rows that are not trained."""
    first = ratings if is_kept else ratings.where(~is_new)
    table, keys = datasets.table_of(first), (ratings.user_keys, ratings.item_keys)
    online = prepare_online(model, table, *keys, backend).follow(*keys)
    if not is_kept:
        online.settle()
    began = time.perf_counter()
    if not is_kept:
        online.note(apply(table, ratings.where(is_new), len(first)))
    online.settle()
    return online.model, time.perf_counter() - began


class Timeline(NamedTuple):
    """A file's ratings in time order: ids and rows of users and items, values (N,), and seconds (N,)."""

    user_ids: list[str]
    item_ids: list[str]
    rows: gpu.Ratings
    user_rows: NDArray[np.int32]
    item_rows: NDArray[np.int32]
    values: NDArray[np.float32]
    seconds: NDArray[np.float64]

    @classmethod
    def of(cls, path: Path) -> Timeline:
        """Sort by time; ratings with equal times keep their order."""
        file = ratings_file.read(path)
        if file.timestamps is None:
            raise InvalidInput("Invalid ratings: expected a column of timestamps, got none")
        seconds = np.asarray(file.timestamps, dtype=np.float64)
        order = np.argsort(seconds, kind="stable")
        users, items, rows = offline.numbered(file)
        rows, shape = rows.at(order), (len(users), len(items))
        ids = users.ids(rows.users.tolist()), items.ids(rows.items.tolist())
        whole = gpu.Ratings.from_coo(rows.users, rows.items, rows.values, shape, users.keys, items.keys)
        return cls(*ids, whole, rows.users, rows.items, rows.values, seconds[order])

    def before(self, end: int) -> gpu.Ratings:
        """The ratings before position `end`, in the rows of the whole timeline."""
        shape, keys = (self.rows.n_users, self.rows.n_items), (self.rows.user_keys, self.rows.item_keys)
        return gpu.Ratings.from_coo(self.user_rows[:end], self.item_rows[:end], self.values[:end], shape, *keys)

    def times(self, end: int) -> gpu.Times:
        """Times of `before(end)`, in their order. Of a pair that occurs twice, the last rating counts."""
        return gpu.Times.of(self.user_rows[:end], self.item_rows[:end], self.seconds[:end])


def prequential(ratings: File, algorithm: Algorithm = "culsh") -> Iterator[Row]:
    """RMSE of estimates made before each rating arrives: without online learning, with it, and with retraining.

    The service imports the oldest 90 % and trains on them. Each of the newest 10 % is first estimated and then posted,
    over HTTP. The trained model without online learning and models retrained every 1,000 ratings estimate the same
    ratings. All models are trained without the held-out pairs, as the service always does.
    """
    timeline = Timeline.of(ratings)
    n = int(TRAINED * len(timeline.values))
    say(f"training on {n:,} ratings, streaming {len(timeline.values) - n:,}")

    def rmse(estimates: Sequence[float] | NDArray[np.float32]) -> float:
        return float(np.sqrt(np.mean((np.asarray(estimates, dtype=np.float64) - timeline.values[n:]) ** 2)))

    static = rmse(_retrained(timeline, n, algorithm, len(timeline.values)))
    retrained = rmse(_retrained(timeline, n, algorithm, RETRAIN_EVERY))
    users, items, values, estimates = timeline.user_ids, timeline.item_ids, timeline.values, list[float]()
    with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder, serving(Path(folder)) as (client, _):
        post(client, users[:n], items[:n], values[:n])
        retrain(client, algorithm)
        last_id = None  # each request waits until all earlier ratings are learned
        for user, item, value in zip(users[n:], items[n:], values[n:].tolist(), strict=True):
            estimates.append(client.estimate(user, item, wait_for=last_id)["estimate"])
            last_id = client.rate({"user": user, "item": item, "rating": value})["stream_id"]
    online = rmse(estimates)
    won_back = (static - online) / (static - retrained) if static != retrained else math.nan
    yield {"model": f"{algorithm}, no online learning", "prequential_rmse": static, "won_back": 0.0}
    yield {"model": f"{algorithm}, online", "prequential_rmse": online, "won_back": won_back}
    name = f"{algorithm}, retrained every {RETRAIN_EVERY:,} ratings"
    yield {"model": name, "prequential_rmse": retrained, "won_back": 1.0}


def _retrained(timeline: Timeline, n: int, algorithm: str, every: int) -> NDArray[np.float32]:
    """Estimates by a model that is retrained every `every` ratings, on the ratings before."""
    estimates = []
    for begin in range(n, len(timeline.values), every):
        say(f"  full training on {begin:,} ratings")
        earlier = timeline.before(begin)
        users, items, _ = earlier.coo()
        is_held_out = gpu.evaluate.is_held_out(earlier.user_keys[users], earlier.item_keys[items])
        model = gpu.fit(earlier.where(~is_held_out), params_for(algorithm, {}))
        pairs = (timeline.user_rows[begin : begin + every], timeline.item_rows[begin : begin + every])
        estimates.append(gpu.evaluate.predict(model, earlier.by_user, *pairs))
    return np.concatenate(estimates)


def half_life(
    ratings: File,
    days: Annotated[str, typer.Option(help="Comma-separated half-lives in days.")] = "7,30,90,365",
    algorithm: Algorithm = "als-implicit",
    backend: Where = "auto",
) -> Iterator[Row]:
    """NDCG@10 and Recall@20, or RMSE, on the next ratings in the order of time, without and with each half-life.

    Ten times a model is trained on all earlier ratings, as of the last one, and makes lists for the users of the next
    twentieth; the first half is only trained on. Relevant are the next items that a user likes and has not rated
    before, of users whom the model knows. Explicit models estimate the next ratings of users and items that they know.
    """
    timeline, where = Timeline.of(ratings), options.chosen(backend)
    for half_life_days in (0.0, *options.numbers(days)):
        say(f"half-life of {half_life_days:g} days")
        params = params_for(algorithm, {"half_life_days": half_life_days} if half_life_days else {})
        steps = [_step(timeline, step, params, where) for step in range(N_TRAINED, N_PARTS)]
        row: Row = {"algorithm": algorithm, "half_life_days": half_life_days}
        for name, metric in (("ndcg_10", "ndcg@10"), ("recall_20", "recall@20"), ("rmse", "rmse")):
            row[name] = float(np.mean([step[metric] for step in steps])) if metric in steps[0] else None
        yield {**row, "seconds": float(np.median([step["seconds"] for step in steps])), "n_steps": len(steps)}


def _step(timeline: Timeline, step: int, params: gpu.Params, backend: gpu.Backend) -> dict[str, float]:
    """Metrics of the next ratings, and seconds of the training."""
    begin, end = (len(timeline.values) * n // N_PARTS for n in (step, step + 1))
    earlier, times, began = timeline.before(begin), timeline.times(begin), time.perf_counter()
    model = gpu.fit(earlier, params, backend=backend, times=times)
    took = {"seconds": time.perf_counter() - began}
    users, items, values = timeline.user_rows[begin:end], timeline.item_rows[begin:end], timeline.values[begin:end]
    known = model.user_trained[users]
    if not model.is_implicit:
        known &= model.item_trained[items]
    test = gpu.Ratings.from_coo(users[known], items[known], values[known], (earlier.n_users, earlier.n_items))
    if not model.is_implicit:
        return took | {"rmse": gpu.evaluate.rmse(model, earlier.by_user, *test.coo())}
    rows = rows_in_time(model, earlier.by_user, times)
    return took | gpu.evaluate.ranking(model, rows, test, backend=backend)


def trend(ratings: File, algorithms: Names = "als-implicit", backend: Where = "auto") -> Iterator[Row]:
    """NDCG@10 and Recall@20 on the next ratings in the order of time: without what is popular now in scores, and with.

    The cuts are those of `half-life`, with the shipped defaults. The first row is a list of the items that were rated
    most in the seven days before a cut. `hit_rate_10` is that of the next users whom the model does not know, who get
    popular items or, with a trend, trending ones. `n_lifted`: the share of trainings that took a trend.
    """
    timeline, where = Timeline.of(ratings), options.chosen(backend)
    for algorithm in ("popular in 7 days", *options.algorithms(algorithms)):
        say(algorithm)
        steps = [_trend_step(timeline, step, algorithm, where) for step in range(N_TRAINED, N_PARTS)]
        means = {name: [step[name] for step in steps if not math.isnan(step[name])] for name in steps[0]}
        yield {"algorithm": algorithm, **{name: statistics.mean(one) if one else None for name, one in means.items()}}


def _trend_step(timeline: Timeline, step: int, algorithm: str, backend: gpu.Backend) -> dict[str, float]:
    """The figures of one cut."""
    begin, end = (len(timeline.values) * n // N_PARTS for n in (step, step + 1))
    earlier, times, began = timeline.before(begin), timeline.times(begin), time.perf_counter()
    part = slice(begin, end)
    users, items, values = timeline.user_rows[part], timeline.item_rows[part], timeline.values[part]
    shape, is_known = (earlier.n_users, earlier.n_items), earlier.by_user.lengths[users] > 0
    known, unknown = (
        gpu.Ratings.from_coo(users[some], items[some], values[some], shape) for some in (is_known, ~is_known)
    )
    middle, found = float(timeline.values.mean()), dict[str, float]()
    if algorithm not in gpu.ALGORITHMS:
        is_recent = times.seconds >= times.as_of_s - 7 * DAY_S
        model = gpu.evaluate.baseline(earlier.where(is_recent), is_implicit=True)
        model.mark_trained(earlier.by_user.lengths, earlier.by_item.lengths)
        seconds, learned_trend = 0.0, None
    else:
        params = params_for(algorithm, {})
        model = gpu.fit(earlier, params, backend=backend)
        learned_trend = learned(earlier, times, model.params, backend)
        seconds, middle = time.perf_counter() - began, model.middle if model.is_implicit else middle
    index, lifts = ItemIndex(model, backend), lifts_of_training(learned_trend, earlier, times)
    for name in ("without", "with"):
        if name == "with" and lifts is not None:
            index.lift(np.arange(len(lifts)), lifts)
        lists = Lists.of(model, earlier.by_user, known, middle, 20, backend, index)
        for measure, k in (("ndcg", 10), ("recall", 20)):
            found[f"{measure}_{k}_{name}"] = float(lists.of_users(measure, k).mean())
    popular = gpu.evaluate.baseline(earlier, is_implicit=True)
    if lifts is not None:
        popular.item_bias[:] = lifts
    strangers = Lists.of(popular, earlier.by_user, unknown, middle, 10).of_users("hit_rate", 10)
    found["hit_rate_10"] = float(strangers.mean()) if len(strangers) else math.nan
    return found | {"n_lifted": float(lifts is not None), "seconds": seconds}


def repeat(
    algorithms: Names = "als-implicit,ease",
    returns: Annotated[str, typer.Option(help="Comma-separated shares of purchases that come back.")] = "0.65,0.2",
    seed: Seed = 0,
) -> Iterator[Row]:
    """NDCG@10 and Recall@10 of the newest tenth of drawn baskets: by own counts, by a model, and with what comes back.

    A share of the purchases is of what the user bought before, by how often. What a user bought competes in all lists
    but those of `new_only`.
    """
    for share in options.numbers(returns):
        whole = _baskets(share, seed)
        is_older = whole.seconds < np.quantile(whole.seconds, 1 - NEWEST)
        older, newer = whole.at(is_older), whole.at(~is_older)
        (ratings, times), (test, _) = pairs_of(older, BASKETS), pairs_of(newer, BASKETS)
        users, every = np.arange(BASKETS[0]), np.tile(np.arange(BASKETS[1]), (BASKETS[0], 1))
        of_users, items, values = ratings.coo()
        counts = np.zeros(BASKETS)
        counts[of_users, items] = values
        for algorithm in options.algorithms(algorithms):
            say(f"{algorithm}, {share:g} of the purchases come back")
            params = params_for(algorithm, {})
            model, learned_repeat = gpu.fit(ratings, params), how_items_repeat(older, BASKETS, params)
            scores = topn.scores(model, topn.users_of(model, users), ratings.by_user, every)
            lists = {"own_counts": counts, "model": scores, "new_only": scores.copy(), "with_repeat": scores.copy()}
            lists["new_only"][of_users, items] = -np.inf
            assert learned_repeat is not None  # noqa: S101 - of implicit models; this narrows the type
            for user in users.tolist():
                own = slice(ratings.by_user.starts[user], ratings.by_user.starts[user] + ratings.by_user.lengths[user])
                parts = own_parts(learned_repeat, values[own], times.seconds[own])
                lists["with_repeat"][user, items[own]] += parts if learned_repeat.weight else -np.inf
            row: Row = {"algorithm": algorithm, "returns": share}
            for name, one in lists.items():
                row[f"ndcg_10_{name}"], row[f"recall_10_{name}"] = _values_of(one, test)
            yield row


def _baskets(returns: float, seed: int) -> Occasions:
    """A year of purchases of users of five kinds, who mostly buy for their kind."""
    rng, columns = np.random.default_rng(seed), list[tuple[int, int, float]]()
    popularity = rng.zipf(1.3, BASKETS[1]).clip(max=200).astype(np.float64)
    for user in range(BASKETS[0]):
        chances = popularity * np.where(np.arange(BASKETS[1]) % 5 == user % 5, 6, 1)
        chances, had = chances / chances.sum(), dict[int, int]()
        for week in np.flatnonzero(rng.random(52) < 0.35).tolist():
            seconds = (week + rng.random()) * 7 * DAY_S
            for _ in range(rng.integers(2, 8)):
                item = int(rng.choice(BASKETS[1], p=chances))
                if had and rng.random() < returns:
                    own = np.array(list(had.values()), dtype=np.float64)
                    item = int(rng.choice(list(had), p=own / own.sum()))
                had[item] = had.get(item, 0) + 1
                columns.append((user, item, seconds))
    users, items, times = (np.array(column) for column in zip(*columns, strict=True))
    return Occasions(users.astype(np.int32), items.astype(np.int32), times, np.ones(len(users), dtype=np.float32))


def _values_of(scores: NDArray[np.float64], test: gpu.Ratings) -> tuple[float, float]:
    """NDCG@10 and Recall@10 of lists in the order of `scores` (U, I), for users in `test`."""
    discounts, found = 1 / np.log2(np.arange(2, 12)), list[tuple[float, float]]()
    for user in np.flatnonzero(test.by_user.lengths).tolist():
        start = test.by_user.starts[user]
        relevant = test.by_user.items[start : start + test.by_user.lengths[user]]
        best = np.argsort(-scores[user], kind="stable")[:10]
        hits = np.isin(best, relevant) & (scores[user, best] > -np.inf)
        found.append((float(hits @ discounts / discounts[: len(relevant)].sum()), float(hits.sum() / len(relevant))))
    ndcg, recall = np.mean(found, axis=0)
    return float(ndcg), float(recall)


def ab(
    ratings: File,
    models: Annotated[str, typer.Option(help="Comma-separated algorithms, the arms.")] = "als-implicit,culsh-implicit",
    like: Annotated[float, typer.Option(help="Lowest rating that is a like.")] = 4.0,
    trained: Annotated[float, typer.Option(help="Share of the ratings, the oldest, that are learned first.")] = 0.5,
) -> Iterator[Row]:
    """Shares of users with hits in the lists of two models, in the order of time, by the service's own figures.

    The service imports the oldest ratings and trains both arms on them. The newest ones are played in batches: for each
    rating its user asks for a list of the experiment, an event `impression` brings the id of the list back, an event
    `hit` too if the list has the rated item and the rating is a like, and then the rating is posted. Beside the shares
    are the tests of both models before they learned the same ratings.
    """
    timeline, names = Timeline.of(ratings), models.split(",")
    users, items, values, n = timeline.user_ids, timeline.item_ids, timeline.values, int(trained * len(timeline.values))
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data", env=SETTINGS) as (client, _):
        post(client, users[:n], items[:n], values[:n])
        for model in names:
            retrain(client, model)
        arms = [{"model": model, "share": 100 / len(names)} for model in names]
        answer = client.http.put(f"/admin/experiments/{EXPERIMENT}", json={"arms": arms})
        client.wait_for(answer.raise_for_status().json()["stream_id"])
        for first in range(n, len(users), BATCH):
            part = slice(first, first + BATCH)
            _play(client, users[part], items[part], values[part].tolist(), like)
        report = client.get(f"/admin/experiments/{EXPERIMENT}")
        tests = {model: client.get(f"/admin/models/{model}/quality")["all"] for model in names}
    compared = {one["model"]: one for one in report["differences"] if one["type"] == "hit"}
    for arm in report["arms"]:
        yield _arm(arm, compared.get(arm["model"]), tests[arm["model"]])


def _play(client: Client, users: Sequence[str], items: Sequence[str], values: Sequence[float], like: float) -> None:
    """Ask for lists, tell what they led to, and rate."""
    answer = client.http.post("/recommend", json={"users": list(users), "n": 10, "experiment": EXPERIMENT})
    events = []
    for shown, item, value in zip(answer.raise_for_status().json(), items, values, strict=True):
        event = {"user": shown["user"], "item": item, "recommendation_id": shown["recommendation_id"]}
        events.append({**event, "type": "impression"})
        if value >= like and item in {one["item"] for one in shown["items"]}:
            events.append({**event, "type": "hit"})
    client.send_events(events)
    triples = zip(users, items, values, strict=True)
    sent = client.rate([{"user": user, "item": item, "rating": value} for user, item, value in triples])
    client.wait_for(sent["stream_id"])


def _arm(arm: dict[str, Any], compared: dict[str, Any] | None, tests: dict[str, Any]) -> Row:
    hit = arm["types"].get("hit", {"users": 0, "rate": 0.0, "low": 0.0, "high": 1.0})
    difference = "-"
    if compared is not None:
        difference = f"{compared['difference']:+.3f} ({compared['low']:+.3f} to {compared['high']:+.3f})"
    row = {"model": arm["model"], "users": arm["users"], "hits": hit["users"], "hit_share": hit["rate"]}
    row |= {"interval": f"{hit['low']:.3f}-{hit['high']:.3f}", "difference": difference}
    figures = {"tests": tests["n"], "hit_rate": tests["value"], "popularity_hit_rate": tests["baseline"]}
    return row | figures
