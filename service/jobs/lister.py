"""The process behind `POST /admin/lists`: lists for many users, from a snapshot and the log, to a Parquet file.

It writes `TrainerMessage`s as JSON to stdout for the supervisor that started it. Try `python -m service.jobs.lister
--help`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gpu
from service.base import imports, tuning
from service.engine.lists.filters import Filters
from service.engine.queries import Recommend
from service.engine.queries.document_queries import UnknownScenario
from service.engine.queries.rules import check_rules
from service.engine.queries.scenario_body import ScenarioBody, for_a_file
from service.engine.rebuilt import Rebuilt, history_at, known_users, rebuild
from service.jobs.trainer_messages import TrainerMessage, send
from service.settings.data_sets import parse_names
from service.settings.event_types import parse_event_types
from service.settings.half_lives import parse_half_lives
from service.settings.model_names import by_preference
from service.storage import files, list_files
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot
from service.telemetry import logs

BATCH_USERS = 256
GROUP_ROWS = 1 << 17  # rows of a row group
SCHEMA = pa.schema([("user", pa.string()), ("rank", pa.int32()), ("item", pa.string()), ("score", pa.float64())])
OnProgress = Callable[[float], None]


def main(arguments: list[str] | None = None) -> int:
    """Make lists by the options; exit status 0 if the file was written."""
    parser = argparse.ArgumentParser(prog="service.jobs.lister", description=main.__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with ratings/ and snapshots/")
    parser.add_argument("--job", required=True, help="id of the job, and name of the file")
    parser.add_argument("--default-models", required=True, type=parse_names, help="as the setting")
    parser.add_argument("--watermark", type=StreamId.parse, required=True, help="stream id of the last entry to read")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--query", type=Path, help="file of a Recommend as JSON")
    asked.add_argument("--scenario", help="name of a scenario, which is read at the last entry")
    parser.add_argument("--model", help="name of a live model; default: that of the query, or the preferred one")
    parser.add_argument("--user-filter", help="canonical text of a filter of users, who alone get lists")
    parser.add_argument("--events", type=parse_event_types, required=True, help="weights of events")
    parser.add_argument("--half-lives", type=parse_half_lives, required=True, help="as the setting")
    parser.add_argument("--repeat", default="auto", choices=("auto", "never", "allow"), help="as the setting")
    parser.add_argument("--seen-types", default=(), type=parse_names, help="as the setting")
    parser.add_argument("--backend", default="auto")
    options = parser.parse_args(arguments)
    tuning.limit_blas()
    imports.for_models()
    try:
        backend = gpu.choose(options.backend).load()
        description = f"{backend.name}: {backend.reason}"
        history = history_at(RatingLog(options.data / "ratings"), options.watermark, options.events)
        if options.scenario is None:
            query = msgspec.json.decode(options.query.read_bytes(), type=Recommend, strict=True)
        else:
            body, _ = history.documents.find("scenario", options.scenario, UnknownScenario)
            query = for_a_file(check_rules(ScenarioBody.of(options.scenario, body).query()))
        live = live_versions.read_all(options.data)
        answering = by_preference(live.versions.keys() - live.shadows, options.default_models)
        version = live.versions[live_versions.chosen(options.model or query.model, answering)]
        rebuilt = rebuild(
            snapshot.load(options.data / "snapshots", version),
            history,
            options.watermark,
            backend,
            options.half_lives,
            options.repeat,
            options.seen_types,
        )
        tuning.settle()  # else collections of the whole state, while lists are made, take a third of the time
        path = list_files.path_of(options.data, options.job)
        n_users = write(
            rebuilt,
            query,
            path,
            lambda share: send(TrainerMessage(share, {}, description, ranks=0, step="ranking")),
            options.user_filter,
        )
        list_files.prune(options.data)
        metrics = {"users": float(n_users)}
        last = TrainerMessage(1.0, metrics, description, "succeeded", ranks=0, version=version)
    except Exception as error:  # any failure becomes the error of the job
        last = TrainerMessage(outcome="failed", ranks=0, error=f"{type(error).__name__}: {error}")
    send(last)
    return 1 if last.outcome == "failed" else 0


def write(
    rebuilt: Rebuilt,
    query: Recommend,
    path: Path,
    on_progress: OnProgress = lambda share: None,
    user_filter: str | None = None,
) -> int:
    """Write lists to `path`, which appears when it is complete; return the number of users.

    Args:
        rebuilt: the state to list from.
        query: length, filter and further conditions, for its users; None: for all. With the fallback `none` those whom
            the history does not know are left out.
        path: the file: user, rank (from 1), item and score, in the order of users and ranks.
        on_progress: called with the share that is done.
        user_filter: canonical text of a filter of the users who get lists; None: all.
    """
    users, history = known_users(rebuilt.history), rebuilt.history
    if query.users is not None:
        known = set(users) if query.fallback == "none" or user_filter is not None else None
        users = [user for user in query.users if known is None or user in known]
    if user_filter is not None:
        passes = Filters(history.user_attributes.index, history.users).which_pass(
            user_filter, history.users.rows(users)
        )
        users = [user for user, is_in in zip(users, passes, strict=True) if is_in]
    metadata = {"nearfield.as_of": str(rebuilt.as_of), "nearfield.model_version": rebuilt.live_model.shown_version}
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with (
        files.new_file(path) as file,
        pq.ParquetWriter(pa.PythonFile(file, "w"), SCHEMA.with_metadata(metadata), compression="zstd") as writer,
    ):
        held, n_held, n_done = list[pa.RecordBatch](), 0, 0
        for batch in lists(rebuilt, query, users):
            held.append(batch)
            n_held, n_done = n_held + batch.num_rows, min(n_done + BATCH_USERS, len(users))
            if n_held >= GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(held))
                held, n_held = [], 0
                on_progress(n_done / len(users))
        if held:
            writer.write_table(pa.Table.from_batches(held))
    return len(users)


def lists(rebuilt: Rebuilt, query: Recommend, users: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The lists of `users`, a batch of Arrow for each `BATCH_USERS` of them, as `GET /recommend` answers them.

    Raises:
        InvalidRequest: the filter uses an unknown name.
    """
    for first in range(0, len(users), BATCH_USERS):
        batch = msgspec.structs.replace(query, user=None, users=users[first : first + BATCH_USERS])
        (answer,) = rebuilt.ranking.answer([batch], rebuilt.as_of)
        if isinstance(answer, Exception):
            raise answer
        lengths = np.array([len(list_.items) for list_ in answer])
        items = [item for list_ in answer for item in list_.items]
        ends = np.cumsum(lengths)
        user_rows = pa.array(np.repeat(np.arange(len(answer)), lengths))
        columns = [
            pa.array([list_.user for list_ in answer], pa.string()).take(user_rows),
            pa.array((np.arange(len(items)) - np.repeat(ends - lengths, lengths) + 1).astype(np.int32)),
            pa.array([item.item for item in items], pa.string()),
            pa.array([item.score for item in items], pa.float64()),
        ]
        yield pa.record_batch(columns, schema=SCHEMA)


if __name__ == "__main__":
    logs.to_stderr_alone()
    sys.exit(main())
