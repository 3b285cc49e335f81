"""What the engine's thread does, without a service: `python -m benchmarks growth`, `catalog`, `rules`, `audience`."""

from __future__ import annotations

import dataclasses
import functools
import random
import statistics
import time
from collections.abc import Generator, Iterator
from typing import Annotated, Any

import numpy as np
import typer

import gpu
from benchmarks import options
from benchmarks.options import Algorithm, Where
from benchmarks.results import Row, say
from benchmarks.timing import median_ms, ms_of, timed
from gpu.algorithms import params_for
from gpu.base.errors import InvalidInput
from gpu.online import prepare_online
from gpu.online.model import HostModel
from service.base import tuning
from service.engine.compilation import compile_reading
from service.engine.lists.common_lists import Popularity
from service.engine.lists.filters import ItemFilters
from service.engine.lists.ranking import Ranking
from service.engine.models.live_model import LiveModel
from service.engine.models.shelf import Shelf
from service.engine.queries import ItemUsers, Neighbors, Query, Recommend
from service.engine.queries.filter_tree import AllOf, HasTag, InRange, Node, Not, text_of
from service.engine.state.history import History
from service.storage import events as entries_
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.item_changes import ItemChange
from service.storage.snapshots.manifest import Manifest
from service.storage.user_changes import UserChange

Factors_ = Annotated[int, typer.Option("--n-factors", help="Number of factors F.")]
N_ROWS, N_WARM = 5, 5  # of `growth`: rows, and batches of events before the measured ones
# Of `catalog`: values of a common tag, items that share a value of a rare one, and uses of a filter.
N_GENRES, N_SERIES, N_USES = 20, 100, 20
FILTERS: dict[str, Node] = {
    "one genre": HasTag("genre", ("0",)),
    "a range": InRange("price", 1.0, 20.0),
    "a rare value": HasTag("series", ("1",)),
    "two genres and not a range": AllOf((HasTag("genre", ("0", "1")), Not(InRange("price", 1.0, 20.0)))),
}
# Of `rules`:
N_USERS, N_RATED, N_LISTED, N_LISTS, N_WARM_LISTS = 300, 100, 10, 50, 10
N_TAGS = 5  # of which each item has each second one
GENRE_CHANCE = 0.15  # of the geometric distribution of genres: the share of items that have the most frequent one
BOOSTS = [(text_of(HasTag("half", (str(tag),))), 0.1 * (tag + 1)) for tag in range(N_TAGS)]
OTHERS: dict[str, Any] = {"pins": [("item-5", 1)], "max_per": ("genre", 3), "diversity": 0.3}
RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "filter": {"filter": BOOSTS[0][0]},
    "1 boost": {"boosts": BOOSTS[:1]},
    "2 boosts": {"boosts": BOOSTS[:2]},
    "5 boosts": {"boosts": BOOSTS},
    "a pin": {"pins": OTHERS["pins"]},
    "max_per": {"max_per": OTHERS["max_per"]},
    "diversity": {"diversity": OTHERS["diversity"]},
    "2 boosts and all others": {"boosts": BOOSTS[:2], **OTHERS},
    "explore": {"explore": 0.1},
    "explore and 1 boost": {"explore": 0.1, "boosts": BOOSTS[:1]},
}


def live(history: History, model: gpu.Model, backend: gpu.Backend = gpu.HOST) -> LiveModel:
    """`model`, whose rows are those of the history, as the engine has it."""
    sizes, fields = (model.n_users, model.n_items), dataclasses.asdict(model.params)
    position = str(history.position)
    manifest = Manifest("", model.params.algorithm, fields, model.mean, model.scale, {}, position, *sizes, {})
    keys = history.users.keys, history.items.keys
    return LiveModel(manifest, prepare_online(model, history.table, *keys, backend), history)


def rated(rng: np.random.Generator, n_users: int, n_items: int, n: int, first: int) -> Entry:
    """An entry with `n` random ratings, at the position after `first`."""
    pairs = zip(rng.integers(0, n_users, n).tolist(), rng.integers(0, n_items, n).tolist(), strict=True)
    return Entry(StreamId(first + 1, 0), "rating", [RatingEvent(f"u{u}", f"i{i}", 4.0, 1e9) for u, i in pairs])


