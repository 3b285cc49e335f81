"""`python -m benchmarks growth`: how long the engine thread stands still while users, items and ratings are added.

A service that has started empty, with a small model, takes in new users and items; each step is what the engine does
for one lesson before it can answer again: the history, the popular items, the model's arrays and its index. Refits are
left out, they go in slices of their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.report import say
from gpu.errors import InvalidInput
from gpu.model import Model
from gpu.online import prepare_online
from gpu.online.host_model import HostModel
from gpu.params import params_for
from service import tuning
from service.engine.history import History
from service.engine.live_model import LiveModel
from service.engine.popularity import Popularity
from service.engine.rehearsal import rehearse_history
from service.storage.events import BATCH_RATINGS, Entry, RatingEvent, StreamId
from service.storage.manifest import Manifest

N_WARM = 5  # lessons before the clock counts
SEED = 0


@dataclass(frozen=True)
class Row:
    """The longest and the usual step on the way to a size; `cpu` leaves out what other processes took."""

    users: int
    items: int
    ratings: int
    longest_ms: float
    longest_cpu_ms: float
    median_ms: float


def run(algorithm: str, n_factors: int, n_users: int, n_items: int, n_ratings: int, n_rows: int) -> Iterator[Row]:
    """Grow to the given sizes; a row for each part of the way.

    Raises:
        InvalidInput: so few ratings that a row would have no lesson.
    """
    n_lessons = -(-n_ratings // BATCH_RATINGS) - 1
    if n_lessons // n_rows <= N_WARM:
        least = (N_WARM + 1) * n_rows * BATCH_RATINGS + 1
        raise InvalidInput(f"Invalid n_ratings: expected {least:,} or more, got {n_ratings:,}")
    history, popularity = History(), Popularity()
    rehearse_history()
    pending_events = _lessons(n_users, n_items, n_ratings)
    changes = history.apply(next(pending_events)).changes
    popularity.note(changes.items, changes.old, changes.new, history.table.n_items)
    live_model = _live_model(history, algorithm, n_factors)
    tuning.settle()
    steps: list[tuple[float, float]] = []
    ends = [n_lessons * row // n_rows for row in range(1, n_rows + 1)]
    for number, entries in enumerate(pending_events, 1):
        started, started_cpu = time.perf_counter(), time.thread_time()
        applied = history.apply(entries)
        changes = applied.changes
        popularity.note(changes.items, changes.old, changes.new, history.table.n_items)
        live_model.learn(applied)
        steps.append((time.perf_counter() - started, time.thread_time() - started_cpu))
        _leave_out_refits(live_model)
        if number in ends:
            yield _row(history, steps[N_WARM:] if number == ends[0] else steps)
            steps.clear()


def _leave_out_refits(live_model: LiveModel) -> None:
    """Make nobody wait for them: the engine never takes a lesson before the one before is learned."""
    online_model = live_model.online
    assert isinstance(online_model, HostModel)  # noqa: S101 - on the host; this narrows the type
    online_model._users.clear()
    online_model._items.clear()


def _row(history: History, steps: list[tuple[float, float]]) -> Row:
    times, cpu = np.array(steps).T * 1000
    table = history.table
    say(f"{table.n_users:,} users, {table.n_items:,} items, {table.n_ratings:,} ratings: {times.max():.1f} ms")
    sizes = table.n_users, table.n_items, table.n_ratings
    return Row(*sizes, float(times.max()), float(cpu.max()), float(np.median(times)))


def _lessons(n_users: int, n_items: int, n_ratings: int) -> Iterator[list[Entry]]:
    """Lessons of ratings in which users and items appear one after the other, and are rated again later."""
    rng = np.random.default_rng(SEED)
    for first in range(0, n_ratings, BATCH_RATINGS):
        share = (first + BATCH_RATINGS) / n_ratings
        users = rng.integers(0, max(int(n_users * share), 1), BATCH_RATINGS).tolist()
        items = rng.integers(0, max(int(n_items * share), 1), BATCH_RATINGS).tolist()
        pairs = zip(users, items, strict=True)
        yield [Entry(StreamId(first + 1, 0), "rating", [RatingEvent(f"u{u}", f"i{i}", 4.0, 0.0) for u, i in pairs])]


def _live_model(history: History, algorithm: str, n_factors: int) -> LiveModel:
    """A model that knows what the history has so far."""
    params = params_for(algorithm, {"n_factors": n_factors})
    known = Model.zeros(
        params, 1.0, (0.0, 5.0), len(history.users), len(history.items), n_bits=getattr(params, "n_bits", 0)
    )
    known.user_trained[:], known.item_trained[:] = True, True
    rows = np.arange(len(history.users)), np.arange(len(history.items))
    model = known.mapped(*rows, len(history.users), len(history.items))
    manifest = Manifest("", algorithm, {}, 1.0, (0.0, 5.0), {}, str(history.position), len(rows[0]), len(rows[1]), {})
    return LiveModel(manifest, prepare_online(model, history.table, history.users.keys, history.items.keys), history)
