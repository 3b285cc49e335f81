"""The process behind `POST /admin/sources/{source}/undo`: what to write so that a source has never sent anything.

It loads two histories: that of the service, and one without the rows of the source (docs/decisions/0123). Where the
ratings of both differ, those of the second are what to write. So what came since, merged and forgotten users count as
they do at a start. It writes `TrainerMessage`s as JSON to stdout. Try `python -m service.jobs.undo_plan --help`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gpu.data.host_ids import NO_ROW, IdColumn
from service.base import imports, tuning
from service.engine.state.history import History
from service.engine.state.id_table import IdTable
from service.engine.state.sources import SourceMarks
from service.jobs.export_rows import retractions
from service.jobs.trainer_messages import TrainerMessage, send
from service.jobs.undo import Start, Undo
from service.storage.events import BATCH_RATINGS, ZERO, RatingEvent, Retraction, StreamId
from service.storage.log.ownership import Owners
from service.storage.log.rating_log import RatingLog
from service.telemetry import logs

COLUMNS = "kind", "user", "item", "event_id", "source", "offset", "owner"


def main(arguments: list[str] | None = None) -> int:
    """Compare by the options; exit status 0 if the file was written."""
    parser = argparse.ArgumentParser(prog="service.jobs.undo_plan", description=main.__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with ratings/")
    parser.add_argument("--undo", required=True, help="an Undo as JSON")
    parser.add_argument("--watermark", type=StreamId.parse, required=True, help="stream id of the last entry to undo")
    parser.add_argument("--out", type=Path, required=True, help="file to write: lines for `service.jobs.undo.Undoing`")
    options = parser.parse_args(arguments)
    tuning.limit_blas()
    imports.for_models()
    try:
        undo = msgspec.json.decode(options.undo, type=Undo)
        metrics = write(RatingLog(options.data / "ratings"), undo, options.watermark, options.out)
        last = TrainerMessage(1.0, metrics, outcome="succeeded", ranks=0)
    except Exception as error:  # any failure becomes the error of the job
        last = TrainerMessage(outcome="failed", ranks=0, error=f"{type(error).__name__}: {error}")
    send(last)
    return 1 if last.outcome == "failed" else 0


class WithoutSource(RatingLog):
    """A log as it would be if a source had sent nothing up to the position `upto`."""

    def __init__(self, log: RatingLog, undo: Undo, upto: StreamId) -> None:
        super().__init__(log.folder)
        self._undo, self._upto = undo, upto

    def read(self, after: StreamId = ZERO, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """See `RatingLog.read`; `columns` must have those of sources."""
        for batch in super().read(after, columns):
            are_gone = self.are_of_source(batch)
            yield batch.filter(pa.array(~are_gone)) if are_gone.any() else batch

    def are_of_source(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Whether the source sent each row. Other entries about it have no offset."""
        ms, seq = (batch.column(name).to_numpy() for name in ("ms", "seq"))
        are_of = equal(batch.column("source"), self._undo.source) & batch.column("offset").is_valid().to_numpy(False)
        if self._undo.key is not None and are_of.any():
            are_of &= equal(batch.column("owner").cast(pa.string()).fill_null(""), self._undo.key)
        found: NDArray[np.bool_] = are_of & ((ms < self._upto.ms) | ((ms == self._upto.ms) & (seq <= self._upto.seq)))
        return found


def equal(column: pa.Array, text: str) -> NDArray[np.bool_]:
    """Whether each value is `text`."""
    found: NDArray[np.bool_] = pc.equal(column.cast(pa.string()), text).fill_null(False).to_numpy(zero_copy_only=False)
    return found


class Ratings(NamedTuple):
    """Ratings in the order of their pairs.

    Attributes:
        pairs: int64 (B,), row of the user << 32 | row of the item.
        values: float32 (B,).
        timestamps: float64 (B,), Unix seconds.
        positions: int64 (B,), when they came.
    """

    pairs: NDArray[np.int64]
    values: NDArray[np.float32]
    timestamps: NDArray[np.float64]
    positions: NDArray[np.int64]

    @classmethod
    def of(cls, history: History, users: IdTable, items: IdTable) -> Ratings:
        """All ratings of a history, with the rows that `users` and `items` give their ids."""
        table = history.table
        starts, lengths, item_rows, values = table.rows
        user_rows = np.repeat(np.arange(table.n_users), lengths)
        places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(len(user_rows))
        theirs, its = (
            ids.rows_of(IdColumn.of(old.ids(range(len(old)))))
            for ids, old in ((users, history.users), (items, history.items))
        )
        pairs = theirs[user_rows].astype(np.int64) << 32 | its[item_rows[places]]
        order = np.argsort(pairs)
        at = places[order]
        return cls(pairs[order], values[at], table.timestamps[at], table.positions[at])


