"""`python -m benchmarks events`: what a batch of events costs beside one of ratings, on one core."""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from service.api.parsers.elements import Body
from service.api.parsers.event_parser import read_events
from service.api.parsers.rating_parser import read_ratings
from service.engine.state.history import History
from service.engine.state.rating_runs import runs_of
from service.settings.event_types import DEFAULT_TYPES
from service.storage.events import Entry, RatingEvent, StreamId, encode_events, encode_ratings, parse_entry

BATCH = 1000  # elements of a body
N_ALTERNATIONS, N_WARMING = 300, 20
TYPES = "view", "view", "view", "cart", "purchase"
KINDS = "ratings", "events", "events with ids", "ratings beside events"


@dataclasses.dataclass(frozen=True)
class Row:
    """Medians of processor time in milliseconds, and their ratios to those of ratings.

    Attributes:
        elements: one of `KINDS`.
        parse_ms: to check a body and to encode its entry, as a front does.
        learn_ms: to decode the entry and to apply it to the history, as the engine does.
    """

    elements: str
    parse_ms: float
    learn_ms: float
    times_parse: float
    times_learn: float


def run(n_users: int, n_items: int, n_ratings: int) -> Iterator[Row]:
    """A row for each of `KINDS`, whose batches take turns: the first on a history without events, the others on one."""
    rng = np.random.default_rng(0)
    plain, mixed = (_history(rng, n_users, n_items, n_ratings) for _ in range(2))
    seconds: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for turn in range(N_WARMING + N_ALTERNATIONS):
        for place, kind in enumerate(KINDS):
            body = _body(rng, kind, turn, n_users, n_items)
            stream_id, history = StreamId(10**12 + 10 * turn + place, 0), plain if kind == KINDS[0] else mixed
            seconds[kind].append(_measured(history, body, stream_id, are_ratings=kind.startswith("ratings")))
    medians = {kind: _medians(found[N_WARMING:]) for kind, found in seconds.items()}
    parse_s, learn_s = medians[KINDS[0]]
    for kind, (own_parse_s, own_learn_s) in medians.items():
        yield Row(kind, own_parse_s * 1000, own_learn_s * 1000, own_parse_s / parse_s, own_learn_s / learn_s)


def _history(rng: np.random.Generator, n_users: int, n_items: int, n_ratings: int) -> History:
    history = History()
    for first in range(0, n_ratings, 100_000):
        n = min(100_000, n_ratings - first)
        pairs = zip(rng.integers(0, n_users, n).tolist(), rng.integers(0, n_items, n).tolist(), strict=True)
        ratings = [RatingEvent(f"u{user}", f"i{item}", 4.0, 1e9) for user, item in pairs]
        history.apply([Entry(StreamId(first + 1, 0), "rating", ratings)])
    return history


def _body(rng: np.random.Generator, kind: str, turn: int, n_users: int, n_items: int) -> Body:
    elements: list[dict[str, Any]] = []
    pairs = zip(rng.integers(0, n_users, BATCH).tolist(), rng.integers(0, n_items, BATCH).tolist(), strict=True)
    for n, (user, item) in enumerate(pairs):
        element: dict[str, Any] = {"user": f"u{user}", "item": f"i{item}", "timestamp": 1e9 + turn}
        element |= {"rating": 4.0} if kind.startswith("ratings") else {"type": TYPES[n % len(TYPES)]}
        elements.append(element | ({"event_id": f"{turn}-{n}"} if kind == "events with ids" else {}))
    return Body(json.dumps(elements).encode())


def _measured(history: History, body: Body, stream_id: StreamId, *, are_ratings: bool) -> tuple[float, float]:
    """Seconds to parse and to learn."""
    fields: dict[bytes, bytes] = {}

    def parse() -> None:
        if are_ratings:
            fields.update(encode_ratings(read_ratings(body, 1e9).accepted))
        else:
            fields.update(encode_events(read_events(body, 1e9, DEFAULT_TYPES).accepted))

    return _seconds(parse), _seconds(lambda: history.apply_runs(runs_of([parse_entry(stream_id, fields)])))


def _seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def _medians(seconds: list[tuple[float, float]]) -> tuple[float, float]:
    parse, learn = zip(*seconds, strict=True)
    return statistics.median(parse), statistics.median(learn)
