"""Trains on files, without a service: `nearfield train` and `topics`.

`train` writes a snapshot to `OUT/<version>/`, its training ratings to `OUT/<version>.parquet` and those to test on to
`OUT/<version>.held-out.parquet`. `evaluate` (`service.cli.evaluation`) needs the first for the neighbor terms of a
prediction, and to leave rated items out of lists.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpu
from gpu.base.errors import InvalidInput, naming
from gpu.data.evidence import packed
from gpu.data.host_ids import IdColumn
from gpu.data.ratings import Occasions
from gpu.online.host.events import add_up
from gpu.repeat.learn import learned as how_items_repeat
from gpu.trend.learn import learned
from service.cli import closing_line
from service.cli.files.events_file import Event, EventsFile
from service.cli.files.ratings_file import RatingsFile
from service.cli.options import Split
from service.engine.state.id_table import IdTable
from service.engine.state.strengths import MAX_SUM
from service.settings.event_types import EventTypes
from service.storage.events import ZERO
from service.storage.snapshots import snapshot
from service.storage.snapshots.snapshot import Snapshot

TRAINED_ON, HELD_OUT = ".parquet", ".held-out.parquet"  # suffixes of the files beside a snapshot
NO_RATINGS = RatingsFile([], [], np.zeros(0, np.float32), np.zeros(0), [])
SHARE = 1e-6  # of the largest entry of a factor; smaller entries are the ε of the training, which stands for 0

if TYPE_CHECKING:
    from service.jobs.trainer_messages import Team

OnLine = Callable[[dict[str, Any]], None]


@dataclass
class Data:
    """Ratings to train on and to test on, with the same rows.

    Attributes:
        users, items: the id tables of both.
        train: training ratings.
        test: test ratings, or None.
        times, test_times: of `train` and `test`; None if the file has none.
        is_newer: whether `test` has newer ratings than those of the same users in `train`.
        evidence: the ratings and events that the pairs of `train` were made of; None without events.
    """

    users: IdTable
    items: IdTable
    train: gpu.Ratings
    test: gpu.Ratings | None
    times: gpu.Times | None = None
    is_newer: bool = False
    test_times: gpu.Times | None = None
    evidence: Evidence | None = None

    def ids(self) -> tuple[list[str], list[str]]:
        """The ids of all users and of all items, in the order of their rows."""
        users, items = (
            [text for text in table.ids(range(len(table))) if text is not None] for table in (self.users, self.items)
        )
        return users, items

    @classmethod
    def of(
        cls, file: RatingsFile, test: RatingsFile | None, test_fraction: float, seed: int, split: Split = "random"
    ) -> Data:
        """`of_files` if there is a file to test on, else `split`."""
        return cls.split(file, test_fraction, seed, split) if test is None else cls.of_files(file, test)

    @classmethod
    def parts(
        cls,
        ratings: RatingsFile | None,
        events: tuple[EventsFile, EventTypes] | None,
        test: RatingsFile | None,
        test_fraction: float,
        seed: int,
        split: Split,
        n_folds: int,
    ) -> Iterator[Data]:
        """What to learn from ratings, from events with the weights of types, or both; or `n_folds` cuts in time."""
        if events is None:
            assert ratings is not None  # noqa: S101 - the command demands one of both; this narrows the type
            if n_folds > 1:
                yield from cls.rolling(ratings, test_fraction, n_folds)
            else:
                yield cls.of(ratings, test, test_fraction, seed, split)
            return
        file, types = events
        counted = first_events(file, types)
        if split == "time":
            yield from cls.of_events(ratings, counted, types, test_fraction, n_folds)
            return
        data = cls.of(with_events(ratings, counted, types), test, test_fraction, seed, split)
        data.evidence = Evidence(ratings, counted, types)
        yield data

    @classmethod
    def split(cls, file: RatingsFile, test_fraction: float, seed: int, split: Split = "random") -> Data:
        """Hold some of the file's ratings out, see `order_of`."""
        users, items, rows = numbered(file)
        order, n_test = order_of(file, split, test_fraction, seed)
        return cls._divided(users, items, rows, order[n_test:], order[:n_test], is_newer=split != "random")

    @classmethod
    def rolling(cls, file: RatingsFile, test_fraction: float, n_folds: int) -> Iterator[Data]:
        """Cut the newest ratings into `n_folds` parts, and hold out each in turn: trained is on all that came before.

        Args:
            test_fraction: share of the ratings in all parts together, which have about as many each.
        """
        users, items, rows = numbered(file)
        newest, n_test = order_of(file, "time", test_fraction, 0)
        oldest = newest[::-1]
        cuts = np.linspace(len(oldest) - n_test, len(oldest), n_folds + 1).round().astype(np.int64)
        for first, end in itertools.pairwise(cuts.tolist()):
            yield cls._divided(users, items, rows, oldest[:first], oldest[first:end], is_newer=True)

    @classmethod
    def of_events(
        cls, ratings: RatingsFile | None, events: Sequence[Event], types: EventTypes, test_fraction: float, n_folds: int
    ) -> Iterator[Data]:
        """As `rolling`, but cut events one by one: what a user had before may come back in the part that is held out.

        Raises:
            InvalidInput: a rating or an event has no time.
        """
        rated = NO_RATINGS if ratings is None else ratings
        times = [one.timestamp if one.timestamp is not None else math.nan for one in events]
        seconds = np.append(np.full(len(rated.values), np.nan) if rated.timestamps is None else rated.timestamps, times)
        check_times("time", seconds)
        n_ratings, oldest = len(rated.values), np.argsort(seconds, kind="stable")
        n_test = round(test_fraction * len(oldest))
        cuts = np.linspace(len(oldest) - n_test, len(oldest), n_folds + 1).round().astype(np.int64)

        def part(places: NDArray[np.int64]) -> tuple[RatingsFile, list[Event]]:
            return rated.at(places[places < n_ratings]), [events[n - n_ratings] for n in places[places >= n_ratings]]

        for first, end in itertools.pairwise(cuts.tolist()):
            (older, came), (newer, coming) = part(np.sort(oldest[:first])), part(np.sort(oldest[first:end]))
            data = cls.of_files(with_events(older, came, types), with_events(newer, coming, types))
            data.is_newer, data.evidence = True, Evidence(older, came, types)
            yield data

    def occasions(self) -> Occasions | None:
        """The events that add to the strength of a pair of `train`, one by one; None if there are none, or one has no
        time.
        """
        if self.evidence is None:
            return None
        types = self.evidence.types
        added = [
            (event, types[event.type] * (1.0 if event.value is None else event.value)) for event in self.evidence.events
        ]
        adding = [(event, amount) for event, amount in added if amount > 0]
        if not adding or any(event.timestamp is None for event, _ in adding):
            return None
        users, items, known = self._trained([event.user for event, _ in adding], [event.item for event, _ in adding])
        seconds, amounts = np.array([(event.timestamp, amount) for event, amount in adding], dtype=np.float64).T
        return Occasions(users, items, seconds, amounts.astype(np.float32)).at(known)

    def weighed(self, types: EventTypes) -> Data:
        """The same data with these weights of events: only the strengths of the pairs of `train` differ.

        Pairs whose events now add up to 0 are left out, and none joins: `test` stays apart from `train`.
        """
        assert self.evidence is not None  # noqa: S101 - only events have weights; this narrows the type
        file = with_events(self.evidence.ratings, self.evidence.events, types)
        users, items, known = self._trained(file.users, file.items)
        rows = RowsOfFile(users, items, file.values, file.timestamps, np.arange(len(known))).at(np.flatnonzero(known))
        shape, keys = (self.train.n_users, self.train.n_items), (self.train.user_keys, self.train.item_keys)
        train = gpu.Ratings.from_coo(rows.users, rows.items, rows.values, shape, *keys)
        return replace(self, train=train, times=rows.times(), evidence=self.evidence._replace(types=types))

    def _trained(
        self, users: Sequence[str], items: Sequence[str]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        """The rows of these ids, and which of the pairs (B,) are in `train`."""
        rows, columns = self.users.rows_of(IdColumn.of(users)), self.items.rows_of(IdColumn.of(items))
        of_users, of_items, _ = self.train.coo()
        trained = of_users.astype(np.int64) << 32 | of_items
        return rows, columns, np.isin(rows.astype(np.int64) << 32 | columns, trained)

    @classmethod
    def folds(cls, file: RatingsFile, n_folds: int, seed: int = 0) -> Iterator[Data]:
        """Split a seeded permutation of the ratings into `n_folds` even parts, and hold out each in turn."""
        users, items, rows = numbered(file)
        parts = np.array_split(np.random.default_rng(seed).permutation(len(rows.values)), n_folds)
        for held_out, part in enumerate(parts):
            others = np.concatenate(parts[:held_out] + parts[held_out + 1 :])
            yield cls._divided(users, items, rows, others, part)

    @classmethod
    def of_files(cls, train: RatingsFile, test: RatingsFile) -> Data:
        """Train on one file and test on another; ids that only the second file has are unknown to the model."""
        users, items, train_rows = numbered(train)
        _, _, test_rows = numbered(test, users, items)
        data = cls(users, items, train_rows.matrix(users, items), test_rows.matrix(users, items), train_rows.times())
        data.test_times = test_rows.times()
        return data

    @classmethod
    def _divided(
        cls,
        users: IdTable,
        items: IdTable,
        rows: RowsOfFile,
        kept: NDArray[np.int64],
        held_out: NDArray[np.int64],
        *,
        is_newer: bool = False,
    ) -> Data:
        """The ratings at these positions of a file."""
        train, test = rows.at(np.sort(kept)), rows.at(np.sort(held_out))
        data = cls(users, items, train.matrix(users, items), None, train.times(), is_newer)
        if len(held_out):
            data.test, data.test_times = test.matrix(users, items), test.times()
        return data


class Evidence(NamedTuple):
    """What pairs are made of.

    Attributes:
        ratings: None: events alone.
        events: those that count.
        types: their weights.
    """

    ratings: RatingsFile | None
    events: Sequence[Event]
    types: EventTypes


def first_events(file: EventsFile, types: EventTypes) -> list[Event]:
    """The events that count: of a user's events with the same id only the first does.

    Raises:
        InvalidInput: `types` has no weight for an event.
    """
    if unknown := {event.type for event in file.events} - types.keys():
        raise InvalidInput(
            f"Invalid type: expected types of NEARFIELD_EVENTS ({', '.join(types)}), got {', '.join(sorted(unknown))}"
        )
    keys, counted = set[tuple[str, str]](), list[Event]()
    for event in file.events:
        if event.event_id is None or (event.user, event.event_id) not in keys:
            counted.append(event)
            keys.add((event.user, event.event_id or ""))
    return counted


def with_events(ratings: RatingsFile | None, counted: Sequence[Event], types: EventTypes) -> RatingsFile:
    """The strengths of all pairs, as the service has them of these ratings and events (`gpu.data.evidence`).

    A pair has the newest time of its rating and its events. Pairs that were only seen are left out.
    """
    rated = NO_RATINGS if ratings is None else ratings
    n = len(rated.values)
    users, items = IdTable(), IdTable()
    user_rows = users.rows_or_new([*rated.users, *(event.user for event in counted)])
    item_rows = items.rows_or_new([*rated.items, *(event.item for event in counted)])
    pairs, firsts, pair_of = np.unique(
        user_rows.astype(np.int64) << 32 | item_rows, return_index=True, return_inverse=True
    )
    values, sums = (np.full(len(pairs), np.nan, dtype=np.float32) for _ in range(2))
    values[pair_of[:n]], latest = rated.values, np.full(len(pairs), -np.inf)
    if rated.timestamps is not None:
        np.fmax.at(latest, pair_of[:n], rated.timestamps)
    weights = np.array([types[event.type] for event in counted], dtype=np.float64)
    amounts = weights * np.array([1.0 if event.value is None else event.value for event in counted], dtype=np.float64)
    times = np.array([-np.inf if event.timestamp is None else event.timestamp for event in counted], dtype=np.float64)
    times[weights == 0] = -np.inf  # what was only seen does not make a strength younger
    add_up(pair_of[n:], amounts, times, MAX_SUM, sums, latest)
    strengths = packed(values, sums)
    places = firsts[~np.isnan(strengths)]
    stays = pair_of[np.sort(places)]
    return RatingsFile(
        [str(users.id(int(pairs[pair] >> 32))) for pair in stays],
        [str(items.id(int(pairs[pair] & 0xFFFFFFFF))) for pair in stays],
        strengths[stays],
        np.where(np.isfinite(latest[stays]), latest[stays], np.nan),
        [],
    )


@dataclass
class RowsOfFile:
    """The ratings of a file, with rows of id tables: parallel arrays (N,).

    Attributes:
        users, items, values: rows and ratings.
        seconds: Unix seconds; None if the file has no times.
        lines: where they stand in the file: of equal times the later one is newer.
    """

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.float32]
    seconds: NDArray[np.float64] | None
    lines: NDArray[np.int64]

    def at(self, positions: NDArray[np.int64]) -> RowsOfFile:
        """The ratings at `positions`."""
        seconds = None if self.seconds is None else self.seconds[positions]
        users, items, values = self.users[positions], self.items[positions], self.values[positions]
        return RowsOfFile(users, items, values, seconds, self.lines[positions])

    def times(self) -> gpu.Times | None:
        """Times of `matrix`; None unless every rating has one."""
        if self.seconds is None or not len(self.users) or np.isnan(self.seconds).any():
            return None
        at = np.lexsort((self.lines, self.items, self.users))
        users, items = self.users[at], self.items[at]
        is_last = np.ones(len(at), dtype=np.bool_)  # of a pair, whose last line counts
        is_last[:-1] = (users[1:] != users[:-1]) | (items[1:] != items[:-1])
        at = at[is_last]
        return gpu.Times(self.seconds[at], float(self.seconds.max()), self.lines[at])

    def matrix(self, users: IdTable, items: IdTable) -> gpu.Ratings:
        """The ratings by these tables."""
        shape = (len(users), len(items))
        return gpu.Ratings.from_coo(self.users, self.items, self.values, shape, users.keys, items.keys)


