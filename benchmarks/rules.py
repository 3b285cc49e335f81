"""`python -m benchmarks rules`: what rules and exploration cost the engine beside a plain list."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import gpu
from gpu.online import prepare_online
from service.engine.lists.ranking import Ranking
from service.engine.models.live_model import LiveModel
from service.engine.queries import Recommend
from service.engine.queries.filter_tree import HasTag, text_of
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.item_changes import ItemChange
from service.storage.snapshots.manifest import Manifest

N_USERS, N_RATED, N_ITEMS_LISTED = 300, 100, 10
N_TAGS = 5  # of which each item has each second one
N_TIMES, N_WARMING = 50, 10
GENRE_CHANCE = 0.15  # of the geometric distribution of genres: the most frequent one has so many of the items
BOOSTS = [(text_of(HasTag("half", (str(tag),))), 0.1 * (tag + 1)) for tag in range(N_TAGS)]
MAX_PER, PINS, DIVERSITY = ("genre", 3), [("item-5", 1)], 0.3
RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "filter": {"filter": BOOSTS[0][0]},
    "1 boost": {"boosts": BOOSTS[:1]},
    "2 boosts": {"boosts": BOOSTS[:2]},
    "5 boosts": {"boosts": BOOSTS},
    "a pin": {"pins": PINS},
    "max_per": {"max_per": MAX_PER},
    "diversity": {"diversity": DIVERSITY},
    "2 boosts and all others": {"boosts": BOOSTS[:2], "pins": PINS, "max_per": MAX_PER, "diversity": DIVERSITY},
    "explore": {"explore": 0.1},
    "explore and 1 boost": {"explore": 0.1, "boosts": BOOSTS[:1]},
}


@dataclasses.dataclass(frozen=True)
class Row:
    """The median processor time of a list in milliseconds, and the same divided by that of a plain list.

    A thread that waits for a device does so busily, so that the time of the device counts too.
    """

    rules: str
    ms: float
    times_plain: float


def run(n_items: int, n_factors: int, backend: gpu.Backend) -> Iterator[Row]:
    """A row for each of `RULES`, on drawn ratings, tags and factors of items."""
    ranking = _ranking(n_items, n_factors, backend)
    plain = None
    for name, rules in RULES.items():
        ms = _ms(ranking, rules)
        plain = plain or ms  # the first row
        yield Row(name, ms, ms / plain)


def _ms(ranking: Ranking, rules: dict[str, Any]) -> float:
    seconds = []
    for n in range(N_WARMING + N_TIMES):
        query = Recommend(user=f"user-{n % N_USERS}", n=N_ITEMS_LISTED, **rules)
        began = time.process_time()
        (answer,) = ranking.answer([query], StreamId(1, 0))
        seconds.append(time.process_time() - began)
        if isinstance(answer, Exception):
            raise answer
    return statistics.median(seconds[N_WARMING:]) * 1000


def _ranking(n_items: int, n_factors: int, backend: gpu.Backend) -> Ranking:
    history, rng = History(), np.random.default_rng(0)
    for user in range(N_USERS):
        rated = np.unique(rng.integers(0, n_items, N_RATED)).tolist()
        ratings = [RatingEvent(f"user-{user}", f"item-{item}", float(rng.integers(1, 6)), 0.0) for item in rated]
        history.apply([Entry(StreamId(user + 1, 0), "rating", ratings)])
    history.apply([Entry(StreamId(N_USERS + 1, 0), "item", items=_items(n_items, rng))])
    params = gpu.params_for("als-implicit", {"n_factors": n_factors, "n_epochs": 1})
    keys = history.users.keys, history.items.keys
    model = gpu.fit(history.table.ratings(*keys), params)
    lengths = rng.gamma(2, 1, (model.n_items, 1)) / 8  # some items are better than others for everyone
    model.item_factors[:] = rng.normal(0, 1, (model.n_items, n_factors)) * lengths
    model.item_trained[:] = True
    sizes, watermark = (model.n_users, model.n_items), f"{N_USERS + 2}-0"
    fields = dataclasses.asdict(params)
    manifest = Manifest("", "als-implicit", fields, model.mean, model.scale, {}, watermark, *sizes, {})
    live_model = LiveModel(manifest, prepare_online(model, history.table, *keys, backend), history)
    live_model.settle(None)
    ranking = Ranking(history, [])
    ranking.recount()
    ranking.install(live_model)
    return ranking


def _items(n_items: int, rng: np.random.Generator) -> list[ItemChange]:
    genres = rng.geometric(GENRE_CHANCE, n_items).tolist()
    halves = [[str(tag) for tag in range(N_TAGS) if item >> tag & 1] for item in range(n_items)]
    return [
        ItemChange(f"item-{item}", tags={"genre": [str(genre)], "half": half} if half else {"genre": [str(genre)]})
        for item, (genre, half) in enumerate(zip(genres, halves, strict=True))
    ]
