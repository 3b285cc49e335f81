"""`python -m benchmarks plant`: a data folder with a synthetic model and history of any size.

Factors and weights are normal, neighbors and sums of simLSH uniform. The time of an answer or of learning a batch
depends on sizes, not on values. So a load test of such a service has the times of a real one. Its recommendations mean
nothing.
"""

from __future__ import annotations

import os
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
from benchmarks.options import Algorithm, Parameters, Seed
from benchmarks.results import Row, say
from benchmarks.timing import timed
from gpu.errors import InvalidInput
from gpu.model import Model
from gpu.param_kinds import Params
from gpu.params import params_for
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

    Users are numbered from the most active one. `ratings.csv` is a sample of the history for `loadtest --ratings`.

    Args:
        data: created if it does not exist; must not hold ratings.
        params: parameters of the model, which determine its arrays.
        n_users, n_items: U, I; ids are `user-0`, `item-0` and so on. Each has at least one rating.
        n_ratings: number of drawn pairs. Some pairs are drawn twice, so the history has slightly fewer ratings.
        seed: equal seeds give equal files, except for times.

    Raises:
        InvalidInput: fewer ratings than users or items, or a folder with ratings.
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
    model = Model.zeros(params, MEAN, SCALE, n_users, n_items, n_bits=getattr(params, "n_bits", 0))
    model.mark_trained(np.ones(n_users, np.int64), np.arange(1, n_items + 1))
    normal = "user_factors", "item_factors", "user_bias", "item_bias", "explicit_weights", "implicit_weights"
    jobs = [
        (name, first)
        for name in (*normal, "neighbors", "projections")
        for first in range(0, len(getattr(model, name)), CHUNK)
    ]

    def draw(number: int) -> None:
        name, first = jobs[number]
        part, rng = getattr(model, name)[first : first + CHUNK], np.random.default_rng((seed, number))
        if name in normal:
            np.multiply(rng.standard_normal(part.shape, dtype=np.float32), DEVIATION, out=part)
        else:
            low, high = (0, n_items) if name == "neighbors" else (-MAX_SUM, MAX_SUM)
            part[:] = rng.integers(low, high, part.shape, dtype=np.int32)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(draw, range(len(jobs))))
    return model