def train(
    data: Data,
    params: gpu.Params,
    backend: gpu.Backend,
    on_line: OnLine,
    out: Path | None = None,
    team: Team | None = None,
    on_phase: Callable[[str], None] = lambda _phase: None,
) -> dict[str, Any]:
    """Fit a model to `data.train`, report each epoch to `on_line`, and return the closing line.

    Args:
        data: see `Data`.
        params: algorithm and hyperparameters.
        backend: the backend to train on.
        on_line: called with `{"epoch", "seconds", "train_rmse", "test_rmse", …}` after each epoch.
        out: folder for the snapshot; None writes none.
        team: processes that train together; None trains in this one.
        on_phase: called with the name of each phase that begins: training, measuring, writing.
    """
    lines: list[dict[str, Any]] = []
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # now, so that a folder that cannot be written fails early

    def on_epoch(report: gpu.EpochReport) -> None:
        lines.append({"epoch": report.epoch, "seconds": report.seconds, **report.metrics})
        on_line(lines[-1])

    on_phase("training")
    with naming(data.ids):
        ratings, n_far = gpu.usable(data.train, params)
        run, n_ranks = (gpu.run_here, 1) if team is None else (team.run, team.n_ranks)
        selection = gpu.selected(ratings, params, backend, most_factors=gpu.most_factors(backend, n_ranks))
        model = gpu.fit(
            ratings,
            params,
            backend=backend,
            test=data.test,
            on_epoch=on_epoch,
            run=run,
            times=data.times,
            selection=selection,
        )
        on_phase("measuring")
        if data.times is not None:
            trend = learned(ratings, data.times, model.params, backend)
            model.calibration = replace(model.calibration, trend=trend)
        if (occasions := data.occasions()) is not None:
            shape = data.train.n_users, data.train.n_items
            repeat = how_items_repeat(occasions, shape, model.params, backend)
            model.calibration = replace(model.calibration, repeat=repeat)
    closing = {
        "done": True,
        "algorithm": params.algorithm,
        "backend": backend.name,
        "n_users": data.train.n_users,
        "n_items": data.train.n_items,
        "n_train": len(data.train),
        **({"clipped_ratings": n_far} if n_far else {}),
        "n_test": 0 if data.test is None else len(data.test),
        "seconds": lines[-1]["seconds"],
        **closing_line.metrics_of(lines[-1]),
        **closing_line.best_of(lines),
        **closing_line.baseline_of(model, ratings, data.test, backend),
        **closing_line.kind_of(model),
        "peak_memory_bytes": closing_line.peak_memory_bytes(has_team=team is not None),
        **({} if team is None else {"ranks": team.n_ranks, "restarts": team.n_restarts}),
    }
    if out is not None:
        on_phase("writing")
        metrics = {name: v for name, v in closing_line.metrics_of(lines[-1]).items() if math.isfinite(v)}  # as JSON has
        user_ids, item_ids = data.ids()
        manifest = snapshot.write(out, model, user_ids, item_ids, metrics=metrics, watermark=str(ZERO))
        for part, suffix, times in ((data.train, TRAINED_ON, data.times), (data.test, HELD_OUT, data.test_times)):
            if part is not None:
                write_ratings(out / f"{manifest.version}{suffix}", part, times, user_ids, item_ids)
        closing["snapshot"] = str(out / manifest.version)
    return closing


