"""`python -m benchmarks catalog`: what attributes and filters of items cost the engine's thread, without ranking."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from service.engine.lists.filters import Filters
from service.engine.models.shelf import Shelf
from service.engine.queries.filter_tree import AllOf, HasTag, InRange, Node, Not, text_of
from service.engine.state.history import History
from service.storage.events import ITEMS_PER_ENTRY, Entry, StreamId
from service.storage.item_changes import ItemChange

N_GENRES, N_SERIES = 20, 100  # values of a common tag, and items that share a value of a rare one
FILTERS: dict[str, Node] = {
    "one genre": HasTag("genre", ("0",)),
    "a range": InRange("price", 1.0, 20.0),
    "a rare value": HasTag("series", ("1",)),
    "two genres and not a range": AllOf((HasTag("genre", ("0", "1")), Not(InRange("price", 1.0, 20.0)))),
}
N_TIMES = 20


@dataclass(frozen=True)
class Row:
    """One step: processor time in milliseconds, and bytes where it keeps something."""

    step: str
    ms: float
    n_bytes: int | None = None


def run(n_items: int) -> Iterator[Row]:
    """Put synthetic items with two genres, a rare tag and two numbers each; then use filters of them."""
    history = History()
    changes = _items(n_items)
    entries = [
        Entry(StreamId(first + 1, 0), "item", items=changes[first : first + ITEMS_PER_ENTRY])
        for first in range(0, n_items, ITEMS_PER_ENTRY)
    ]
    took = _ms(lambda: [history.apply([entry]) for entry in entries])
    yield Row(f"put {ITEMS_PER_ENTRY} items", took / len(entries))
    shelf = Shelf(history)
    filters = Filters(history, shelf)
    history.catalog.index.pack()
    yield Row("take in the time, once a second at most", _ms(shelf.look), history.catalog.index.n_bytes)
    for name, node in FILTERS.items():
        text = text_of(node)
        yield Row(f"compile {name}", _ms(lambda node=node: filters.compiled(node), N_TIMES))  # type: ignore[misc]
        filters.eligible(text, True)
        yield Row(f"use {name} again", _ms(lambda text=text: filters.eligible(text, True), N_TIMES))  # type: ignore[misc]


def _items(n_items: int) -> list[ItemChange]:
    chance = random.Random(0)  # noqa: S311 (not for secrets)
    genres = [str(n) for n in range(N_GENRES)]
    return [
        ItemChange(
            f"item-{n}",
            tags={"genre": chance.sample(genres, 2), "series": [str(n // N_SERIES)]},
            numbers={"price": chance.random() * 100, "year": float(chance.randint(1950, 2024))},
        )
        for n in range(n_items)
    ]


def _ms(work: Callable[[], object], n_times: int = 1) -> float:
    began = time.process_time()
    for _ in range(n_times):
        work()
    return (time.process_time() - began) / n_times * 1000
