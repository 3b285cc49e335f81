"""`python -m benchmarks factors`: lists of `als-implicit` by the number of factors, and the number that it chooses.

A tenth of the ratings of at most `USERS` users is held out. Without a file it draws check-ins: places lie in cities of
unequal size, a user lives at a point of one city, and visits popular places nearby that suit the user's taste, and a
tenth of the time places of another city. So tastes are many and local, as in real check-ins. A model of few factors
mixes neighborhoods.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import gpu
from benchmarks import datasets, options
from benchmarks.options import Factors, Parameters, Where
from benchmarks.results import Row, say
from gpu.algorithms import params_for
from gpu.base.errors import InvalidParams
from gpu.training.list_quality import Lists

USERS = 5000  # whose lists are measured
N_TASTES, TASTE = 8, 0.25  # of users and places, beside where they are; variance of each
ROAMING = 0.1  # share of a user's places that lie in another city
NEAR, DECAY = 0.15, 1.2  # squared distance within which all places are equally near, and how popularity falls beyond


def factors(
    ratings: Annotated[Path | None, typer.Option(help="File of ratings. Default: drawn.", exists=True)] = None,
    drawn: Annotated[str, typer.Option(help="Users, places and check-ins to draw.")] = "30000,41000,1000000",
    cities: Annotated[int, typer.Option(help="Cities to draw.", min=2)] = 150,
    factors: Factors = "128,256,512,1024",
    set_: Parameters = None,
    backend: Where = "auto",
) -> Iterator[Row]:
    """NDCG@10, NDCG@20, Recall@20, coverage@10 and popularity@10 by factors, with seconds; then what is chosen."""
    where, given = options.chosen(backend), options.parameters(set_)
    whole = datasets.ratings_of(ratings) if ratings else check_ins(*options.whole(drawn), n_cities=cities)
    train, held_out = datasets.random_split(whole)
    test = datasets.of_some_users(held_out, USERS)
    say(f"{len(train):,} ratings of {train.n_users:,} users and {train.n_items:,} items, {len(test):,} held out")
    for n_factors in (*options.whole(factors), None):
        seconds = [0.0]

        def on_epoch(report: gpu.EpochReport, seconds: list[float] = seconds) -> None:
            seconds[0] = report.seconds

        params = params_for("als-implicit", {**given, "n_factors": n_factors})
        model = gpu.fit(train, params, backend=where, on_epoch=on_epoch)
        lists, counts = Lists.of(model, train.by_user, test, None, 20, where), train.by_item.lengths
        yield {
            "n_factors": model.params.width,
            "ndcg@10": float(lists.of_users("ndcg", 10).mean()),
            "ndcg@20": float(lists.of_users("ndcg", 20).mean()),
            "recall@20": float(lists.of_users("recall", 20).mean()),
            "coverage@10": lists.coverage(10, counts),
            "popularity@10": lists.popularity(10, counts),
            "seconds": seconds[0],
            "chosen": "; ".join(model.calibration.chosen),
        }


def check_ins(n_users: int, n_places: int, n_ratings: int, *, n_cities: int, seed: int = 0) -> gpu.Ratings:
    """About `n_ratings` ones, at least eight of each user.

    Raises:
        InvalidParams: there are fewer than ten places a city.
    """
    if n_places < 10 * n_cities:
        raise InvalidParams(f"Invalid drawn: expected {10 * n_cities:,} places or more, got {n_places:,}")
    rng = np.random.default_rng(seed)
    sizes = 1 / (np.arange(n_cities) + 3.0)
    sizes /= sizes.sum()
    city_of = np.append(np.arange(10 * n_cities) % n_cities, rng.choice(n_cities, n_places - 10 * n_cities, p=sizes))
    popularity, points = rng.pareto(1.2, n_places) + 0.3, rng.normal(size=(n_places, 2))
    tastes = rng.normal(0, TASTE**0.5, (n_places, N_TASTES))
    places_of = [np.flatnonzero(city_of == city) for city in range(n_cities)]
    activity = np.exp(rng.normal(0, 0.9, n_users))
    n_of = np.maximum(8, activity / activity.mean() * n_ratings / n_users).astype(int)
    homes, visits = rng.choice(n_cities, (2, n_users), p=sizes), []
    for user in range(n_users):
        near, far = places_of[homes[0, user]], places_of[homes[1, user]]
        distances = ((points[near] - rng.normal(0, 0.8, 2)) ** 2).sum(axis=1)
        taste = tastes[near] @ rng.normal(0, TASTE**0.5, N_TASTES)
        weights = np.log(popularity[near]) - DECAY * np.log(NEAR + distances) + taste
        n_far = min(int(ROAMING * n_of[user]), len(far) // 3)
        n_near = min(n_of[user] - n_far, len(near) // 2)
        # the largest of scores with Gumbel noise are a draw in proportion to exp(weights), without replacement
        own = near[np.argpartition(-weights - rng.gumbel(size=len(near)), n_near - 1)[:n_near]]
        away = rng.choice(far, n_far, replace=False, p=popularity[far] / popularity[far].sum())
        visits.append(np.union1d(own, away))
    users = np.repeat(np.arange(n_users), [len(places) for places in visits])
    return gpu.Ratings.from_coo(users, np.concatenate(visits), np.ones(len(users)), (n_users, n_places))
