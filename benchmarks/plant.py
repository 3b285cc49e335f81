"""Synthetic models of any size: `python -m benchmarks plant`, `place` and `lists`.

Factors and weights are normal, neighbors and sums of simLSH uniform. The time of an answer or of learning a batch
depends on sizes, not on values. So a load test of such a service has the times of a real one. Its recommendations mean
nothing.
"""

from __future__ import annotations

import itertools
import os
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import typer
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.options import Algorithm, Parameters, Seed, Where
from benchmarks.results import Row, say
from benchmarks.timing import median_ms, ms_of, timed
from gpu.algorithms import params_for
from gpu.base.errors import InvalidInput
from gpu.data.changes import Changes
from gpu.data.model import NO_NEIGHBOR, Model
from gpu.data.param_kinds import Params
from gpu.data.rating_table import RatingTable
from gpu.online import OnlineModel, prepare_online
from gpu.ranking import item_index, topn
from service.base import tuning
from service.engine import compilation
from service.engine.queries import Recommend
from service.engine.rebuilt import Rebuilt, history_at, known_users, rebuild
from service.jobs.lister import BATCH_USERS
from service.jobs.lister import lists as listed
from service.settings.event_types import DEFAULT_TYPES
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment import filled
from service.storage.snapshots import live_versions, snapshot

MEAN, SCALE, STARS = 3.0, (1.0, 5.0), np.arange(1, 6, dtype=np.float32)
ITEM_SKEW, USER_SKEW = 0.8, 1 / 3  # the item of rank r has r ** -0.8 of the ratings, the user of rank r r ** -1/3
DEVIATION = 1 / 8  # of factors, and of weights of neighbors
MAX_SUM = 1000  # bound of the absolute sums of simLSH
CHUNK = 1 << 17  # rows of an array that are drawn together
PER_ENTRY, ENTRIES_PER_GROUP, GROUPS_PER_SEGMENT = 1000, 128, 16  # segments too long to be merged
N_SAMPLED, SAMPLE = 500_000, "ratings.csv"
N_READERS, N = 64, 10
WARM_UP, ROUNDS = 3, 20
N_AT_ONCE = 1_000_000  # ratings that are drawn and applied at a time


def plant(
    data: Annotated[Path, typer.Option(help="Folder to fill.", metavar="DIR")],
    users: Annotated[int, typer.Option(help="Number of users U.", min=1)] = 1_000_000,
    items: Annotated[int, typer.Option(help="Number of items I.", min=1)] = 1_000_000,
    ratings: Annotated[int, typer.Option(help="Ratings in the history.", min=1)] = 20_000_000,
    algorithm: Algorithm = "culsh",
    set_: Parameters = None,
    seed: Seed = 0,
) -> Iterator[Row]:
    """Fill a data folder with a synthetic model and history of any size, for `python -m loadtest --data`."""
    yield planted(data, params_for(algorithm, options.parameters(set_)), users, items, ratings, seed)


