"""Users per second of the job that lists for all users, on a folder of `python -m benchmarks plant`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from gpu.backend import Backend
from service.base import tuning
from service.engine.queries import Recommend
from service.engine.rebuilt import known_users, rebuild
from service.jobs.lister import USERS_A_BATCH, lists
from service.settings.event_types import DEFAULT_TYPES
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions


@dataclass(frozen=True)
class Row:
    """One measurement; times in seconds."""

    backend: str
    items: int
    factors: int
    n: int
    rebuild_s: float
    users: int
    users_per_s: int
    rows_per_s: int


def run(data: Path, n: int, n_users: int, backend: Backend) -> Row:
    """One row: the time to rebuild the state, and the users and rows per second after a first batch.

    Args:
        data: a data folder with one live model.
        n: length of the lists.
        n_users: users to list for; all if there are fewer.
        backend: where the model ranks.
    """
    started_s = time.perf_counter()
    log, (version,) = RatingLog(data / "ratings"), live_versions.read(data).values()
    rebuilt = rebuild(log, data / "snapshots", version, log.last_id(), backend, DEFAULT_TYPES)
    rebuilt_s = time.perf_counter() - started_s
    tuning.settle()  # as the job does
    users = known_users(rebuilt.history)[: n_users + USERS_A_BATCH]
    batches = lists(rebuilt, Recommend(n=n), users)
    next(batches)
    started_s = time.perf_counter()
    n_rows = sum(batch.num_rows for batch in batches)
    seconds, n_listed = time.perf_counter() - started_s, len(users) - min(USERS_A_BATCH, len(users))
    model = rebuilt.live_model.model
    sizes = backend.name, model.n_items, model.params.width, n
    return Row(*sizes, round(rebuilt_s, 1), n_listed, round(n_listed / seconds), round(n_rows / seconds))
