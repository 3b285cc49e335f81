"""`python -m benchmarks growth`: how long the engine thread is blocked while users, items and ratings are added.

History and model start almost empty and take in new users and items; no service runs. A step is the work that the
engine does for one batch of events before it can answer again: it updates the history, the popular items, the model's
arrays and its index. Refits are left out, since the engine runs them in separate slices.
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
from service.base import tuning
from service.engine.lists.popularity import Popularity
from service.engine.models.live_model import LiveModel
from service.engine.rehearsal import rehearse_history
from service.engine.state.history import History
from service.storage.events import BATCH_RATINGS, Entry, RatingEvent, StreamId
from service.storage.snapshots.manifest import Manifest

N_WARM = 5  # batches of events before the measured ones
SEED = 0


@dataclass(frozen=True)
class Row:
    """The longest and the median step until the given size is reached; `cpu` is the CPU time of the thread."""

    users: int
    items: int
    ratings: int
    longest_ms: float
    longest_cpu_ms: float
    median_ms: float


def run(algorithm: str, n_factors: int, n_users: int, n_items: int, n_ratings: int, n_rows: int) -> Iterator[Row]:
    """Grow to the given sizes; yields `n_rows` rows at equal distances.

    Raises:
        InvalidInput: too few ratings for `n_rows` rows.
    """
    n_batches = -(-n_ratings // BATCH_RATINGS) - 1
    if n_batches // n_rows <= N_WARM:
        least = (N_WARM + 1) * n_rows * BATCH_RATINGS + 1
        raise InvalidInput(f"Invalid n_ratings: expected {least:,} or more, got {n_ratings:,}")
    history, popularity = History(), Popularity()
    rehearse_history()
    batches = _batches(n_users, n_items, n_ratings)
    changes = history.apply(next(batches)).changes
    popularity.note(changes.items, changes.old, changes.new, history.table.n_items)
    live_model = _live_model(history, algorithm, n_factors)
    tuning.settle()
    steps: list[tuple[float, float]] = []
    ends = [n_batches * row // n_rows for row in range(1, n_rows + 1)]
    for number, entries in enumerate(batches, 1):
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
    """Drop the refits that wait; the engine would finish them before it takes the next batch."""
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


def _batches(n_users: int, n_items: int, n_ratings: int) -> Iterator[list[Entry]]:
    """Batches of ratings, drawn from a share of the users and items that grows to all of them."""
    rng = np.random.default_rng(SEED)
    for first in range(0, n_ratings, BATCH_RATINGS):
        share = (first + BATCH_RATINGS) / n_ratings
        users = rng.integers(0, max(int(n_users * share), 1), BATCH_RATINGS).tolist()
        items = rng.integers(0, max(int(n_items * share), 1), BATCH_RATINGS).tolist()
        pairs = zip(users, items, strict=True)
        yield [Entry(StreamId(first + 1, 0), "rating", [RatingEvent(f"u{u}", f"i{i}", 4.0, 0.0) for u, i in pairs])]


def _live_model(history: History, algorithm: str, n_factors: int) -> LiveModel:
    """A model of all users and items of the history."""
    params = params_for(algorithm, {"n_factors": n_factors})
    trained = Model.zeros(
        params, 1.0, (0.0, 5.0), len(history.users), len(history.items), n_bits=getattr(params, "n_bits", 0)
    )
    trained.user_trained[:], trained.item_trained[:] = True, True
    rows = np.arange(len(history.users)), np.arange(len(history.items))
    model = trained.mapped(*rows, len(history.users), len(history.items))
    manifest = Manifest("", algorithm, {}, 1.0, (0.0, 5.0), {}, str(history.position), len(rows[0]), len(rows[1]), {})
    return LiveModel(manifest, prepare_online(model, history.table, history.users.keys, history.items.keys), history)