def growth(
    algorithm: Algorithm = "als-implicit",
    n_factors: Factors_ = 64,
    n_users: Annotated[int, typer.Option(help="Users at the end.", min=1)] = 1_000_000,
    n_items: Annotated[int, typer.Option(help="Items at the end.", min=1)] = 100_000,
    n_ratings: Annotated[int, typer.Option(help="Ratings at the end.", min=1)] = 10_000_000,
) -> Iterator[Row]:
    """Milliseconds that the engine is blocked by each batch while users, items and ratings are added.

    History and model start almost empty. A step is the work that the engine does for one batch of events before it can
    answer again: it updates the history, the popular items, the model's arrays and its index. Refits are left out,
    since the engine runs them in separate slices.
    """
    n_batches = -(-n_ratings // entries_.BATCH_RATINGS) - 1
    if n_batches // N_ROWS <= N_WARM:
        least = (N_WARM + 1) * N_ROWS * entries_.BATCH_RATINGS + 1
        raise InvalidInput(f"Invalid n_ratings: expected {least:,} or more, got {n_ratings:,}")
    history, popularity, rng = History(), Popularity(), np.random.default_rng(0)
    compile_reading()

    def batch(number: int) -> list[Entry]:
        """Ratings drawn from a share of the users and items that grows to all of them."""
        share = (number + 1) * entries_.BATCH_RATINGS / n_ratings
        sizes = max(int(n_users * share), 1), max(int(n_items * share), 1)
        return [rated(rng, *sizes, entries_.BATCH_RATINGS, number * entries_.BATCH_RATINGS)]

    def step(entries: list[Entry], live_model: LiveModel | None) -> None:
        applied = history.apply(entries)
        changes = applied.changes
        popularity.note(changes.items, changes.old, changes.new, history.table.n_items)
        if live_model is not None:
            live_model.learn(applied)

    step(batch(0), None)
    live_model, steps = live(history, _trained(history, algorithm, n_factors)), list[float]()
    tuning.settle()
    for number in range(1, n_batches + 1):
        entries = batch(number)
        took_ms = ms_of(lambda entries=entries: step(entries, live_model))  # type: ignore[misc]
        steps += [took_ms] if number > N_WARM else []
        online_model = live_model.online
        assert isinstance(online_model, HostModel)  # noqa: S101 - on the host; this narrows the type
        online_model._users.clear()  # refits that wait; the engine would finish them before it takes the next batch
        online_model._items.clear()
        if number * N_ROWS % n_batches < N_ROWS:
            longest, median, table = max(steps), statistics.median(steps), history.table
            say(f"{table.n_users:,} users, {table.n_items:,} items, {table.n_ratings:,} ratings: {longest:.1f} ms")
            sizes = {"users": table.n_users, "items": table.n_items, "ratings": table.n_ratings}
            yield {**sizes, "longest_ms": longest, "median_ms": median}
            steps.clear()


def _trained(history: History, algorithm: str, n_factors: int) -> gpu.Model:
    """A model of all users and items of the history."""
    params, sizes = params_for(algorithm, {"n_factors": n_factors}), (len(history.users), len(history.items))
    model = gpu.Model.zeros(params, 1.0, (0.0, 5.0), *sizes, n_bits=params.n_bits)
    model.user_trained[:], model.item_trained[:] = True, True
    return model.mapped(np.arange(sizes[0]), np.arange(sizes[1]), *sizes)


def catalog(items: Annotated[int, typer.Option(help="Items with attributes.", min=1)] = 1_000_000) -> Iterator[Row]:
    """Milliseconds of the engine for changes of items, and to compile and use filters, without ranking.

    Items are synthetic, with two genres, a rare tag and two numbers each.
    """
    history, chance = History(), random.Random(0)  # noqa: S311 (not for secrets)
    genres = [str(n) for n in range(N_GENRES)]
    changes = [
        ItemChange(
            f"item-{n}",
            tags={"genre": chance.sample(genres, 2), "series": [str(n // N_SERIES)]},
            numbers={"price": chance.random() * 100, "year": float(chance.randint(1950, 2024))},
        )
        for n in range(items)
    ]
    size = entries_.ITEMS_PER_ENTRY
    entries = [Entry(StreamId(n + 1, 0), "item", items=changes[n : n + size]) for n in range(0, items, size)]
    took = ms_of(lambda: [history.apply([entry]) for entry in entries], time.process_time)
    yield {"step": f"put {size} items", "ms": took / len(entries), "n_bytes": None}
    shelf = Shelf(history)
    filters = ItemFilters(history, shelf)
    history.catalog.index.pack()
    took = ms_of(shelf.look, time.process_time)
    n_bytes = history.catalog.index.n_bytes
    yield {"step": "take in the time, once a second at most", "ms": took, "n_bytes": n_bytes}
    for name, node in FILTERS.items():
        for use, work in (
            (f"compile {name}", functools.partial(filters.compiled, node)),
            (f"use {name} again", functools.partial(filters.eligible, text_of(node), True)),
        ):
            filters.eligible(text_of(node), True)
            took = ms_of(lambda work=work: [work() for _ in range(N_USES)], time.process_time)  # type: ignore[misc]
            yield {"step": use, "ms": took / N_USES, "n_bytes": None}


def rules(
    items: Annotated[int, typer.Option(help="Number of items.", min=10)] = 100_000,
    n_factors: Factors_ = 64,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Milliseconds of a list with boosts, pins, max_per, diversity or exploration, beside a plain one.

    Ratings, tags and factors of items are drawn. It is processor time, the median; a thread waits for a device busily.
    """
    ranking, plain = _ranking(items, n_factors, options.chosen(backend)), 0.0
    for name, given in RULES.items():
        numbers = iter(range(N_WARM_LISTS + N_LISTS))

        def answered(given: dict[str, Any] = given, numbers: Iterator[int] = numbers) -> None:
            query = Recommend(user=f"u{next(numbers) % N_USERS}", n=N_LISTED, **given)
            (answer,) = ranking.answer([query], StreamId(1, 0))
            if isinstance(answer, Exception):
                raise answer

        ms = median_ms(answered, N_LISTS, N_WARM_LISTS, time.process_time)
        plain = plain or ms  # the first row
        yield {"rules": name, "ms": ms, "times_plain": ms / plain}


def audience(
    n_users: Annotated[int, typer.Option(help="Number of users.", min=10)] = 100_000, n_factors: Factors_ = 64
) -> Iterator[Row]:
    """Microseconds of the users who would like an item most, of all users and of one in `N_GENRES` by a filter, and of
    the users most similar to one; and of the longest slice, after which others are answered.

    Users are synthetic, with a rating and a tag each, and their factors are drawn. It is processor time, the median.
    """
    history, rng, size = History(), np.random.default_rng(0), entries_.ITEMS_PER_ENTRY
    for n, first in enumerate(range(0, n_users, size)):
        users = range(first, min(first + size, n_users))
        ratings = [RatingEvent(f"u{user}", f"i{user % size}", 4.0, 1e9) for user in users]
        described = [UserChange(f"u{user}", tags={"segment": [str(user % N_GENRES)]}) for user in users]
        history.apply([Entry(StreamId(2 * n + 1, 0), "rating", ratings)])
        history.apply([Entry(StreamId(2 * n + 2, 0), "user", user_changes=described)])
    model = _trained(history, "als-implicit", n_factors)
    model.user_factors[:] = rng.normal(size=model.user_factors.shape)
    model.item_factors[:] = rng.normal(size=model.item_factors.shape)
    live_model, ranking = live(history, model), Ranking(history, [])
    ranking.install(live_model)
    queries: dict[str, Query] = {
        "all users": ItemUsers(item="i7"),
        "a segment": ItemUsers(item="i7", filter=text_of(HasTag("segment", ("1",)))),
        "neighbors": Neighbors(kind="user", id="u7"),
    }
    for name, query in queries.items():
        rounds = [_slices_s(ranking, query) for _ in range(N_LISTS)][1:]
        whole, longest = (1e6 * statistics.median(map(of, rounds)) for of in (sum, max))
        yield {"users": name, "us": whole, "us_of_slice": longest}


def _slices_s(ranking: Ranking, query: Query) -> list[float]:
    """Seconds of processor time of each slice of an answer."""
    (answer,), first_s = timed(lambda: ranking.answer([query], StreamId(1, 0)), time.process_time)
    slices_s = [first_s]
    while isinstance(answer, Generator):
        is_whole, s = timed(functools.partial(next, answer, True), time.process_time)
        slices_s.append(s)
        if is_whole:
            break
    return slices_s


def _ranking(n_items: int, n_factors: int, backend: gpu.Backend) -> Ranking:
    history, rng = History(), np.random.default_rng(0)
    for user in range(N_USERS):
        rated_items = np.unique(rng.integers(0, n_items, N_RATED)).tolist()
        ratings = [RatingEvent(f"u{user}", f"item-{item}", float(rng.integers(1, 6)), 0.0) for item in rated_items]
        history.apply([Entry(StreamId(user + 1, 0), "rating", ratings)])
    changes = []
    for item, genre in enumerate(rng.geometric(GENRE_CHANCE, n_items).tolist()):
        half = [str(tag) for tag in range(N_TAGS) if item >> tag & 1]
        changes.append(ItemChange(f"item-{item}", tags={"genre": [str(genre)], **({"half": half} if half else {})}))
    history.apply([Entry(StreamId(N_USERS + 1, 0), "item", items=changes)])
    params = params_for("als-implicit", {"n_factors": n_factors, "n_epochs": 1})
    model = gpu.fit(history.table.ratings(history.users.keys, history.items.keys), params)
    lengths = rng.gamma(2, 1, (model.n_items, 1)) / 8  # some items are better than others for everyone
    model.item_factors[:] = rng.normal(0, 1, (model.n_items, n_factors)) * lengths
    model.item_trained[:] = True
    live_model = live(history, model, backend)
    live_model.settle(None)
    ranking = Ranking(history, [])
    ranking.recount()
    ranking.install(live_model)
    return ranking