def write_ratings(
    path: Path, ratings: gpu.Ratings, times: gpu.Times | None, user_ids: list[str], item_ids: list[str]
) -> None:
    """Write a Parquet file of `ratings`; with their times, in the order of the stream, which decides between equal
    ones.
    """
    import pyarrow as pa  # noqa: PLC0415 - reading and measuring text files needs no Parquet
    import pyarrow.parquet as pq  # noqa: PLC0415

    users, items, values = ratings.coo()
    in_stream = np.arange(len(values)) if times is None else np.argsort(times.stream)
    columns = {
        "user": pa.DictionaryArray.from_arrays(users[in_stream], user_ids),
        "item": pa.DictionaryArray.from_arrays(items[in_stream], item_ids),
        "rating": values[in_stream],
        **({} if times is None else {"timestamp": times.seconds[in_stream]}),
    }
    pq.write_table(pa.table(columns), path, compression="zstd")


def train_folds(
    folds: Iterable[Data],
    n_folds: int,
    params: gpu.Params,
    backend: gpu.Backend,
    on_line: OnLine,
    out: Path | None = None,
) -> dict[str, Any]:
    """`train` on each of `folds`, cuts in time; returns the mean of each metric of the closing lines."""
    closings = []
    for fold, data in enumerate(folds, start=1):
        closings.append(train(data, params, backend, lambda _: None, out))
        on_line({"fold": fold, "of": n_folds, **{n: v for n, v in closings[-1].items() if n not in ("done", "chosen")}})
    metrics = closing_line.metrics_of(closings[-1])
    names = [name for name in metrics if name.startswith(("test_", "baseline_"))]
    means = {name: sum(closing[name] for closing in closings) / n_folds for name in names}
    return {"done": True, "algorithm": params.algorithm, "folds": n_folds, **means}


