"""`nearfield evaluate`: how good a saved model is on held-out ratings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from gpu.base.errors import InvalidInput
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.weighted import rows_in_time
from gpu.training.list_quality import MEASURES, Lists, interval
from gpu.trend.host_counts import lifts_of_training
from service.cli import pair_counts
from service.cli.coming_back import ComingBack
from service.cli.files import ratings_file
from service.cli.files.ratings_file import RatingsFile
from service.cli.offline import HELD_OUT, TRAINED_ON, Data, numbered, saved_model
from service.engine.state.id_table import IdTable
from service.storage.snapshots import snapshot

CUTS = 10, 20  # lengths of lists
ASIDE = "coverage", "popularity"  # measures of all lists together, without an interval


def evaluate(
    folder: Path,
    test: RatingsFile | None,
    negatives: dict[str, list[str]] | None,
    relevant_from: float | None,
    backend: gpu.Backend,
    cuts: Sequence[int] = CUTS,
    *,
    shuffles: bool = False,
) -> dict[str, Any]:
    """Measure the snapshot in `folder` on `test`: RMSE and MAE (not for implicit models), then its lists.

    For each cut k the result has the `MEASURES` of lists (`ndcg@k` and so on, each the mean over users), their
    `interval_…`, `coverage@k` and `popularity@k`; all of them again as `popular_…`, of the list of the most popular
    items, which a model has to beat; and `n_users`, who have a relevant item. It also has `pair_counts.counts_of`, and
    `reason` if a figure is NaN. If what users had comes back, it competes and counts. `new_ndcg@k` is then that of
    lists without it, and `counts_ndcg@k` that of what each user had most often. Lists have the trend of the model,
    unless most of the test ratings are older than the newest training rating.

    Args:
        folder: the folder of a version, or a folder of several versions; then the newest is used.
        test: held-out ratings. None: those that `train` has written beside the snapshot.
        negatives: user id → items to rank together with each test item of the user. None ranks against all items that
            the user had not rated.
        relevant_from: lowest rating of a relevant test item. None: every rating that the model does not count as a
            dislike.
        backend: the backend that scores.
        cuts: lengths of lists, for all but `negatives`.
        shuffles: measure also with the times of each user's training ratings shuffled: `shuffled_ndcg@k` and so on,
            and `order_ndcg@k`, the mean over users of what the right order gains, with its interval.

    Raises:
        InvalidInput: there is no model, nothing to test on, or nothing to shuffle.
    """
    trained = saved_model(folder)
    model, version = trained.model, trained.manifest.version
    beside = folder if folder.name != version else folder.parent
    if test is None:
        if not (beside / f"{version}{HELD_OUT}").exists():
            raise InvalidInput(f"Invalid test: expected a file, because {version} was trained without a held-out part")
        test = ratings_file.read(beside / f"{version}{HELD_OUT}")
    user_table, item_table = IdTable(), IdTable()
    user_table.rows_or_new(trained.user_ids)
    item_table.rows_or_new(trained.item_ids)
    _, _, train_rows = numbered(ratings_file.read(beside / f"{version}{TRAINED_ON}"), user_table, item_table)
    _, _, test_rows = numbered(test, user_table, item_table)
    train, test_ratings = (rows.matrix(user_table, item_table) for rows in (train_rows, test_rows))
    n_users, n_items = model.n_users, model.n_items
    model.grow(len(user_table), len(item_table))
    users, items, values = test_ratings.coo()
    rows, times = train.by_user, train_rows.times()
    result: dict[str, Any] = {"version": version, "algorithm": model.params.algorithm, "n_test": len(values)}
    result |= pair_counts.counts_of(train, test_ratings, n_users, n_items)
    if not model.is_implicit:
        result["rmse"] = gpu.evaluate.rmse(model, rows, users, items, values)
        result["mae"] = gpu.evaluate.mae(model, rows, users, items, values)
    threshold = model.middle if relevant_from is None else relevant_from
    times, seconds = train_rows.times(), test_rows.seconds
    # A trend is that of the newest training ratings. It says nothing of a part that was drawn from all times.
    is_newer = times is None or seconds is None or float(np.median(seconds)) >= times.as_of_s
    lifts = lifts_of_training(model.calibration.trend, train, times) if is_newer else None
    if negatives is None:
        popular, index = gpu.evaluate.baseline(train, is_implicit=True), ItemIndex(model, backend)
        if lifts is not None:
            index.lift(np.arange(len(lifts)), lifts)
        back, heard = ComingBack.of(model, train, times, lifts), rows_in_time(model, rows, times)
        measured = {"": (model, heard, index), "popular_": (popular, rows, ItemIndex(popular, backend))}
        if shuffles:
            measured["shuffled_"] = model, rows_in_time(model, rows, shuffled(train, times)), index
        of_users: dict[str, Lists] = {}
        for prefix, (one, read, of_one) in measured.items():
            listing = None if back is None else back.listing(of_one, read, has_past=one is model)
            lists = Lists.of(one, read, test_ratings, threshold, max(cuts), backend, of_one, listing)
            of_users[prefix] = lists
            result |= {"n_users": len(lists.n_relevant)}
            result |= {f"{prefix}{name}": value for name, value in list_measures(lists, train, cuts).items()}
        for prefix, listing in {} if back is None else back.baselines(index, heard).items():
            lists = Lists.of(model, heard, test_ratings, threshold, max(cuts), backend, index, listing)
            of_ndcg = {name: value for name, value in list_measures(lists, train, cuts).items() if name[:5] == "ndcg@"}
            result |= {f"{prefix}{name}": value for name, value in of_ndcg.items()}
        for k in cuts if shuffles and result["n_users"] else ():
            gains = of_users[""].of_users("ndcg", k) - of_users["shuffled_"].of_users("ndcg", k)
            result |= {f"order_ndcg@{k}": float(gains.mean()), f"interval_order_ndcg@{k}": interval(gains)}
    else:
        data = Data(user_table, item_table, train, test_ratings, times)
        result |= ranks_among(model, data, test_ratings.where(values >= threshold), negatives, lifts)
    reason = pair_counts.reason_of_nulls(result)
    return result if reason is None else result | {"reason": reason}


def evaluate_folds(
    folder: Path,
    n_folds: int,
    relevant_from: float | None,
    backend: gpu.Backend,
    cuts: Sequence[int],
    *,
    shuffles: bool,
) -> dict[str, Any]:
    """`evaluate` the newest `n_folds` versions in `folder`, each on what it held out: means of figures, sums of counts.

    Raises:
        InvalidInput: there are fewer versions, or none can be measured.
    """
    versions = snapshot.versions(folder)[:n_folds]
    if len(versions) < n_folds:
        raise InvalidInput(f"Invalid folds: expected at most {len(versions)}, the versions in {folder}, got {n_folds}")
    results = [
        evaluate(folder / version, None, None, relevant_from, backend, cuts, shuffles=shuffles) for version in versions
    ]
    whole: dict[str, Any] = {"folds": n_folds, "algorithm": results[0]["algorithm"]}
    for name, first in results[0].items():
        values = [result[name] for result in results if isinstance(result.get(name), int | float)]
        if len(values) == n_folds and name not in whole:
            whole[name] = sum(values) if isinstance(first, int) else sum(values) / n_folds
    return whole


def shuffled(train: gpu.Ratings, times: gpu.Times | None, seed: int = 0) -> gpu.Times:
    """`times` of `train`, each user's in random order.

    Raises:
        InvalidInput: there are no times.
    """
    if times is None:
        raise InvalidInput("Invalid shuffle: expected a model trained on ratings with times, got one without")
    users, _, _ = train.coo()
    at = np.lexsort((np.random.default_rng(seed).random(len(users)), users))
    return gpu.Times(times.seconds[at], times.as_of_s, times.stream[at])


def list_measures(lists: Lists, train: gpu.Ratings, cuts: Sequence[int]) -> dict[str, Any]:
    """The measures of `lists` at each of `cuts`, see `evaluate`."""
    measures: dict[str, Any] = {}
    for k in cuts:
        for name in MEASURES:
            of_users = lists.of_users(name, k)
            measures[f"{name}@{k}"] = float(of_users.mean()) if len(of_users) else float("nan")
            measures[f"interval_{name}@{k}"] = interval(of_users) if len(of_users) else None
        measures[f"coverage@{k}"] = lists.coverage(k, train.by_item.lengths)
        measures[f"popularity@{k}"] = lists.popularity(k, train.by_item.lengths)
    return measures


def table(result: dict[str, Any], cuts: Sequence[int]) -> str:
    """The figures of `evaluate` in lines, with a row for each measure of lists."""
    of_lists = [f"{name}@{k}" for k in cuts for name in (*MEASURES, *ASIDE) if f"popular_{name}@{k}" in result]
    kinds = "", "popular_", "shuffled_"
    beside = {f"{kind}{interval}{name}" for name in of_lists for kind in kinds for interval in ("", "interval_")}
    beside |= {f"{interval}order_ndcg@{k}" for k in cuts for interval in ("", "interval_")}
    cells = [
        f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in result.items()
        if name not in beside
    ]
    lines = ["  ".join(cells)]
    if of_lists:
        lines.append(f"{'':14}{'model':>8}   {'95 % of users':17}{'most popular':>12}")
    for name in of_lists:
        bounds = result.get(f"interval_{name}")
        middle = "" if bounds is None else f"{bounds[0]:.4f} to {bounds[1]:.4f}"
        lines.append(f"{name:14}{result[name]:8.4f}   {middle:17}{result[f'popular_{name}']:12.4f}")
    for k in cuts if any(name.startswith("order_") for name in result) else ():
        gain, bounds = result[f"order_ndcg@{k}"], result.get(f"interval_order_ndcg@{k}")
        if bounds is None:  # a mean over folds
            lines.append(f"ndcg@{k} {gain:+.4f} by the order of each user's ratings")
            continue
        low, high = bounds
        says = "order matters" if low > 0 else "order hurts" if high < 0 else "no difference"
        within = f"{gain:+.4f} ({low:+.4f} to {high:+.4f}) by the order of each user's ratings: {says}"
        lines.append(f"ndcg@{k} {within}; shuffled {result[f'shuffled_ndcg@{k}']:.4f}")
    return "\n".join(lines)


def read_negatives(path: Path) -> dict[str, list[str]]:
    """Read `user,item,item,…` lines (comma or tab).

    Raises:
        InvalidInput: the file is not UTF-8, or a line has no item or another number of items than the first.
        InvalidRatingsFile: not a regular file.
    """
    ratings_file.check_regular(path)
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"Invalid {path}: expected text in UTF-8, got other bytes ({error})") from None
    negatives: dict[str, list[str]] = {}
    n_items = None
    for number, line in enumerate(text.splitlines(), start=1):
        user, *items = line.replace("\t", ",").split(",")
        n_items = n_items or len(items)
        if not items or len(items) != n_items:
            wanted = f"a user and {n_items or 1} items"
            raise InvalidInput(f"Invalid line {number} of {path}: expected {wanted}, got {line[:80]!r}")
        negatives[user] = items
    return negatives


def ranks_among(
    model: gpu.Model,
    data: Data,
    relevant: gpu.Ratings,
    negatives: dict[str, list[str]],
    lifts: NDArray[np.float32] | None = None,
) -> dict[str, Any]:
    """Leave-one-out ranks: each relevant test item of a user among the negatives of the user.

    `lifts`: what is added to the scores of items, (I,); those that only the negatives name get nothing.
    """
    users, positives, _ = relevant.coo()
    negatives_of = {data.users.row(user): items for user, items in negatives.items()}
    kept = [n for n, user in enumerate(users) if int(user) in negatives_of]
    if not kept:
        raise InvalidInput("Invalid negatives: expected a line for at least one user of the test file, got none")
    lists = np.array([data.items.rows_or_new(negatives_of[int(users[n])]) for n in kept])
    model.grow(len(data.users), len(data.items))
    users, rows = users[kept], rows_in_time(model, data.train.by_user, data.times)
    cases = topn.rows_of(rows, users)
    # The model gets one row for each case, so a user may have several.
    arrays = {
        name: array[users] if gpu.data.model.ARRAYS[name][0][0] == "U" else array
        for name, array in model.arrays.items()
    }
    model = gpu.Model(model.params, model.mean, model.scale, arrays, model.calibration)
    result = gpu.evaluate.sampled_ranking(model, cases, positives[kept], lists, lifts=lifts)
    return {**result, "n_ranked": len(kept)}