def planted(data: Path, params: Params, n_users: int, n_items: int, n_ratings: int, seed: int = 0) -> Row:
    """Fill the folder `data` with the log of a history and a live model of all its users and items.

    Users are numbered from the most active one; ids are `user-0`, `item-0` and so on, each with a rating at least. Some
    of the drawn pairs are equal, so the history has slightly fewer ratings. `ratings.csv` is a sample of it for
    `loadtest --ratings`. Equal seeds give equal files, except for times.
    """
    if n_ratings < max(n_users, n_items):
        raise InvalidInput(f"Invalid ratings: expected one a user and item at least, got {n_ratings:,}")
    log = RatingLog(data / "ratings")
    if log.files.segments():
        raise InvalidInput(f"Invalid data: expected a folder without ratings, got {data}")
    rng = np.random.default_rng(seed)
    drawn = ranks(rng.random(n_ratings), n_items)
    drawn[np.arange(n_items) * (n_ratings // n_items)] = rng.permutation(n_items)  # every item gets a rating
    # Ratings of a user: one, and a share of the rest in proportion to rank ** −USER_SKEW.
    shares = np.cumsum(np.arange(1, n_users + 1) ** -USER_SKEW)
    ends = np.rint(shares / shares[-1] * (n_ratings - n_users)).astype(np.int64)
    lengths = 1 + np.diff(ends, prepend=0)
    users, stars = np.repeat(np.arange(n_users, dtype=np.int32), lengths), rng.choice(STARS, n_ratings)
    names = [[f"{kind}-{row}" for row in range(n)] for kind, n in (("user", n_users), ("item", n_items))]
    of_users, of_items = map(pa.array, names)

    def ratings(which: slice) -> dict[str, Any]:
        """Columns of some of the ratings."""
        columns = {"user": of_users.take(pa.array(users[which])), "item": of_items.take(pa.array(drawn[which]))}
        return {**columns, "rating": stars[which]}

    watermark, log_s = timed(lambda: _write_log(log, ratings, n_ratings))
    sample = pa.table(ratings(slice(0, None, max(n_ratings // N_SAMPLED, 1))))
    pyarrow.csv.write_csv(sample, data / SAMPLE, pyarrow.csv.WriteOptions(quoting_style="none"))
    say(f"log: {n_ratings:,} ratings in {log_s:.1f} s")
    began = time.perf_counter()
    model = drawn_model(params, n_users, n_items, seed)
    pairs = np.unique(users.astype(np.int64) * n_items + drawn)
    model.item_counts[:] = np.bincount(pairs % n_items, minlength=n_items)  # else all items would be due for a refit
    manifest = snapshot.write(data / "snapshots", model, *names, metrics={}, watermark=str(watermark))
    live_versions.set_version(data, manifest.algorithm, manifest.version)
    sizes = {"users": n_users, "items": n_items, "ratings": n_ratings, "most_of_a_user": int(lengths.max())}
    return {"version": manifest.version, **sizes, "log_s": log_s, "model_s": time.perf_counter() - began}


def ranks(uniform: NDArray[np.float64], n: int) -> NDArray[np.int32]:
    """Ranks from 0, drawn with a density of rank ** −ITEM_SKEW: the inverse of its integral."""
    power = 1 - ITEM_SKEW
    drawn = (1 + uniform * ((n + 1) ** power - 1)) ** (1 / power) - 1
    ranks: NDArray[np.int32] = np.minimum(drawn, n - 1).astype(np.int32)
    return ranks


def _write_log(log: RatingLog, ratings: Callable[[slice], dict[str, Any]], n_ratings: int) -> StreamId:
    """Write all ratings as entries of the last minutes; returns the id of the last one."""
    n_entries = -(-n_ratings // PER_ENTRY)
    first_ms = int(time.time() * 1000) - n_entries

    def group(first: int, end: int) -> pa.Table:
        """Rows of the entries from `first` to before `end`."""
        rows = np.arange(first * PER_ENTRY, min(end * PER_ENTRY, n_ratings))
        ms = first_ms + rows // PER_ENTRY
        place = {"ms": ms, "seq": np.zeros(len(rows), np.int64), "index": rows % PER_ENTRY, "timestamp": ms / 1000}
        kind = pa.array(["rating"]).take(pa.array(np.zeros(len(rows), np.int32)))
        return filled({**place, "kind": kind, **ratings(slice(rows[0], rows[-1] + 1))}, len(rows))

    def write(first: int) -> None:
        last = min(first + ENTRIES_PER_GROUP * GROUPS_PER_SEGMENT, n_entries) - 1
        firsts = range(first, last + 1, ENTRIES_PER_GROUP)
        groups = (group(one, min(one + ENTRIES_PER_GROUP, last + 1)) for one in firsts)
        log.files.write(StreamId(first_ms + first, 0), StreamId(first_ms + last, 0), groups)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(write, range(0, n_entries, ENTRIES_PER_GROUP * GROUPS_PER_SEGMENT)))
    return StreamId(first_ms + n_entries - 1, 0)


def drawn_model(params: Params, n_users: int, n_items: int, seed: int = 0) -> Model:
    """A model with random values in every array that `params` require; all rows count as trained."""
    model = Model.zeros(params, MEAN, SCALE, n_users, n_items, n_bits=params.n_bits)
    model.mark_trained(np.ones(n_users, np.int64), np.arange(1, n_items + 1))
    normal = "user_factors", "item_factors", "user_bias", "item_bias", "explicit_weights", "implicit_weights"
    sums = ("projections",)
    jobs = [
        (name, first) for name in (*normal, "neighbors", *sums) for first in range(0, len(getattr(model, name)), CHUNK)
    ]

    def draw(number: int) -> None:
        name, first = jobs[number]
        part, rng = getattr(model, name)[first : first + CHUNK], np.random.default_rng((seed, number))
        if name in normal:
            np.multiply(rng.standard_normal(part.shape, dtype=np.float32), DEVIATION, out=part)
        else:
            low, high = (-MAX_SUM, MAX_SUM) if name in sums else (0, n_items)
            part[:] = rng.integers(low, high, part.shape, dtype=np.int32)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(draw, range(len(jobs))))
    return model


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

    A read is a call of 64 users. A batch holds changes by random users; its time begins with the update of the table on
    the host and ends when the next read uses the new factors. The model refits new items and gives them neighbors, as a
    service does with items newer than its snapshot. `place_s` includes compiling; `settle_s` is the time to copy the
    ratings to where the model learns. The engine answers no request during a slice; `slice_ms` are the longest.
    """
    rng, where, params = (
        np.random.default_rng(0),
        options.chosen(backend),
        params_for(algorithm, options.parameters(set_)),
    )
    model = drawn_model(params, users, items)
    newer = rng.permutation(items)[:new_items]
    for name in ("item_factors", "item_bias", "item_baseline", "explicit_weights", "implicit_weights", "item_trained"):
        getattr(model, name)[newer] = 0  # as if newer than the snapshot
    model.neighbors[newer] = NO_NEIGHBOR
    model_gb = model.n_bytes / 1e9
    say("parameters drawn")
    table = RatingTable(users, items)
    for first in range(0, ratings, N_AT_ONCE):
        _rate(table, rng, np.sort(rng.integers(0, users, min(N_AT_ONCE, ratings - first))), first)
    n_ratings = table.n_ratings  # fewer than drawn: a pair drawn twice counts once
    say(f"{n_ratings:,} ratings")
    both = rng.integers(0, 2**63, max(users, items)).astype(np.uint64)
    keys = both[:users], both[:items]
    item_index.prepare(params.width, where)
    compilation.compile_model(params.algorithm, where)
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

    def state() -> Rebuilt:
        loaded, position = snapshot.load(data / "snapshots", version), log.last_id()
        return rebuild(loaded, history_at(log, position, DEFAULT_TYPES), position, where)

    rebuilt, rebuild_s = timed(state)
    tuning.settle()  # as the job does
    asked = known_users(rebuilt.history)[: users + BATCH_USERS]
    batches = listed(rebuilt, Recommend(n=n), asked)
    next(batches)
    n_rows, seconds = timed(lambda: sum(batch.num_rows for batch in batches))
    n_listed, model = len(asked) - min(BATCH_USERS, len(asked)), rebuilt.live_model.model
    row = {"backend": where.name, "items": model.n_items, "factors": model.params.width, "n": n, "rebuild_s": rebuild_s}
    yield {**row, "users": n_listed, "users_per_s": n_listed / seconds, "rows_per_s": n_rows / seconds}