def order_of(file: RatingsFile, split: Split, fraction: float, seed: int) -> tuple[NDArray[np.int64], int]:
    """(an order of the N ratings of `file`, how many of the first ones are held out).

    Args:
        split: `random`: a permutation. `time`: the newest first. `last`: the newest of each user who has two or more.
            Of equal times the later one in the file is newer.
        fraction: share of the ratings to hold out, of `random` and `time`.
        seed: of the permutation.

    Raises:
        InvalidInput: a rating has no time, and the split needs it.
    """
    n = len(file.values)
    if split == "random":
        return np.random.default_rng(seed).permutation(n), round(fraction * n)
    if file.timestamps is None:
        raise InvalidInput(f"Invalid split {split}: expected ratings with times, got a file without")
    check_times(split, file.timestamps)
    newest = np.lexsort((np.arange(n), file.timestamps))[::-1]
    if split == "time":
        return newest, round(fraction * n)
    _, users, counts = np.unique(np.asarray(file.users), return_inverse=True, return_counts=True)
    of_newest = users[newest]
    _, firsts = np.unique(of_newest, return_index=True)
    is_last = np.zeros(n, dtype=np.bool_)
    is_last[firsts] = True
    is_last &= counts[of_newest] > 1
    return np.concatenate([newest[is_last], newest[~is_last]]), int(np.count_nonzero(is_last))


