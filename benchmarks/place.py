"""Large models on a backend, without a service: `python -m benchmarks place` and `lists`."""

from __future__ import annotations

import itertools
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.options import Algorithm, Parameters, Where
from benchmarks.plant import STARS, drawn_model, ranks
from benchmarks.results import Row, say
from benchmarks.timing import median_ms, ms_of, timed
from gpu.changes import Changes
from gpu.model import NO_NEIGHBOR, Model
from gpu.online import OnlineModel, prepare_online
from gpu.online.rating_table import RatingTable
from gpu.params import params_for
from gpu.ranking import item_index, topn
from service.base import tuning
from service.engine.queries import Recommend
from service.engine.rebuilt import known_users, rebuild
from service.engine.rehearsal import rehearse_model
from service.jobs.lister import USERS_A_BATCH
from service.jobs.lister import lists as listed
from service.settings.event_types import DEFAULT_TYPES
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions

N_READERS, N = 64, 10
WARM_UP, ROUNDS = 3, 20
CHUNK = 1_000_000  # ratings that are drawn and applied at a time


def place(
    users: Annotated[int, typer.Option(help="Number of users U.", min=1)] = 10_000_000,
    items: Annotated[int, typer.Option(help="Number of items I.", min=1)] = 1_000_000,
    ratings: Annotated[int, typer.Option(help="Ratings in the table.", min=1)] = 5_000_000,
    new_items: Annotated[int, typer.Option(help="Items that are new to the model.", min=0)] = 0,
    changes: Annotated[int, typer.Option(help="Ratings per batch.", min=1)] = 1000,
    algorithm: Algorithm = "culsh",
    set_: Parameters = None,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Load a synthetic model onto a backend: seconds, memory, and milliseconds of a read and of a batch of ratings.

    A read is a call of 64 users. A batch holds changes by random users. Its time begins with the update of the table on
    the host and ends when the next read uses the new factors. The model refits new items and gives them neighbors, as a
    service does with items that are newer than its snapshot.

    `place_s` includes compiling kernels; `settle_s` is the time to copy the ratings to where the model learns, and
    `slice_ms` its longest slice; the engine answers no request during a slice. `learn_ms` is the median time of a
    batch, and `learn_slice_ms` its longest slice. `ratings_per_second` is the rate of batches without pauses.
    """
    rng, where, params = (
        np.random.default_rng(0),
        options.chosen(backend),
        params_for(algorithm, options.parameters(set_)),
    )
    model = drawn_model(params, users, items)
    _forget_items(model, rng.permutation(items)[:new_items])
    model_gb = model.n_bytes / 1e9
    say("parameters drawn")
    table = RatingTable(users, items)
    for first in range(0, ratings, CHUNK):
        _rate(table, rng, np.sort(rng.integers(0, users, min(CHUNK, ratings - first))), first)
    n_ratings = table.n_ratings  # fewer than drawn: a pair drawn twice counts once
    say(f"{n_ratings:,} ratings")
    both = rng.integers(0, 2**63, max(users, items)).astype(np.uint64)
    keys = both[:users], both[:items]
    item_index.prepare(params.width, where)
    rehearse_model(params.algorithm, where)
    ready, place_s = timed(lambda: prepare_online(model, table, *keys, where))
    (online, slice_ms), settle_s = timed(lambda: _settled(ready.follow(*keys)))
    say(f"loaded in {place_s:.1f} s, settled in {settle_s:.1f} s")

    def read() -> None:
        asked = rng.integers(0, users, N_READERS)
        topn.recommend(online.index, topn.users_of(online.model, asked), topn.rows_of(table.rows, asked), N)

    def learn() -> None:
        online.note(_rate(table, rng, rng.integers(0, users, changes), next(positions)))
        slices.append(_settled(online)[1])

    positions, slices = itertools.count(ratings, changes), list[float]()
    read_ms = median_ms(read, ROUNDS, WARM_UP)
    learn_ms = median_ms(learn, ROUNDS, WARM_UP)
    taken, resident = where.device_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield {
        "algorithm": algorithm, "users": users, "items": items, "new_items": new_items, "factors": params.width,
        "neighbors": model.neighbors.shape[1], "ratings": n_ratings, "changes": changes, "model_gb": model_gb,
        "place_s": place_s, "settle_s": settle_s, "slice_ms": slice_ms,
        "device_arrays_gb": taken.get("arrays", 0) / 1e9, "device_taken_gb": taken.get("taken", 0) / 1e9,
        "process_gb": resident / 1e9, "read_ms": read_ms, "learn_ms": learn_ms,
        "learn_slice_ms": max(slices[WARM_UP:]), "ratings_per_second": 1e3 * changes / learn_ms,
    }  # fmt: skip


def _forget_items(model: Model, items: NDArray[np.int64]) -> None:
    """Make `items` (B,) newer than the snapshot."""
    for name in ("item_factors", "item_bias", "item_baseline", "explicit_weights", "implicit_weights", "item_trained"):
        getattr(model, name)[items] = 0
    model.neighbors[items] = NO_NEIGHBOR


def _settled(online: OnlineModel) -> tuple[OnlineModel, float]:
    """Settle in slices, as an engine does; also returns milliseconds of the longest."""
    longest_ms, is_done = 0.0, [False]
    while not is_done[-1]:
        longest_ms = max(longest_ms, ms_of(lambda: is_done.append(online.settle(0.0))))
    return online, longest_ms


def _rate(table: RatingTable, rng: np.random.Generator, users: NDArray[np.int64], first: int) -> Changes:
    """Let each of `users` (B,) rate a random item."""
    items = ranks(rng.random(len(users)), table.n_items).astype(np.int64)
    values, positions = rng.choice(STARS, len(users)), np.arange(first, first + len(users))
    return table.apply(users, items, values, np.zeros(len(users)), positions)


def lists(
    data: Annotated[Path, typer.Option(help="Folder that `plant` has filled.", metavar="DIR", exists=True)],
    n: Annotated[int, typer.Option("--n", help="Length of the lists.", min=1)] = 50,
    users: Annotated[int, typer.Option(help="Users to list for; all if there are fewer.", min=1)] = 100_000,
    backend: Where = "auto",
) -> Iterator[Row]:
    """Users per second of the job that lists for all users (`POST /admin/lists`), after a first batch."""
    where, log, (version,) = options.chosen(backend), RatingLog(data / "ratings"), live_versions.read(data).values()
    rebuilt, rebuild_s = timed(lambda: rebuild(log, data / "snapshots", version, log.last_id(), where, DEFAULT_TYPES))
    tuning.settle()  # as the job does
    asked = known_users(rebuilt.history)[: users + USERS_A_BATCH]
    batches = listed(rebuilt, Recommend(n=n), asked)
    next(batches)
    n_rows, seconds = timed(lambda: sum(batch.num_rows for batch in batches))
    n_listed, model = len(asked) - min(USERS_A_BATCH, len(asked)), rebuilt.live_model.model
    row = {"backend": where.name, "items": model.n_items, "factors": model.params.width, "n": n, "rebuild_s": rebuild_s}
    yield {**row, "users": n_listed, "users_per_s": n_listed / seconds, "rows_per_s": n_rows / seconds}