def write(log: RatingLog, undo: Undo, upto: StreamId, path: Path) -> dict[str, float]:
    """Write to `path` what to write to the stream, and return how much of each kind.

    Args:
        log: has all entries up to `upto`.
        undo, upto: what to undo, and its last entry.
        path: a line for each batch: a `Start`, arrays of ratings, and retractions.

    Raises:
        CorruptLog: a segment is torn or altered.
    """
    without, as_of, owners = WithoutSource(log, undo, upto), log.last_id(), log.owners()
    now, then = History(), History()
    now.load(log, upto=as_of)
    then.load(without, upto=as_of)
    is_, was = Ratings.of(now, now.users, now.items), Ratings.of(then, now.users, now.items)
    stay = np.isin(was.pairs, is_.pairs, assume_unique=True)
    places = np.searchsorted(is_.pairs, was.pairs[stay])
    stay[stay] = (is_.values[places] == was.values[stay]) & (is_.timestamps[places] == was.timestamps[stay])
    restored = np.flatnonzero(~stay)
    restored = restored[np.argsort(was.positions[restored])]  # the oldest first
    deleted = is_.pairs[~np.isin(is_.pairs, was.pairs, assume_unique=True)]
    sent, events, n_without_id = of_source(without, as_of, now, owners)
    taken_back = [event for event in events if now.remembers(*event) and not then.remembers(*event)]
    retracted = retractions(log, as_of, owners) if events else {}
    n_kept = n_without_id + sum(event not in retracted for event in events) - len(taken_back)
    changed = np.concatenate((deleted, was.pairs[restored]))
    with path.open("wb") as file:
        file.write(msgspec.json.encode(Start(str(as_of), len(changed) + len(taken_back))) + b"\n")
        values = [None] * len(deleted) + was.values[restored].tolist()
        times = [upto.ms / 1000] * len(deleted) + was.timestamps[restored].tolist()
        for first in range(0, len(changed), BATCH_RATINGS):
            part = slice(first, first + BATCH_RATINGS)
            users, items = now.users.ids(changed[part] >> 32), now.items.ids(changed[part] & 0xFFFFFFFF)
            batch = [*map(RatingEvent, users, items, values[part], times[part])]
            file.write(msgspec.json.encode(batch) + b"\n")
        file.writelines(msgspec.json.encode(Retraction(*event)) + b"\n" for event in taken_back)
    return {
        "ratings_deleted": float(len(deleted)),
        "ratings_restored": float(len(restored)),
        "ratings_kept": float(np.isin(sent, changed, invert=True).sum()),
        "events_taken_back": float(len(taken_back)),
        "events_kept": float(n_kept),
    }


def of_source(
    log: WithoutSource, as_of: StreamId, now: History, owners: Owners
) -> tuple[NDArray[np.int64], list[tuple[str, str]], int]:
    """What the source has sent to users who are there at `as_of`.

    Returns:
        the pairs of its ratings, by the rows of `now`, int64 (P,); (user, event_id) of its events, without repetitions;
        and the number of its events without an id.
    """
    pairs, events, n_without_id, marks = [np.zeros(0, dtype=np.int64)], dict[tuple[str, str], None](), 0, SourceMarks()
    for batch in RatingLog(log.folder).read(columns=COLUMNS):
        rows = marks.new_rows_of(batch)
        rows = rows.filter(pa.array(log.are_of_source(rows)))
        columns = [rows.column(name).to_pylist() for name in ("ms", "seq", "kind", "user", "item", "event_id")]
        users, items = list[str](), list[str]()
        for ms, seq, kind, name, item, event_id in zip(*columns, strict=True):
            user = owners.owner(name, StreamId(ms, seq), as_of) if name in owners.ids else name
            if user is None or user not in now.users:
                continue
            if kind == "rating":
                users.append(user)
                items.append(item)
            elif event_id is None:
                n_without_id += 1
            else:
                events[user, event_id] = None
        theirs, its = (ids.rows_of(IdColumn.of(of)) for ids, of in ((now.users, users), (now.items, items)))
        pairs.append((theirs.astype(np.int64) << 32 | its)[its != NO_ROW])
    return np.unique(np.concatenate(pairs)), list(events), n_without_id


if __name__ == "__main__":
    logs.to_stderr_alone()
    sys.exit(main())