def check_times(split: Split, seconds: NDArray[np.float64]) -> None:
    """Raise `InvalidInput` if one of the times is NaN."""
    if n_missing := int(np.count_nonzero(np.isnan(seconds))):
        raise InvalidInput(f"Invalid split {split}: expected a time of each rating, got {n_missing:,} without")


def numbered(
    file: RatingsFile, users: IdTable | None = None, items: IdTable | None = None
) -> tuple[IdTable, IdTable, RowsOfFile]:
    """Convert the ids of a file to rows; new ids are appended to the tables `users` and `items`."""
    users = IdTable() if users is None else users
    items = IdTable() if items is None else items
    values = np.asarray(file.values, dtype=np.float32)
    ids = users.rows_or_new(file.users), items.rows_or_new(file.items)
    rows = RowsOfFile(*ids, values, file.timestamps, np.arange(len(values)))
    return users, items, rows


def saved_model(folder: Path) -> snapshot.Snapshot:
    """The snapshot in `folder`, or the newest of the versions below it.

    Raises:
        InvalidInput: there is none.
    """
    if not (folder / snapshot.MANIFEST_FILE).exists():
        versions = snapshot.versions(folder)
        if not versions:
            raise InvalidInput(f"Invalid model: expected a folder written by `nearfield train --out`, got {folder}")
        folder = folder / versions[0]
    return snapshot.load(folder.parent, folder.name)


def topics(snapshot: Snapshot, n: int) -> Iterator[dict[str, Any]]:
    """The strongest `n` items and users of each factor, strongest factor first.

    Each is `{"topic", "weight", "items", "users"}`: the number of the factor from 0, the length of its row of H (its
    column of W has length 1), and ids in order of descending entries, without those whose entry is 0.

    Raises:
        InvalidInput: the model is not an NMF model; only those have non-negative factors that can be read as topics.
    """
    model = snapshot.model
    if not model.params.is_nonnegative:
        raise InvalidInput(f"Invalid model: expected one trained by nmf, got {model.params.algorithm}")
    weights = np.linalg.norm(model.item_factors, axis=0)
    sides = {"items": (model.item_factors, snapshot.item_ids), "users": (model.user_factors, snapshot.user_ids)}
    for k in np.argsort(-weights, kind="stable").tolist():
        strongest = {}
        for name, (factors, ids) in sides.items():
            factor = factors[:, k]
            best = np.argsort(-factor, kind="stable")[:n]
            is_there = factor[best] > SHARE * factor.max(initial=0.0)
            strongest[name] = [ids[row] for row in best[is_there].tolist()]
        yield {"topic": k, "weight": float(weights[k]), **strongest}
